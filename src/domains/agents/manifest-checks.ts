import { readDomain } from '../../contract/domain-name.ts'
import { limits } from '../../contract/limits.ts'
import { cronProblem } from '../manifests/check-cron.ts'
import { compileJsonSchema, compilePattern } from '../manifests/json-schema.ts'
import { newSchemaBudget, type SchemaBudget } from '../manifests/schema-work.ts'
import { parseTemplate } from '../templating/templates.ts'
import type { WrittenValidator } from './execution-schema.ts'
import type { WrittenManifest } from './manifest-schema.ts'

/** A known field whose value cannot be honoured: `field` and what to write instead. */
type Refusal = (field: string, problem: string) => void

/** Checks what the schema alone does not: mutually exclusive fields, embedded languages, and unsupported features. */
export function checkManifest({ spec }: WrittenManifest, refuse: Refusal): void {
  checkRuntime(spec, refuse)
  if (spec.task.instruction === undefined && spec.task.system_prompt === undefined) {
    refuse('spec.task.instruction', 'is required if there is no system_prompt')
  }
  checkTemplate('spec.task.prompt_template', spec.task.prompt_template, refuse)
  const budget = newSchemaBudget()
  checkSchema('spec.input_schema', spec.input_schema, budget, refuse)
  for (const list of ['validation', 'tool_validation'] as const) {
    for (const [index, validator] of (spec.execution?.[list] ?? []).entries()) {
      checkValidator(`spec.execution.${list}[${index}]`, validator, budget, refuse)
    }
  }
  checkDelivery(spec.execution?.delivery, refuse)
  checkVolumes(spec.volumes, refuse)
  checkSecurity(spec, refuse)
  checkSchedule(spec.schedule, refuse)
  checkAdvanced(spec.advanced, refuse)
  checkDispatchers(spec, refuse)
  checkContext(spec.context, refuse)
  for (const [name, value] of Object.entries(spec.env)) {
    if (/^(?:secret|config):\s*$/.test(value)) refuse(`spec.env.${name}`, `must have a name after ${value.trim()}`)
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      refuse(`spec.env.${name}`, 'must have a name of letters, digits and underscores')
    }
  }
}

