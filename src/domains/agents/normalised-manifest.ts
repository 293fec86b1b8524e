import type { Timing } from '../../contract/timing.ts'
import { WORKSPACE_FOLDER } from '../../contract/workspace-path.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { type EnvValue, envOf } from '../manifests/env-values.ts'
import type { OutputHandler } from '../manifests/output-handler.ts'
import { durationMs, millicores, sizeBytes } from '../manifests/units.ts'
import type { WrittenValidator } from './execution-schema.ts'
import type { WrittenManifest } from './manifest-schema.ts'

/** A normalised manifest: every default filled in, times in milliseconds, sizes in bytes. */
export type AgentManifest = Readonly<{
  name: string
  version: string
  description: string
  labels: Readonly<Record<string, string>>
  annotations: Readonly<Record<string, string>>
  runtime: AgentRuntime
  /** Without an instruction the caller's message is the whole prompt. */
  task: Readonly<{ instruction: string; systemPrompt: string | null; promptTemplate: string | null; inputData: Json }>
  execution: AgentExecution
  /** Names of tools; the agent has no others. */
  tools: readonly string[]
  /** Commands of cmd.run with the first arguments each may have, any if the list is empty; null: any command. */
  subcommandAllowlist: Readonly<Record<string, readonly string[]>> | null
  /** Null: the manifest does not say, and the installation's defaults apply. */
  network: Readonly<{
    mode: 'allow' | 'deny' | 'none'
    allowlist: readonly string[]
    denylist: readonly string[]
  }> | null
  filesystem: Readonly<{ read: readonly string[]; write: readonly string[]; readOnly: boolean }> | null
  resources: Readonly<{ cpuMillicores: number; memoryBytes: number; diskBytes: number; timeoutMs: number }>
  securityContext: string | null
  volumes: readonly AgentVolume[]
  env: Readonly<Record<string, EnvValue>>
  /** A JSON Schema that compiles. */
  inputSchema: Json
  context: readonly AgentContext[]
  /** Null if there is no schedule, or if it is `manual`. */
  schedule: Timing | null
  startupScript: string | null
  /** Receives the final answer on standard input instead of cat. */
  bootstrapPath: string | null
  outputHandler: OutputHandler | null
}>

/** Either a pair of the standard registry or an image. */
type AgentRuntime = Readonly<{
  language: string | null
  version: string | null
  image: string | null
  imagePullPolicy: 'IfNotPresent' | 'Never'
  isolation: 'inherit' | 'process'
  model: string
  temperature: number | null
}>

type AgentExecution = Readonly<{
  mode: 'one-shot' | 'iterative'
  maxIterations: number
  iterationTimeoutMs: number
  llmTimeoutMs: number
  /** Null: repeated if the tool only reads or is idempotent, else reported to the model. */
  interruptedCalls: 'retry' | 'report' | null
  validation: readonly AgentValidator[]
  toolValidation: readonly SemanticValidator[]
  delivery: readonly Delivery[]
}>

export type SemanticValidator = Readonly<{
  type: 'semantic'
  judgeAgent: string
  criteria: string
  minScore: number
  minConfidence: number
  timeoutMs: number
}>
type AgentValidator =
  | Readonly<{ type: 'exit_code'; expected: number; minScore: number }>
  | Readonly<{ type: 'json_schema'; schema: Json; minScore: number }>
  /** `target`: stdout, stderr, or a file of the workspace. */
  | Readonly<{ type: 'regex'; pattern: string; target: string; minScore: number }>
  | SemanticValidator
  | Readonly<{
      type: 'multi_judge'
      judges: readonly Readonly<{ agent: string; weight: number }>[]
      criteria: string
      consensus: 'weighted_average' | 'majority' | 'unanimous' | 'best_of_n'
      minJudgesRequired: number
      minScore: number
      minConfidence: number
      timeoutMs: number
    }>

type HttpTarget = Readonly<{
  url: string
  method: 'POST' | 'PUT' | 'PATCH'
  headers: Readonly<Record<string, EnvValue>>
  timeoutMs: number
}>
type Delivery = HttpTarget & Readonly<{ name: string; condition: 'on_success' | 'on_failure' | 'always' }>

type AgentVolume = Readonly<{
  name: string
  storageClass: 'ephemeral' | 'persistent'
  mountPath: string
  readOnly: boolean
  sizeLimitBytes: number
  ttlHours: number | null
}>

type AgentContext =
  | Readonly<{ type: 'text'; content: string; description: string | null }>
  | Readonly<{ type: 'file' | 'directory'; path: string; description: string | null }>
  | Readonly<{ type: 'url'; url: string; description: string | null }>

const WEBHOOK_TIMEOUT_MS = 30_000

export function normalised({ metadata, spec }: WrittenManifest): AgentManifest {
  const { runtime, task, security } = spec
  const allowlist = allowlistOf(spec.builtin_dispatchers)
  return {
    ...metadata,
    runtime: {
      language: runtime.language ?? null,
      version: runtime.version ?? null,
      image: runtime.image ?? null,
      imagePullPolicy: runtime.image_pull_policy === 'Never' ? 'Never' : 'IfNotPresent',
      isolation: runtime.isolation === 'process' ? 'process' : 'inherit',
      model: runtime.model,
      temperature: runtime.temperature ?? null,
    },
    task: {
      instruction: task.instruction ?? '',
      systemPrompt: task.system_prompt?.trim() ? task.system_prompt : null,
      promptTemplate: task.prompt_template?.trim() ? task.prompt_template : null,
      inputData: jsonOf(task.input_data),
    },
    execution: executionOf(spec.execution),
    tools: [...new Set(allowlist === null ? spec.tools : [...spec.tools, 'cmd.run'])],
    subcommandAllowlist: allowlist,
    network: security.network ?? null,
    filesystem: filesystemOf(security.filesystem),
    resources: {
      cpuMillicores: millicores(security.resources.cpu),
      memoryBytes: sizeBytes(security.resources.memory),
      diskBytes: sizeBytes(security.resources.disk),
      timeoutMs: durationMs(security.resources.timeout),
    },
    securityContext: spec.security_context ?? null,
    volumes: spec.volumes.map(volumeOf),
    env: envOf(spec.env),
    inputSchema: jsonOf(spec.input_schema),
    context: spec.context.map(({ description, ...rest }) => ({ ...rest, description: description ?? null })),
    schedule: scheduleOf(spec.schedule),
    startupScript: spec.advanced.startup_script ?? null,
    bootstrapPath: spec.advanced.bootstrap_path ?? null,
    outputHandler: spec.output_handler ?? null,
  }
}

