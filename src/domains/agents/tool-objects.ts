import { isFields, type YamlFields } from '../manifests/read-yaml.ts'
import { absolute, accessModes } from './legacy-fields.ts'

type Warn = (field: string, advice: string) => void
type Refuse = (field: string, problem: string) => void

/** Dispatchers that stand for their tools. */
const dispatcherTools: Readonly<Record<string, string>> = {
  cmd: 'cmd.run',
  fs: 'fs.*',
  filesystem: 'fs.*',
  web: 'web.*',
}
const readingTools = ['fs.read', 'fs.list', 'fs.glob', 'fs.grep']
const SECURITY = 'spec.security'
const WEB = 'web.*'
type Fields = YamlFields & Partial<Record<'tools' | 'volumes' | 'advanced' | 'context', unknown>>

const words = (text: string): ReadonlySet<string> => new Set(text.split(' '))
const pathLists = words('allowed_paths path_allowlist allowed_directories paths')
const allowedHosts = words('allowed_domains domain_allowlist domains allowed_hosts allowlist')
const deniedHosts = words('denied_domains blocked_domains domain_denylist denylist')
/** Settings that a single tool of an agent cannot have, and the fields that replace them. */
const elsewhere: readonly (readonly [pattern: RegExp, path: string])[] = [
  [/output|response|size|bytes/, 'commands.max_output_bytes or web.max_response_bytes in the configuration'],
  [
    /timeout|ceiling|duration/,
    'commands.timeout_ceiling_secs in the configuration, or spec.execution.iteration_timeout',
  ],
  [/env/, 'spec.env, which has only what you name'],
  [/rate|concurren/, 'a context in security_contexts of the configuration, which spec.security_context names'],
  [/path|dir|file|read|write/, 'spec.security.filesystem'],
  [/domain|host|url|net|port/, 'spec.security.network'],
  [/command|program|shell/, 'subcommand_allowlist'],
]
/** A name that suggests a restriction, or a location. */
const closes =
  /allow|den[iy]|block|forbid|restrict|limit|max|min|ceiling|timeout|only|access|permission|sandbox|safe|policy|whitelist|blacklist|exclud|scope|quota|mode$|(?:^|_)(?:read|writ|root|dir|folder|path|host|domain|network|egress|command)/

/** Normalises names: `readOnly` and `read-only` become `read_only`. */
const snakeCase = (key: string): string =>
  key
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replaceAll('-', '_')
    .toLowerCase()

/**
 * Tools written as objects, `{name, executor, config}`. The restrictions of their `config` are moved to today's fields, or
 * refused by name: an agent never gets a tool without its author's limits.
 */
export function moderniseTools(spec: YamlFields, warn: Warn, refuse: Refuse): void {
  if (!Array.isArray(spec['tools'])) return
  let seen = false
  spec['tools'] = spec['tools'].flatMap((tool: unknown, index): unknown[] => {
    if (typeof tool === 'string') return [toolName(tool, warn)]
    if (!isFields(tool) || typeof tool['name'] !== 'string') return [tool]
    seen = true
    return [...toolOf(spec, tool, `spec.tools[${index}]`, warn, refuse)]
  })
  if (seen) {
    warn('spec.tools', 'write names only; a subcommand_allowlist goes into spec.builtin_dispatchers[].capabilities[]')
  }
}

function toolName(written: string, warn: Warn): string {
  const name = written.replace(/^(?:builtin:|mcp:(?=filesystem$))/, '')
  const known = Object.hasOwn(dispatcherTools, name) ? dispatcherTools[name]! : name
  if (known !== written) warn('spec.tools', `write ${known} for ${written}`)
  return known
}

const plainFields = words('name executor description config enabled')
const accessKeys = words('access_mode access read_only readonly')

function toolOf(spec: YamlFields, tool: YamlFields, at: string, warn: Warn, refuse: Refuse): readonly string[] {
  if (tool['enabled'] === false) {
    warn(at, 'leave out what is not enabled')
    return []
  }
  const name = toolName(tool['name'] as string, warn)
  const config = isFields(tool['config']) ? tool['config'] : {}
  if (config !== tool['config'] && tool['config'] !== undefined && tool['config'] !== null) {
    refuse(`${at}.config`, 'must be an object of settings')
  }
  const settings = [
    ...Object.entries(tool).flatMap(([key, value]) => (plainFields.has(key) ? [] : [[key, value, key] as const])),
    ...Object.entries(config).map(([key, value]) => [key, value, `config.${key}`] as const),
  ]
  let names: readonly string[] = [name]
  for (const [written, value, path] of settings) {
    if (value === undefined || value === null) continue
    const [key, field] = [snakeCase(written), `${at}.${path}`]
    if (key === 'subcommand_allowlist') addDispatcher(spec, name, value)
    else if (accessKeys.has(key)) {
      const open = accessOf(name, value, field, refuse)
      // Of two conflicting fields, the more restrictive one applies.
      if (names !== readingTools) names = open
    } else if (pathLists.has(key) && name.startsWith('fs.')) restrictFiles(spec, name, value, field, refuse)
    else if (allowedHosts.has(key) && name.startsWith('web.')) restrictHosts(spec, 'allow', value, field, refuse)
    else if (deniedHosts.has(key) && name.startsWith('web.')) restrictHosts(spec, 'deny', value, field, refuse)
    else if (closes.test(key) || pathLists.has(key) || allowedHosts.has(key)) refuseSetting(key, field, refuse)
    else warn(field, 'leave it out: it has no effect here')
  }
  return names
}