function checkContext(context: WrittenManifest['spec']['context'], refuse: Refusal): void {
  for (const [index, entry] of context.entries()) {
    if (entry.type === 'url' && (!/^https?:\/\//i.test(entry.url) || URL.parse(entry.url) === null)) {
      refuse(`spec.context[${index}].url`, 'must be an address that begins with https:// or http://')
    }
    if ('path' in entry && entry.path.split('/').includes('..')) {
      refuse(`spec.context[${index}].path`, 'must be a path without "..", such as /workspace/notes.md')
    }
  }
}

/** A list of commands for any other name would restrict nothing, nor would one of an ineffective dispatcher. */
function checkDispatchers({ tools, builtin_dispatchers: dispatchers }: WrittenManifest['spec'], refuse: Refusal): void {
  const isListed = tools.some((name) => name === 'cmd.run' || name === 'cmd.*')
  for (const [index, { enabled, capabilities }] of dispatchers.entries()) {
    if (!enabled && isListed && capabilities.some(({ name }) => name === 'cmd.run')) {
      const field = `spec.builtin_dispatchers[${index}].enabled`
      refuse(field, 'must be true if spec.tools has cmd.run, because without this list every command would be allowed')
    }
    for (const [position, { name, subcommand_allowlist: commands }] of capabilities.entries()) {
      if (commands === undefined || name === 'cmd.run') continue
      const field = `spec.builtin_dispatchers[${index}].capabilities[${position}].name`
      refuse(field, 'must be cmd.run if there is a subcommand_allowlist')
    }
  }
}

function checkRuntime(spec: WrittenManifest['spec'], refuse: Refusal): void {
  const { runtime } = spec
  const { language, version, image, isolation } = runtime
  if (image !== undefined && (language !== undefined || version !== undefined)) {
    refuse('spec.runtime', 'must have either image, or language and version, not both')
  } else if (image === undefined && (language === undefined || version === undefined)) {
    const missing = language === undefined ? 'language' : 'version'
    refuse(`spec.runtime.${missing}`, 'is required: give language and version (aegis.runtime.list), or image')
  }
  if (image !== undefined && !image.includes('/')) {
    refuse('spec.runtime.image', 'must contain a slash, such as registry/name:tag')
  }
  if (isolation === 'firecracker' && runsSomething(spec)) {
    refuse(
      'spec.runtime.isolation',
      'cannot be firecracker for an agent with files or commands: this server runs no virtual machines; write inherit, or remove fs.*, cmd.*, volumes, files and scripts',
    )
  }
  if (runtime.image_pull_policy === 'Always') {
    refuse(
      'spec.runtime.image_pull_policy',
      'cannot be Always: images are installed with castellan image and never pulled; write IfNotPresent',
    )
  }
}

/** Without any of these, nothing runs that could be isolated: only a model answers. */
const runsSomething = ({ tools, volumes, context, advanced }: WrittenManifest['spec']): boolean =>
  tools.some((name) => /^(?:fs|cmd)\./.test(name)) ||
  volumes.length > 0 ||
  context.some(({ type }) => type === 'file' || type === 'directory') ||
  advanced?.startup_script !== undefined ||
  advanced?.bootstrap_path !== undefined

function checkTemplate(field: string, template: string | undefined, refuse: Refusal): void {
  const problem = template?.includes('{{') ? parseTemplate(template).problem : null
  if (problem !== null) refuse(field, `is not a template: ${problem}`)
}

function checkSchema(field: string, schema: unknown, budget: SchemaBudget, refuse: Refusal): void {
  if (schema === undefined) return
  const compiled = compileJsonSchema(schema, budget)
  if (!compiled.ok) refuse(field, `cannot be used as a JSON Schema: ${compiled.reason}`)
}

function checkValidator(field: string, validator: WrittenValidator, budget: SchemaBudget, refuse: Refusal): void {
  if (validator.type === 'json_schema') checkSchema(`${field}.schema`, validator.schema, budget, refuse)
  if (validator.type === 'regex') {
    const compiled = compilePattern(validator.pattern)
    if ('reason' in compiled) refuse(`${field}.pattern`, `cannot be used as an RE2 pattern: ${compiled.reason}`)
    if (!/^(?:stdout|stderr|\/workspace\/.+|[^/].*\..+|[^/].*\/.+)$/.test(validator.target)) {
      refuse(`${field}.target`, 'must be stdout, stderr, or the path of a file below /workspace')
    }
  }
  if (validator.type === 'multi_judge' && validator.min_judges_required > validator.judges.length) {
    refuse(`${field}.min_judges_required`, 'must not exceed the number of judges')
  }
  if (field.includes('tool_validation') && validator.type !== 'semantic') {
    refuse(`${field}.type`, 'must be semantic: a tool call is judged before there is any output')
  }
}

function checkDelivery(delivery: NonNullable<WrittenManifest['spec']['execution']>['delivery'], refuse: Refusal): void {
  for (const [index, destination] of (delivery?.destinations ?? []).entries()) {
    const field = `spec.execution.delivery.destinations[${index}]`
    if (destination.type === 'email' || destination.type === 'sms') {
      refuse(`${field}.type`, `cannot be ${destination.type}: results are delivered by webhook or rest only`)
    } else if (destination[destination.type] === undefined) {
      refuse(`${field}.${destination.type}`, 'is required: give at least its url')
    }
    if (destination.transform !== undefined) {
      refuse(`${field}.transform`, 'cannot be honoured: shape the output with spec.output_handler')
    }
  }
}

/** Whether it runs commands, which are restricted only by the workspace, not by lists of paths and hosts. */
export const runsCommands = ({ tools, builtin_dispatchers: dispatchers, advanced }: WrittenManifest['spec']): boolean =>
  tools.some((name) => name.startsWith('cmd.')) ||
  dispatchers.some(({ enabled, capabilities }) => enabled && capabilities.some(({ name }) => name === 'cmd.run')) ||
  advanced.startup_script !== undefined ||
  advanced.bootstrap_path !== undefined

const hostPattern = /^(?:\*|(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\.?|\[?[0-9a-f:.]+\]?)$/i

function checkSecurity(spec: WrittenManifest['spec'], refuse: Refusal): void {
  const { filesystem, network } = spec.security
  for (const list of ['read', 'write'] as const) {
    for (const [index, path] of (filesystem?.[list] ?? []).entries()) {
      const names = path.replace(/\/\*{1,2}$/, '').split('/')
      if (!names.includes('..') && !names.some((name) => /[*?[\]{}]/.test(name))) continue
      refuse(
        `spec.security.filesystem.${list}[${index}]`,
        'must be a path without "..", such as /workspace/src; patterns of names cannot be honoured, only /** at its end',
      )
    }
  }
  for (const list of ['allowlist', 'denylist'] as const) {
    for (const [index, host] of (network?.[list] ?? []).entries()) {
      if (hostPattern.test(host)) continue
      refuse(`spec.security.network.${list}[${index}]`, 'must be a host such as example.org, *.example.org, or *')
    }
  }
  if (worksInWorkspace(spec)) checkReach(network, refuse)
  if (!runsCommands(spec)) return
  if (filesystem?.read !== undefined && filesystem.write === undefined) {
    refuse(
      'spec.security.filesystem.write',
      'is required for an agent that runs commands: read alone means that nothing may be written, and commands could write',
    )
  }
  if (filesystem?.read_only === true) {
    refuse(
      'spec.security.filesystem.read_only',
      'cannot be true for an agent that runs commands, which could write; leave out cmd.run, startup_script and bootstrap_path, or write false',
    )
  }
  if (network?.mode === 'deny' && network.denylist.length > 0) {
    refuse(
      'spec.security.network.denylist',
      'cannot be honoured for an agent that runs commands; write mode: allow with an allowlist, or leave out cmd.run',
    )
  }
}

/** Whether it gets its own workspace, with the network access that the manifest allows. */
export const worksInWorkspace = (spec: WrittenManifest['spec']): boolean =>
  runsCommands(spec) ||
  spec.tools.some((name) => name.startsWith('fs.')) ||
  spec.volumes.length > 0 ||
  spec.context.some(({ type }) => type === 'file' || type === 'directory')

/** The rules of the tool network_policy, which gets the list when an execution starts. */
function checkReach(network: WrittenManifest['spec']['security']['network'], refuse: Refusal): void {
  if (network?.mode !== 'allow' || network.allowlist.includes('*')) return
  const field = 'spec.security.network.allowlist'
  if (network.allowlist.length > limits.workspaceDomainsMax) {
    refuse(
      field,
      `must have at most ${limits.workspaceDomainsMax} hosts for an agent with a workspace; join some as *.example.org, or write *`,
    )
  }
  for (const [index, host] of network.allowlist.entries()) {
    if (!hostPattern.test(host) || readDomain(host) !== undefined) continue
    refuse(
      `${field}[${index}]`,
      'must be a host name such as example.org or *.example.org: a workspace reaches names, not addresses',
    )
  }
}

function checkVolumes(volumes: WrittenManifest['spec']['volumes'], refuse: Refusal): void {
  const paths: string[] = []
  const names = new Set<string>()
  for (const [index, volume] of volumes.entries()) {
    const field = `spec.volumes[${index}]`
    const path = volume.mount_path.replace(/\/+$/, '')
    if (!/^\/workspace(?:\/[^/]+)*$/.test(path) || /(?:^|\/)\.{1,2}(?:\/|$)/.test(path)) {
      refuse(`${field}.mount_path`, 'must be /workspace or a path below it')
    }
    const other = paths.find((taken) => taken === path || isBelow(path, taken) || isBelow(taken, path))
    if (other !== undefined) refuse(`${field}.mount_path`, `must not be inside or around another volume (${other})`)
    if (names.has(volume.name)) refuse(`${field}.name`, 'must differ from the names of the other volumes')
    if (volume.type !== 'seaweedfs') {
      refuse(
        `${field}.type`,
        `cannot be ${volume.type}: only the storage of the installation is available; leave it out`,
      )
    }
    if (volume.source !== undefined) {
      refuse(
        `${field}.source`,
        'cannot be honoured: an execution has a workspace of its own; a workflow can name one in spec.storage.workspace.volume_id',
      )
    }
    if (volume.access_mode === 'read-only') {
      refuse(`${field}.access_mode`, 'cannot be read-only: restrict spec.security.filesystem.write instead')
    }
    if (volume.ttl_hours !== undefined && volume.storage_class === 'persistent') {
      refuse(`${field}.ttl_hours`, 'belongs to ephemeral volumes; leave it out')
    }
    paths.push(path)
    names.add(volume.name)
  }
}

const isBelow = (path: string, folder: string): boolean => path.startsWith(`${folder}/`)

function checkSchedule(schedule: WrittenManifest['spec']['schedule'], refuse: Refusal): void {
  if (schedule?.type !== 'cron') return
  const wrong = cronProblem(schedule.cron, schedule.timezone)
  if (wrong !== undefined) refuse(`spec.schedule.${wrong.field}`, wrong.problem)
}

function checkAdvanced(advanced: WrittenManifest['spec']['advanced'], refuse: Refusal): void {
  const cannot = 'cannot be honoured: leave it out'
  if (advanced.warm_pool_size > 0) refuse('spec.advanced.warm_pool_size', 'must be 0: workspaces are created on demand')
  if (advanced.health_check !== undefined) refuse('spec.advanced.health_check', cannot)
  if (advanced.swarm_enabled) refuse('spec.advanced.swarm_enabled', 'must be false')
}
