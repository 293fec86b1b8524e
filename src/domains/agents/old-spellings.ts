import {
  absolute,
  accessModes,
  moderniseConsensus,
  moderniseDelivery,
  moderniseHandler,
  moderniseLimits,
  moderniseSchedule,
  moderniseSize,
  moderniseTemplate,
  movePlaces,
} from './old-places.ts'
import { isFields as isPlainFields, type YamlFields } from './read-yaml.ts'
import { moderniseTools } from './tool-objects.ts'
import { wholeVersion } from './versions.ts'

type Name =
  | 'kind'
  | 'apiVersion'
  | 'metadata'
  | 'spec'
  | 'version'
  | 'volumes'
  | 'execution'
  | 'task'
  | 'env'
  | 'tools'
  | 'config'
  | 'subcommand_allowlist'
  | 'name'
  | 'builtin_dispatchers'
  | 'size_limit'
  | 'size_limit_mb'
  | 'access_mode'
  | 'output_schema'
  | 'mode'
  | 'validation'
  | 'tool_validation'
  | 'type'
  | 'system'
  | 'must_succeed'
  | 'output'
  | 'script'
  | 'semantic'
  | 'enabled'
  | 'format'
  | 'schema'
  | 'regex'
  | 'pattern'
  | 'prompt'
  | 'criteria'
  | 'threshold'
  | 'judge_agent'
  | 'fallback_on_unavailable'
  | 'value'
  | 'security'
  | 'context'
  | 'path'
  | 'filesystem'
  | 'network'
  | 'schedule'
  | 'output_handler'
  | 'delivery'
  | 'advanced'
  | 'bootstrap_path'
/** Fields that have not been checked yet, with the names that are looked at here. */
type Written = YamlFields & { [N in Name]?: unknown }
const isFields = (value: unknown): value is Written => isPlainFields(value)

/**
 * Manifests in the wild use older and looser spellings. Where the meaning is clear they are rewritten in place, each with a
 * remark that names the spelling of today; what has no clear meaning is left for the checks to refuse.
 */
export type Remark = (field: string, advice: string) => void
/** For what would be dropped otherwise, though its author relies on it. */
export type Refuse = (field: string, problem: string) => void

export function modernise(manifest: Written, remark: Remark, refuse: Refuse): void {
  if (manifest.kind === 'AgentManifest' || manifest.kind === 'agent') {
    manifest.kind = 'Agent'
    remark('kind', 'write Agent')
  }
  if (manifest.apiVersion === 'aegis.ai/v1' || manifest.apiVersion === '100monkeys.ai/v1alpha1') {
    manifest.apiVersion = '100monkeys.ai/v1'
    remark('apiVersion', 'write 100monkeys.ai/v1')
  }
  if (isFields(manifest.metadata)) moderniseVersion(manifest.metadata, remark)
  const { spec } = manifest
  if (!isFields(spec)) return
  movePlaces(spec, remark)
  moderniseEnv(spec, remark)
  moderniseTools(spec, remark, refuse)
  if (isFields(spec.security)) {
    moderniseLimits(spec.security, remark)
    moderniseSecurity(spec.security, remark)
  }
  if (Array.isArray(spec.context)) moderniseContext(spec.context, remark)
  if (isFields(spec.advanced)) moderniseBootstrap(spec.advanced, remark)
  if (Array.isArray(spec.volumes)) moderniseVolumes(spec.volumes, remark)
  const hadExecution = isFields(spec.execution)
  moderniseOutputSchema(spec, remark)
  if (isFields(spec.execution)) moderniseExecution(spec.execution, hadExecution, remark)
  if (isFields(spec.task)) moderniseTask(spec.task, remark)
  if (isFields(spec.schedule)) moderniseSchedule(spec.schedule, remark)
  if (isFields(spec.output_handler)) moderniseHandler(spec.output_handler, remark)
}

/** `v1.2`, `1` and `1.0` mean one version only; anything else is refused later. */
export function moderniseVersion(metadata: Written, remark: Remark): void {
  const { version } = metadata
  if (typeof version !== 'string') return
  const whole = wholeVersion(version)
  if (whole === undefined || whole === version) return
  metadata.version = whole
  remark('metadata.version', `write "${whole}"`)
}

