import { isFields, type YamlFields } from '../manifests/read-yaml.ts'
import type { Warn } from './legacy-spellings.ts'

/**
 * Fields that had another position or other names in older manifests. Each is moved or rewritten with a warning; if the present
 * field is set too, it is left for the reader to warn about.
 */
export function moveFields(spec: YamlFields, warn: Warn): void {
  move(spec, ['delivery'], ['execution', 'delivery'], warn)
  move(spec, ['validation'], ['execution', 'validation'], warn)
  move(spec, ['environment'], ['env'], warn)
  move(spec, ['runtime', 'timeout'], ['security', 'resources', 'timeout'], warn)
  move(spec, ['security', 'resources', 'max_iterations'], ['execution', 'max_iterations'], warn)
}

function move(spec: YamlFields, from: readonly string[], to: readonly string[], warn: Warn): void {
  const owner = ownerOf(spec, from, false)
  const old = from.at(-1)!
  if (owner?.[old] === undefined) return
  const target = ownerOf(spec, to, true)
  const name = to.at(-1)!
  if (target === undefined || target[name] !== undefined) return
  target[name] = owner[old]
  delete owner[old]
  warn(`spec.${from.join('.')}`, `write it as spec.${to.join('.')}`)
}

/** The parent of the last name of a path, created if absent and requested. */
function ownerOf(spec: YamlFields, path: readonly string[], isMade: boolean): YamlFields | undefined {
  let owner = spec
  for (const name of path.slice(0, -1)) {
    if (owner[name] === undefined && isMade) owner[name] = {}
    const inner = owner[name]
    if (!isFields(inner)) return undefined
    owner = inner
  }
  return owner
}

const closedModes: ReadonlySet<unknown> = new Set(['deny-all', 'deny_all', 'denyall', 'isolated'])
const readOnlyModes: ReadonlySet<unknown> = new Set(['readonly', 'read-only', 'read_only'])

/** Older names in spec.security. */
export function moderniseLimits(security: YamlFields, warn: Warn): void {
  const { network, filesystem, resources } = security as Record<'network' | 'filesystem' | 'resources', unknown>
  if (isFields(network) && closedModes.has(network['mode'])) {
    network['mode'] = 'none'
    warn('spec.security.network.mode', 'write none')
  }
  if (isFields(filesystem)) moderniseFiles(filesystem, warn)
  if (isFields(resources)) moderniseSizes(resources, warn)
}

function moderniseFiles(filesystem: YamlFields, warn: Warn): void {
  const at = 'spec.security.filesystem'
  const isReadOnly = readOnlyModes.has(filesystem['mode'])
  if (isReadOnly && filesystem['read_only'] === undefined) {
    filesystem['read_only'] = true
    delete filesystem['mode']
    warn(`${at}.mode`, 'write read_only: true')
  }
  const { allowed_paths: paths } = filesystem as { allowed_paths?: unknown }
  if (!Array.isArray(paths) || filesystem['read'] !== undefined || filesystem['write'] !== undefined) return
  filesystem['read'] = [...paths]
  filesystem['write'] = isReadOnly ? [] : [...paths]
  delete filesystem['allowed_paths']
  warn(`${at}.allowed_paths`, 'write read and write')
}

/** Fewer millicores than this are implausible, so a smaller number means whole CPUs. */
const MILLICORES_MIN = 100
const looseSize = /^(\d+(?:\.\d+)?)\s*([kmgt])(i?)b?$/i

function moderniseSizes(resources: YamlFields, warn: Warn): void {
  const { cpu } = resources as { cpu?: unknown }
  if (typeof cpu === 'number' && cpu > 0 && cpu < MILLICORES_MIN) {
    resources['cpu'] = Math.round(cpu * 1_000)
    warn('spec.security.resources.cpu', `write ${String(resources['cpu'])}: it is counted in thousandths`)
  }
  for (const name of ['memory', 'disk']) moderniseSize(resources, name, 'spec.security.resources', warn)
}

/** `512MB`, `1 gib` and the like. */
export function moderniseSize(fields: YamlFields, name: string, at: string, warn: Warn): void {
  const written = fields[name]
  const [, amount, unit, binary] = typeof written === 'string' ? (looseSize.exec(written) ?? []) : []
  if (amount === undefined) return
  const plain = `${amount}${unit!.toUpperCase()}${binary === '' ? '' : 'i'}`
  if (plain === written) return
  fields[name] = plain
  warn(`${at}.${name}`, `write ${plain}`)
}