/** If only read paths are listed, nothing may be written. */
function filesystemOf(written: WrittenManifest['spec']['security']['filesystem']): AgentManifest['filesystem'] {
  if (written === undefined) return null
  const { read, write = read === undefined ? [WORKSPACE_FOLDER] : [], read_only: readOnly } = written
  return { read: read ?? [WORKSPACE_FOLDER], write, readOnly }
}

const jsonOf = (value: unknown): Json => (value === undefined ? null : (value as Json))

/**
 * One iteration if the manifest says one-shot and no number; five if it says anything about the execution; three if it
 * says nothing.
 */
function executionOf(execution: WrittenManifest['spec']['execution']): AgentExecution {
  const standard = execution === undefined ? 3 : execution.mode === 'one-shot' ? 1 : 5
  return {
    mode: execution?.mode ?? 'one-shot',
    maxIterations: execution?.max_iterations ?? standard,
    iterationTimeoutMs: durationMs(execution?.iteration_timeout ?? '600s'),
    llmTimeoutMs: (execution?.llm_timeout_seconds ?? 300) * 1_000,
    interruptedCalls: execution?.interrupted_calls ?? null,
    validation: (execution?.validation ?? []).map(validatorOf),
    toolValidation: (execution?.tool_validation ?? [])
      .map(validatorOf)
      .filter(({ type }) => type === 'semantic') as SemanticValidator[],
    delivery: (execution?.delivery?.destinations ?? []).map(({ name, condition, type, ...targets }) => ({
      name,
      condition,
      ...targetOf((type === 'rest' ? targets.rest : targets.webhook)!),
    })),
  }
}

type WrittenTarget = {
  url: string
  method: HttpTarget['method']
  headers: Record<string, string>
  timeout_seconds?: number | undefined
}
const targetOf = ({ url, method, headers, timeout_seconds }: WrittenTarget): HttpTarget => ({
  url,
  method,
  headers: envOf(headers),
  timeoutMs: timeout_seconds === undefined ? WEBHOOK_TIMEOUT_MS : timeout_seconds * 1_000,
})

function validatorOf(validator: WrittenValidator): AgentValidator {
  const { type, min_score: minScore } = validator
  if (type === 'exit_code') return { type, expected: validator.expected, minScore }
  if (type === 'json_schema') return { type, schema: jsonOf(validator.schema), minScore }
  if (type === 'regex') return { type, pattern: validator.pattern, target: validator.target, minScore }
  const judged = {
    criteria: validator.criteria,
    minScore,
    minConfidence: validator.min_confidence,
    timeoutMs: validator.timeout_seconds * 1_000,
  }
  if (type === 'semantic') return { type, judgeAgent: validator.judge_agent, ...judged }
  return {
    type,
    judges: validator.judges.map((judge) => (typeof judge === 'string' ? { agent: judge, weight: 1 } : judge)),
    consensus: validator.consensus,
    minJudgesRequired: validator.min_judges_required,
    ...judged,
  }
}

function allowlistOf(dispatchers: WrittenManifest['spec']['builtin_dispatchers']): Record<string, string[]> | null {
  const lists = dispatchers
    .filter(({ enabled }) => enabled)
    .flatMap(({ capabilities }) => capabilities)
    .filter(({ name, subcommand_allowlist }) => name === 'cmd.run' && subcommand_allowlist !== undefined)
    .map(({ subcommand_allowlist }) => subcommand_allowlist!)
  if (lists.length === 0) return null
  const allowed = new Map<string, string[]>()
  for (const list of lists) {
    const entries = Array.isArray(list)
      ? list.map((command): [string, string[]] => [command.trim(), []])
      : Object.entries(list)
    for (const [command, first] of entries) allowed.set(command, [...(allowed.get(command) ?? []), ...first])
  }
  return Object.fromEntries(allowed)
}

const volumeOf = (volume: WrittenManifest['spec']['volumes'][number]): AgentVolume => ({
  name: volume.name,
  storageClass: volume.storage_class,
  mountPath: volume.mount_path.replace(/\/+$/, ''),
  readOnly: volume.access_mode === 'read-only',
  sizeLimitBytes: sizeBytes(volume.size_limit),
  ttlHours: volume.ttl_hours ?? null,
})

function scheduleOf(schedule: WrittenManifest['spec']['schedule']): Timing | null {
  if (schedule === undefined || schedule.type === 'manual') return null
  const { enabled, overlap, missed } = schedule
  const firing = { enabled, overlap, missed, input: jsonOf(schedule.input), jitterMs: 0 }
  return schedule.type === 'cron'
    ? { type: 'cron', cron: schedule.cron, timezone: schedule.timezone, ...firing }
    : { type: 'interval', everyMs: schedule.seconds * 1_000, ...firing }
}