function moderniseEnv(spec: Written, remark: Remark): void {
  if (!Array.isArray(spec.env)) return
  const pairs = spec.env.filter(
    (entry): entry is { name: string; value: unknown } =>
      isFields(entry) && typeof entry.name === 'string' && 'value' in entry,
  )
  if (pairs.length !== spec.env.length) return
  spec.env = Object.fromEntries(pairs.map(({ name, value }) => [name, typeof value === 'string' ? value : `${value}`]))
  remark('spec.env', 'write it as NAME: value, not as a list')
}

function moderniseContext(context: readonly unknown[], remark: Remark): void {
  for (const [index, entry] of context.entries()) {
    if (!isFields(entry) || typeof entry.path !== 'string' || absolute(entry.path) === entry.path) continue
    entry.path = absolute(entry.path)
    remark(`spec.context[${index}].path`, `write ${String(entry.path)}`)
  }
}

function moderniseBootstrap(advanced: Written, remark: Remark): void {
  const { bootstrap_path: path } = advanced
  if (typeof path !== 'string' || path === '' || absolute(path) === path) return
  advanced.bootstrap_path = absolute(path)
  remark('spec.advanced.bootstrap_path', `write ${absolute(path)}`)
}

/** An address of nothing but a host is that host. */
function moderniseSecurity({ filesystem, network }: Written, remark: Remark): void {
  const host = (text: string): string => /^https?:\/\/([^/?#@:]+)\/?$/i.exec(text)?.[1] ?? text
  rewriteLists(filesystem, 'spec.security.filesystem', ['read', 'write'], absolute, remark)
  rewriteLists(network, 'spec.security.network', ['allowlist', 'denylist'], host, remark)
}

function rewriteLists(
  fields: unknown,
  at: string,
  names: readonly string[],
  rewrite: (text: string) => string,
  remark: Remark,
): void {
  if (!isFields(fields)) return
  for (const name of names) {
    const list = fields[name]
    if (!Array.isArray(list)) continue
    fields[name] = list.map((entry) => {
      if (typeof entry !== 'string' || entry === '' || rewrite(entry) === entry) return entry
      remark(`${at}.${name}`, `write ${rewrite(entry)}`)
      return rewrite(entry)
    })
  }
}

function moderniseVolumes(volumes: readonly unknown[], remark: Remark): void {
  for (const [index, volume] of volumes.entries()) {
    if (!isFields(volume)) continue
    const at = `spec.volumes[${index}]`
    renameField(volume, 'mount_point', 'mount_path', at, remark)
    if (volume.size_limit === undefined && typeof volume.size_limit_mb === 'number') {
      volume.size_limit = `${volume.size_limit_mb}Mi`
      remark(`${at}.size_limit_mb`, `write size_limit: "${volume.size_limit_mb}Mi"`)
      delete volume.size_limit_mb
    }
    if (typeof volume.access_mode === 'string' && accessModes[volume.access_mode] !== undefined) {
      volume.access_mode = accessModes[volume.access_mode]
      remark(`${at}.access_mode`, `write ${String(volume.access_mode)}`)
    }
    moderniseSize(volume, 'size_limit', at, remark)
    const only = volumes.length === 1 || volume.name === 'workspace'
    presume(volume, 'mount_path', only ? '/workspace' : `/workspace/${String(volume.name)}`, at, remark)
    presume(volume, 'size_limit', '1Gi', at, remark)
    presume(volume, 'storage_class', 'ephemeral', at, remark)
    presume(volume, 'access_mode', 'read-write', at, remark)
  }
}

function presume(fields: Written, name: string, value: string, at: string, remark: Remark): void {
  if (fields[name] !== undefined && fields[name] !== null) return
  fields[name] = value
  remark(`${at}.${name}`, `it is missing and taken as ${value}; write it`)
}

function renameField(fields: Written, old: string, name: string, at: string, remark: Remark): void {
  if (fields[old] === undefined || fields[name] !== undefined) return
  fields[name] = fields[old]
  delete fields[old]
  remark(`${at}.${old}`, `write ${name}`)
}

function moderniseOutputSchema(spec: Written, remark: Remark): void {
  if (!isFields(spec.output_schema)) return
  const execution = isFields(spec.execution) ? spec.execution : {}
  const validation = execution.validation ?? []
  if (!Array.isArray(validation)) return
  execution.validation = [...validation, { type: 'json_schema', schema: spec.output_schema }]
  spec.execution = execution
  delete spec.output_schema
  remark('spec.output_schema', 'write it as an entry of spec.execution.validation with type json_schema')
}

function moderniseExecution(execution: Written, isWritten: boolean, remark: Remark): void {
  const at = 'spec.execution'
  renameField(execution, 'max_retries', 'max_iterations', at, remark)
  if (execution.mode === 'oneshot' || execution.mode === 'one_shot') {
    execution.mode = 'one-shot'
    remark(`${at}.mode`, 'write one-shot')
  }
  if (!isWritten) return
  if (isFields(execution.delivery)) moderniseDelivery(execution.delivery, remark)
  if (isFields(execution.validation)) {
    execution.validation = validatorsOf(execution.validation, remark)
    remark(`${at}.validation`, 'write a list of validators, each with a type')
  }
  if (Array.isArray(execution.validation)) moderniseConsensus(execution.validation, `${at}.validation`, remark)
  if (isFields(execution.tool_validation) && typeof execution.tool_validation.type === 'string') {
    execution.tool_validation = [execution.tool_validation]
    remark(`${at}.tool_validation`, 'write a list of validators')
  }
  for (const list of ['validation', 'tool_validation'] as const) {
    const validators = execution[list]
    if (Array.isArray(validators)) moderniseJudges(validators, `${at}.${list}`, remark)
  }
}

/** Who judges is named by whatever an agent is named by elsewhere. */
function moderniseJudges(validators: readonly unknown[], at: string, remark: Remark): void {
  for (const [index, validator] of validators.entries()) {
    if (!isFields(validator)) continue
    const place = `${at}[${index}]`
    if (validator['type'] === 'semantic') {
      for (const old of ['agent', 'agent_id', 'judge']) renameField(validator, old, 'judge_agent', place, remark)
    }
    const { judges } = validator as { judges?: unknown }
    if (!Array.isArray(judges)) continue
    for (const [position, judge] of judges.entries()) {
      if (isFields(judge)) renameField(judge, 'agent_id', 'agent', `${place}.judges[${position}]`, remark)
    }
  }
}

/** The object form. What it cannot say in today's words stays in the list as it is, and is refused by name there. */
function validatorsOf(old: Written, remark: Remark): unknown[] {
  if (typeof old.type === 'string') return [old]
  const at = 'spec.execution.validation'
  const validators: unknown[] = []
  if (isFields(old.system) && old.system.must_succeed !== false) validators.push({ type: 'exit_code', expected: 0 })
  if (isFields(old.output)) {
    const { format, schema, regex, pattern } = old.output
    if (format === 'json' || schema !== undefined) validators.push({ type: 'json_schema', schema: schema ?? {} })
    const found = regex ?? pattern
    if (typeof found === 'string') validators.push({ type: 'regex', pattern: found })
  }
  if (old.script !== undefined) validators.push({ type: 'script' })
  if (isFields(old.semantic) && old.semantic.enabled !== false) {
    const { prompt, criteria, threshold, judge_agent, fallback_on_unavailable } = old.semantic
    validators.push({
      type: 'semantic',
      judge_agent: judge_agent ?? 'output-judge',
      criteria: criteria ?? prompt ?? 'The output does what the task asks for, completely and correctly.',
      min_score: threshold ?? 0.8,
    })
    if (fallback_on_unavailable === true) {
      remark(`${at}.semantic.fallback_on_unavailable`, 'leave it out: a judge that cannot answer fails the iteration')
    }
  }
  return validators
}

function moderniseTask(task: Written, remark: Remark): void {
  renameField(task, 'prompt', 'instruction', 'spec.task', remark)
  renameField(task, 'instructions', 'instruction', 'spec.task', remark)
  moderniseTemplate(task, remark)
}