/** A schedule that has the fields of one kind only is of that kind. */
export function moderniseSchedule(schedule: YamlFields, warn: Warn): void {
  if (schedule['type'] !== undefined) return
  const type = schedule['cron'] === undefined ? 'interval' : 'cron'
  if (type === 'interval' && schedule['seconds'] === undefined) return
  schedule['type'] = type
  warn('spec.schedule.type', `it is missing, so ${type} is assumed; write it`)
}

/** Older names for the output handler, and for its retries. */
export function moderniseHandler(handler: YamlFields, warn: Warn): void {
  const at = 'spec.output_handler'
  const names = { agent: 'agent_id', tool: 'tool_name', retries: 'retry', body: 'body_template' }
  for (const [old, name] of Object.entries(names)) {
    if (handler[old] === undefined || handler[name] !== undefined) continue
    handler[name] = handler[old]
    delete handler[old]
    warn(`${at}.${old}`, `write ${name}`)
  }
  moderniseMethod(handler, at, warn)
  const { retry } = handler as { retry?: unknown }
  if (!isFields(retry) || Object.keys(retry).join() !== 'max_attempts') return
  handler['retry'] = retry['max_attempts']
  warn(`${at}.retry.max_attempts`, 'write retry with the number of further tries')
}

export function moderniseDelivery(delivery: YamlFields, warn: Warn): void {
  const { destinations } = delivery as { destinations?: unknown }
  if (!Array.isArray(destinations)) return
  for (const [index, destination] of destinations.entries()) {
    if (!isFields(destination)) continue
    const at = `spec.execution.delivery.destinations[${index}]`
    if (destination['name'] === undefined) {
      destination['name'] = `destination-${index + 1}`
      warn(`${at}.name`, `it is missing, so ${String(destination['name'])} is assumed; write it`)
    }
    for (const kind of ['webhook', 'rest']) {
      const target = destination[kind]
      if (isFields(target)) moderniseMethod(target, `${at}.${kind}`, warn)
    }
  }
}

function moderniseMethod(target: YamlFields, at: string, warn: Warn): void {
  const { method } = target as { method?: unknown }
  if (typeof method !== 'string' || method === method.toUpperCase()) return
  target['method'] = method.toUpperCase()
  warn(`${at}.method`, `write ${method.toUpperCase()}`)
}

const oldVariables: Readonly<Record<string, string>> = {
  agent_instruction: 'instruction',
  instruction: 'instruction',
  user_input: 'input',
  input: 'input',
  intent: 'intent',
}

/** Older templates had single braces. Only a template without double braces is read in this way. */
export function moderniseTemplate(task: YamlFields, warn: Warn): void {
  const { prompt_template: template } = task as { prompt_template?: unknown }
  if (typeof template !== 'string' || template.includes('{{')) return
  const rewritten = template.replaceAll(/\{(\w+)\}/g, (whole, name: string) =>
    Object.hasOwn(oldVariables, name) ? `{{${oldVariables[name]}}}` : whole,
  )
  if (rewritten === template) return
  task['prompt_template'] = rewritten
  warn('spec.task.prompt_template', 'write {{instruction}} and {{input}}, with double braces')
}

const consensusWords: Readonly<Record<string, string>> = { majority_vote: 'majority', best_of: 'best_of_n' }

/** Legacy fields of judges that decide together. */
export function moderniseConsensus(validators: readonly unknown[], at: string, warn: Warn): void {
  for (const [index, validator] of validators.entries()) {
    if (!isFields(validator) || typeof validator['consensus'] !== 'string') continue
    const word = validator['consensus'].replaceAll('-', '_')
    const plain = Object.hasOwn(consensusWords, word) ? consensusWords[word]! : word
    if (plain === validator['consensus']) continue
    validator['consensus'] = plain
    warn(`${at}[${index}].consensus`, `write ${plain}`)
  }
}

/** As everywhere, a relative path is below /workspace. */
export const absolute = (path: string): string =>
  path.startsWith('/') ? path : `/workspace/${path.replace(/^(?:\.\/)+|^\.$/, '')}`.replace(/(?<=.)\/$/, '')

export const accessModes: Readonly<Record<string, string>> = {
  ro: 'read-only',
  readonly: 'read-only',
  read_only: 'read-only',
  ReadOnly: 'read-only',
  rw: 'read-write',
  readwrite: 'read-write',
  read_write: 'read-write',
  ReadWrite: 'read-write',
  ReadWriteOnce: 'read-write',
  ReadWriteMany: 'read-write',
  ReadOnlyMany: 'read-only',
}
