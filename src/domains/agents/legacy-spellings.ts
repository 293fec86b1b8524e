import { isFields as isPlainFields, type YamlFields } from '../manifests/read-yaml.ts'
import { wholeVersion } from '../manifests/versions.ts'
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
  moveFields,
} from './legacy-fields.ts'
import { moderniseTools } from './tool-objects.ts'

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
/** Unchecked fields, with the names used here. */
type Written = YamlFields & { [N in Name]?: unknown }
const isFields = (value: unknown): value is Written => isPlainFields(value)

/**
 * Existing manifests use older and looser spellings. If the meaning is clear they are rewritten in place, each with a warning
 * that names today's spelling; what has no clear meaning is left for the checks to refuse.
 */
export type Warn = (field: string, advice: string) => void
/** For a field that would be dropped, although its author relies on it. */
type Refuse = (field: string, problem: string) => void

export function modernise(manifest: Written, warn: Warn, refuse: Refuse): void {
  if (manifest.kind === 'AgentManifest' || manifest.kind === 'agent') {
    manifest.kind = 'Agent'
    warn('kind', 'write Agent')
  }
  if (manifest.apiVersion === 'aegis.ai/v1' || manifest.apiVersion === '100monkeys.ai/v1alpha1') {
    manifest.apiVersion = '100monkeys.ai/v1'
    warn('apiVersion', 'write 100monkeys.ai/v1')
  }
  if (isFields(manifest.metadata)) moderniseVersion(manifest.metadata, warn)
  const { spec } = manifest
  if (!isFields(spec)) return
  moveFields(spec, warn)
  moderniseEnv(spec, warn)
  moderniseTools(spec, warn, refuse)
  if (isFields(spec.security)) {
    moderniseLimits(spec.security, warn)
    moderniseSecurity(spec.security, warn)
  }
  if (Array.isArray(spec.context)) moderniseContext(spec.context, warn)
  if (isFields(spec.advanced)) moderniseBootstrap(spec.advanced, warn)
  if (Array.isArray(spec.volumes)) moderniseVolumes(spec.volumes, warn)
  const hadExecution = isFields(spec.execution)
  moderniseOutputSchema(spec, warn)
  if (isFields(spec.execution)) moderniseExecution(spec.execution, hadExecution, warn)
  if (isFields(spec.task)) moderniseTask(spec.task, warn)
  if (isFields(spec.schedule)) moderniseSchedule(spec.schedule, warn)
  if (isFields(spec.output_handler)) moderniseHandler(spec.output_handler, warn)
}

/** `v1.2`, `1` and `1.0` mean one version only; anything else is refused later. */
function moderniseVersion(metadata: Written, warn: Warn): void {
  const { version } = metadata
  if (typeof version !== 'string') return
  const whole = wholeVersion(version)
  if (whole === undefined || whole === version) return
  metadata.version = whole
  warn('metadata.version', `write "${whole}"`)
}

function moderniseEnv(spec: Written, warn: Warn): void {
  if (!Array.isArray(spec.env)) return
  const pairs = spec.env.filter(
    (entry): entry is { name: string; value: unknown } =>
      isFields(entry) && typeof entry.name === 'string' && 'value' in entry,
  )
  if (pairs.length !== spec.env.length) return
  spec.env = Object.fromEntries(pairs.map(({ name, value }) => [name, typeof value === 'string' ? value : `${value}`]))
  warn('spec.env', 'write it as NAME: value, not as a list')
}

function moderniseContext(context: readonly unknown[], warn: Warn): void {
  for (const [index, entry] of context.entries()) {
    if (!isFields(entry) || typeof entry.path !== 'string' || absolute(entry.path) === entry.path) continue
    entry.path = absolute(entry.path)
    warn(`spec.context[${index}].path`, `write ${String(entry.path)}`)
  }
}

function moderniseBootstrap(advanced: Written, warn: Warn): void {
  const { bootstrap_path: path } = advanced
  if (typeof path !== 'string' || path === '' || absolute(path) === path) return
  advanced.bootstrap_path = absolute(path)
  warn('spec.advanced.bootstrap_path', `write ${absolute(path)}`)
}