function addDispatcher(spec: YamlFields, name: string, commands: unknown): void {
  const dispatchers = Array.isArray(spec['builtin_dispatchers']) ? spec['builtin_dispatchers'] : []
  dispatchers.push({ name: name.split('.')[0], capabilities: [{ name, subcommand_allowlist: commands }] })
  spec['builtin_dispatchers'] = dispatchers
}

function refuseSetting(key: string, field: string, refuse: Refuse): void {
  const path = elsewhere.find(([pattern]) => pattern.test(key))?.[1]
  const next = path === undefined ? 'leave it out' : `say it in ${path}`
  refuse(field, `cannot be set for a single tool, and ignoring it would remove a restriction; ${next}`)
}

function accessOf(name: string, value: unknown, field: string, refuse: Refuse): readonly string[] {
  const mode = typeof value === 'boolean' ? (value ? 'read-only' : 'read-write') : String(value)
  const known = accessModes[mode] ?? mode
  if (known === 'read-write') return [name]
  if (known !== 'read-only') refuse(field, 'must be read-only or read-write')
  else if (name === 'fs.*') return readingTools
  else if (!readingTools.includes(name)) refuse(field, `cannot be ${known} for ${name}; leave the tool out`)
  return [name]
}

function group(spec: YamlFields, name: string): YamlFields {
  const security = isFields(spec['security']) ? spec['security'] : {}
  spec['security'] = security
  const inner = isFields(security[name]) ? (security[name] as YamlFields) : {}
  security[name] = inner
  return inner
}

const isTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((entry) => typeof entry === 'string')

const sameList = (left: unknown, right: readonly string[]): boolean =>
  isTexts(left) && JSON.stringify([...left].sort()) === JSON.stringify([...right].sort())

/** Two lists for the same restriction would both have to apply, but one field holds only one list. */
const refuseTwice = (path: string, field: string, refuse: Refuse): void =>
  refuse(field, `contradicts ${path}; set it only there`)

function restrictFiles(spec: YamlFields, name: string, value: unknown, field: string, refuse: Refuse): void {
  if (!isTexts(value)) {
    refuse(field, 'must be a list of paths')
    return
  }
  const paths = value.map(absolute)
  const filesystem = group(spec, 'filesystem')
  const lists = name === 'fs.*' ? ['read', 'write'] : [readingTools.includes(name) ? 'read' : 'write']
  for (const list of lists) {
    if (filesystem[list] === undefined) filesystem[list] = paths
    else if (
      !sameList(
        (filesystem[list] as unknown[]).map?.((path) => absolute(String(path))),
        paths,
      )
    ) {
      refuseTwice(`${SECURITY}.filesystem.${list}`, field, refuse)
    }
  }
}

/** The network of the manifest is also that of its workspace: hosts meant for web.* alone would be open to commands. */
const hasWorkspace = ({ tools, volumes, advanced, context }: Fields): boolean =>
  [volumes, advanced, context].some((part) => part !== undefined) ||
  (tools as unknown[]).some((tool) =>
    /^(?:builtin:|mcp:)?(?:cmd|fs|filesystem)\b/.test(String(isFields(tool) ? tool['name'] : tool)),
  )

function restrictHosts(spec: YamlFields, mode: 'allow' | 'deny', value: unknown, field: string, refuse: Refuse): void {
  if (!isTexts(value)) {
    refuse(field, 'must be a list of hosts')
    return
  }
  const network = group(spec, 'network')
  const list = `${mode}list`
  if (Object.keys(network).length === 0 && hasWorkspace(spec)) {
    refuse(
      field,
      `cannot apply to ${WEB} alone if the agent has a workspace; use ${SECURITY}.network, which applies to its commands too`,
    )
  } else if (Object.keys(network).length === 0) Object.assign(network, { mode, [list]: [...value] })
  else if (network['mode'] !== mode || !sameList(network[list], value)) {
    refuseTwice(`${SECURITY}.network`, field, refuse)
  }
}