/** A URL that consists of a host only becomes that host. */
function moderniseSecurity({ filesystem, network }: Written, warn: Warn): void {
  const host = (text: string): string => /^https?:\/\/([^/?#@:]+)\/?$/i.exec(text)?.[1] ?? text
  rewriteLists(filesystem, 'spec.security.filesystem', ['read', 'write'], absolute, warn)
  rewriteLists(network, 'spec.security.network', ['allowlist', 'denylist'], host, warn)
}

function rewriteLists(
  fields: unknown,
  at: string,
  names: readonly string[],
  rewrite: (text: string) => string,
  warn: Warn,
): void {
  if (!isFields(fields)) return
  for (const name of names) {
    const list = fields[name]
    if (!Array.isArray(list)) continue
    fields[name] = list.map((entry) => {
      if (typeof entry !== 'string' || entry === '' || rewrite(entry) === entry) return entry
      warn(`${at}.${name}`, `write ${rewrite(entry)}`)
      return rewrite(entry)
    })
  }
}

function moderniseVolumes(volumes: readonly unknown[], warn: Warn): void {
  for (const [index, volume] of volumes.entries()) {
    if (!isFields(volume)) continue
    const at = `spec.volumes[${index}]`
    renameField(volume, 'mount_point', 'mount_path', at, warn)
    if (volume.size_limit === undefined && typeof volume.size_limit_mb === 'number') {
      volume.size_limit = `${volume.size_limit_mb}Mi`
      warn(`${at}.size_limit_mb`, `write size_limit: "${volume.size_limit_mb}Mi"`)
      delete volume.size_limit_mb
    }
    if (typeof volume.access_mode === 'string' && accessModes[volume.access_mode] !== undefined) {
      volume.access_mode = accessModes[volume.access_mode]
      warn(`${at}.access_mode`, `write ${String(volume.access_mode)}`)
    }
    moderniseSize(volume, 'size_limit', at, warn)
    const only = volumes.length === 1 || volume.name === 'workspace'
    presume(volume, 'mount_path', only ? '/workspace' : `/workspace/${String(volume.name)}`, at, warn)
    presume(volume, 'size_limit', '1Gi', at, warn)
    presume(volume, 'storage_class', 'ephemeral', at, warn)
    presume(volume, 'access_mode', 'read-write', at, warn)
  }
}

function presume(fields: Written, name: string, value: string, at: string, warn: Warn): void {
  if (fields[name] !== undefined && fields[name] !== null) return
  fields[name] = value
  warn(`${at}.${name}`, `it is missing, so ${value} is assumed; write it`)
}

function renameField(fields: Written, old: string, name: string, at: string, warn: Warn): void {
  if (fields[old] === undefined || fields[name] !== undefined) return
  fields[name] = fields[old]
  delete fields[old]
  warn(`${at}.${old}`, `write ${name}`)
}

function moderniseOutputSchema(spec: Written, warn: Warn): void {
  if (!isFields(spec.output_schema)) return
  const execution = isFields(spec.execution) ? spec.execution : {}
  const validation = execution.validation ?? []
  if (!Array.isArray(validation)) return
  execution.validation = [...validation, { type: 'json_schema', schema: spec.output_schema }]
  spec.execution = execution
  delete spec.output_schema
  warn('spec.output_schema', 'write it as an entry of spec.execution.validation with type json_schema')
}

function moderniseExecution(execution: Written, isWritten: boolean, warn: Warn): void {
  const at = 'spec.execution'
  renameField(execution, 'max_retries', 'max_iterations', at, warn)
  if (execution.mode === 'oneshot' || execution.mode === 'one_shot') {
    execution.mode = 'one-shot'
    warn(`${at}.mode`, 'write one-shot')
  }
  if (!isWritten) return
  if (isFields(execution.delivery)) moderniseDelivery(execution.delivery, warn)
  if (isFields(execution.validation)) {
    execution.validation = validatorsOf(execution.validation, warn)
    warn(`${at}.validation`, 'write a list of validators, each with a type')
  }
  if (Array.isArray(execution.validation)) moderniseConsensus(execution.validation, `${at}.validation`, warn)
  if (isFields(execution.tool_validation) && typeof execution.tool_validation.type === 'string') {
    execution.tool_validation = [execution.tool_validation]
    warn(`${at}.tool_validation`, 'write a list of validators')
  }
  for (const list of ['validation', 'tool_validation'] as const) {
    const validators = execution[list]
    if (Array.isArray(validators)) moderniseJudges(validators, `${at}.${list}`, warn)
  }
}

/** A judge is named like any other agent. */
function moderniseJudges(validators: readonly unknown[], at: string, warn: Warn): void {
  for (const [index, validator] of validators.entries()) {
    if (!isFields(validator)) continue
    const path = `${at}[${index}]`
    if (validator['type'] === 'semantic') {
      for (const old of ['agent', 'agent_id', 'judge']) renameField(validator, old, 'judge_agent', path, warn)
    }
    const { judges } = validator as { judges?: unknown }
    if (!Array.isArray(judges)) continue
    for (const [position, judge] of judges.entries()) {
      if (isFields(judge)) renameField(judge, 'agent_id', 'agent', `${path}.judges[${position}]`, warn)
    }
  }
}

/** The object form of validators. What has no current equivalent stays in the list, where it is refused by name. */
function validatorsOf(old: Written, warn: Warn): unknown[] {
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
      warn(`${at}.semantic.fallback_on_unavailable`, 'leave it out: a judge that cannot answer fails the iteration')
    }
  }
  return validators
}

function moderniseTask(task: Written, warn: Warn): void {
  renameField(task, 'prompt', 'instruction', 'spec.task', warn)
  renameField(task, 'instructions', 'instruction', 'spec.task', warn)
  moderniseTemplate(task, warn)
}
