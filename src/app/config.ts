import { dirname, join, relative } from 'node:path'
import type { z } from 'zod'
import { KEY_VARIABLE } from '../cli/announcement.ts'
import { AppError } from '../contract/app-error.ts'
import { isLoopbackHost } from '../http/peer-address.ts'
import { nearestName } from '../kernel/nearest-name.ts'
import type { Exposure } from '../tools/runtime/tool-host.ts'
import { type ConfigFile, type ConfigProblem, readConfigFile } from './config-file.ts'
import { subjectOf } from './config-parts.ts'
import {
  absolutePath,
  CA_VARIABLE,
  CONFIG_VARIABLE,
  defaultDataDir,
  type Environment,
  findConfigFile,
  URL_VARIABLE,
} from './config-paths.ts'
import { acceptedKeys, type ConfigField, configFields, configSchema } from './config-schema.ts'
import { variableForm, withoutShortForms } from './config-short-forms.ts'
import { redactUrl, Secret } from './secret.ts'

type ConfigSource = 'default' | 'file' | 'env' | 'flag'

type Parsed = z.output<typeof configSchema>
type SecretHeaders = Readonly<Record<string, Secret>>

/** The effective configuration, with the names of the file. Paths are absolute; secrets print as `[redacted]`. */
export type Config = Readonly<
  Omit<
    Parsed,
    'data_dir' | 'database_url' | 'secret_key' | 'interactions' | 'search' | 'smtp' | 'vault' | 'web' | 'workspaces'
  >
> &
  Readonly<{
    data_dir: string
    database_url?: Secret
    secret_key?: Secret
    interactions: Omit<Parsed['interactions'], 'otlp'> &
      Readonly<{ otlp: Omit<Parsed['interactions']['otlp'], 'headers'> & Readonly<{ headers?: SecretHeaders }> }>
    search: Readonly<{
      local_model: boolean
      embeddings: Omit<Parsed['search']['embeddings'], 'api_key'> & Readonly<{ api_key?: Secret }>
    }>
    smtp: Omit<Parsed['smtp'], 'password'> & Readonly<{ password?: Secret }>
    vault: Parsed['vault'] & Readonly<{ path: string }>
    web: Omit<Parsed['web'], 'search_key'> & Readonly<{ search_key?: Secret }>
    workspaces: Parsed['workspaces'] & Readonly<{ transfer_dir: string }>
  }>

export type LoadedConfig = Readonly<{
  config: Config
  /** The file that was read, if any. */
  file?: string
  sources: ReadonlyMap<string, ConfigSource>
  /** Warnings for the operator that do not stop the program. */
  warnings: readonly string[]
}>

export type LoadConfigOptions = Readonly<{
  env: Environment
  /** Values of command-line flags by field path (`data_dir`, `rate_limits.enabled`); text is parsed as in the environment. */
  flags?: Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>
  /** The value of `--config`. */
  configFile?: string
  workingDirectory: string
}>

export type ConfigRow = Readonly<{ field: string; value: unknown; source: ConfigSource; variable: string }>

/** Reads flags over environment over file over defaults. All problems are reported at once, each with line and column. */
export async function loadConfig(options: LoadConfigOptions): Promise<LoadedConfig> {
  const { env } = options
  const problems: ConfigProblem[] = []
  const warnings: string[] = []
  const sources = new Map<string, ConfigSource>()
  const values: Record<string, unknown> = {}
  const path = findConfigFile(options)
  const file = path === undefined ? undefined : await readConfigFile(path)
  if (file !== undefined) {
    problems.push(...file.problems)
    const resolved = resolveReferences(structuredClone(file.values), file, env, problems)
    const checked = readShortForms(resolved, file.path, warnings)
    if (file.problems.length === 0) problems.push(...fileProblems(file, checked))
    Object.assign(values, checked)
  }
  for (const field of configFields()) {
    if (file !== undefined && getIn(values, field.keys) !== undefined) sources.set(field.path, 'file')
    const fromEnv = env[field.variable]
    const fromFlag = options.flags?.[field.path]
    if (fromEnv !== undefined && fromEnv !== '') {
      sources.set(field.path, 'env')
      override(values, field, fromEnv, field.variable, env, problems)
    }
    if (fromFlag !== undefined) {
      sources.set(field.path, 'flag')
      override(values, field, fromFlag, `--${field.path.replaceAll('_', '-')}`, env, problems)
    }
  }
  warnings.push(...unknownVariables(env))
  if (problems.length > 0) throw configError(problems)
  return {
    config: finish(configSchema.parse(values), sources, options, file?.path),
    ...(file === undefined ? {} : { file: file.path }),
    sources,
    warnings,
  }
}

/** Every field with its effective value and source; secrets are redacted. */
export function showConfig(loaded: LoadedConfig): readonly ConfigRow[] {
  return configFields().map((field) => {
    const value = getIn(loaded.config, field.keys)
    return {
      field: field.path,
      value: displayed(field, value) ?? null,
      source: loaded.sources.get(field.path) ?? 'default',
      variable: field.variable,
    }
  })
}

function displayed(field: ConfigField, value: unknown): unknown {
  if (value instanceof Secret) return displayedSecret(field, value)
  if (!field.secret || typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, displayed(field, member)]))
}

/** The location of a URL may be shown; a key that looks like a URL may not. */
const displayedSecret = ({ path }: ConfigField, value: Secret): string =>
  path === 'database_url' ? redactUrl(value.reveal()) : String(value)

/** The tools of a connection that does not choose. */
export const exposureOfConfig = ({ tools, zaru_mode }: Config): Exposure =>
  zaru_mode === undefined ? tools : { zaruMode: zaru_mode, ...(tools === 'default' ? {} : { tools }) }

/** Whether other machines can reach the HTTP server, so that nobody is its owner without a credential. */
export const demandsKeys = (config: Pick<Config, 'require_keys' | 'public_url' | 'trusted_proxies'>): boolean =>
  config.require_keys ||
  config.trusted_proxies.length > 0 ||
  (config.public_url !== undefined && !isLoopbackHost(new URL(config.public_url).hostname))

function getIn(from: unknown, keys: readonly string[]): unknown {
  let at = from
  for (const key of keys) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    at = (at as Record<string, unknown>)[key]
  }
  return at
}

function setIn(into: Record<string, unknown>, keys: readonly string[], value: unknown): void {
  let at = into
  for (const key of keys.slice(0, -1)) {
    const next = at[key]
    at[key] = typeof next === 'object' && next !== null && !Array.isArray(next) ? next : {}
    at = at[key] as Record<string, unknown>
  }
  at[keys.at(-1)!] = value
}

const REFERENCE = /^env:(.*)$/s

/** `env:NAME` → the variable's value, also in a list or an object; messages contain the problem, never the value. */
function dereference(
  value: unknown,
  env: Environment,
  report: (keys: readonly string[], problem: string) => void,
): unknown {
  if (Array.isArray(value)) {
    return value.map((entry: unknown, index) =>
      dereference(entry, env, (keys, problem) => report([String(index), ...keys], problem)),
    )
  }
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).map(([name, member]) => [
      name,
      dereference(member, env, (keys, problem) => report([name, ...keys], problem)),
    ])
    return Object.fromEntries(members)
  }
  const name = typeof value === 'string' ? REFERENCE.exec(value)?.[1] : undefined
  if (name === undefined) return value
  const found = env[name]
  if (found === undefined || found === '') {
    report([], `refers to the environment variable ${name}, which is not set`)
    return undefined
  }
  if (REFERENCE.test(found)) {
    report(
      [],
      `refers to the environment variable ${name}, whose value is itself a reference (env:). Put the value there`,
    )
    return undefined
  }
  return found
}

function resolveReferences(
  values: Record<string, unknown>,
  file: ConfigFile,
  env: Environment,
  problems: ConfigProblem[],
): Record<string, unknown> {
  for (const field of configFields()) {
    const input = field.secret ? getIn(values, field.keys) : undefined
    if (input === undefined) continue
    let hasProblem = false
    const value = dereference(input, env, (keys, rule) => {
      hasProblem = true
      const at = [...field.keys, ...keys]
      problems.push({ origin: file.path, position: file.positionOf(at), field: at.join('.'), rule })
    })
    setIn(values, field.keys, hasProblem ? undefined : value)
  }
  return values
}

function readShortForms(values: Record<string, unknown>, path: string, warnings: string[]): Record<string, unknown> {
  for (const field of configFields()) {
    const { value, used } = withoutShortForms(field.path, getIn(values, field.keys))
    if (used === undefined) continue
    setIn(values, field.keys, value)
    warnings.push(`${path}: ${field.path} is in the old text form (${used.form}). Write ${used.instead}.`)
  }
  return values
}

function fileProblems(file: ConfigFile, values: Record<string, unknown>): ConfigProblem[] {
  const result = configSchema.safeParse(values)
  if (result.success) return []
  return result.error.issues.flatMap((issue): ConfigProblem[] => {
    if (issue.code !== 'unrecognized_keys') {
      const position = file.positionOf(issue.path)
      return [{ origin: file.path, position, field: subjectOf(issue).join('.'), rule: issue.message }]
    }
    const accepted = acceptedKeys(issue.path)
    return issue.keys.map((key) => {
      const nearest = nearestName(key, accepted)
      return {
        origin: file.path,
        position: file.positionOfKey(issue.path, key),
        field: [...issue.path, key].join('.'),
        rule: `is not a known field; accepted here: ${accepted.join(', ')}`,
        ...(nearest === undefined ? {} : { nearest }),
      }
    })
  })
}

function override(
  values: Record<string, unknown>,
  field: ConfigField,
  input: unknown,
  origin: string,
  env: Environment,
  problems: ConfigProblem[],
): void {
  const before = problems.length
  const read = typeof input === 'string' ? fromText(field, input) : input
  const resolved = field.secret
    ? dereference(read, env, (_, rule) => problems.push({ origin, field: field.path, rule }))
    : read
  if (problems.length > before) return
  const { value } = withoutShortForms(field.path, resolved)
  const checked = field.schema.safeParse(value)
  if (checked.success) {
    setIn(values, field.keys, value)
    return
  }
  const issue = checked.error.issues[0] ?? { path: [], message: 'is not valid' }
  const form = variableForm(field.path)
  const rule = form === undefined ? issue.message : `${issue.message}. Here, write ${form}`
  problems.push({ origin, field: [field.path, ...subjectOf(issue)].join('.'), rule })
}

function fromText(field: ConfigField, text: string): unknown {
  const trimmed = text.trim()
  switch (field.kind) {
    case 'number':
      return /^-?\d+$/.test(trimmed) ? Number(trimmed) : text
    case 'boolean':
      return { true: true, '1': true, false: false, '0': false }[trimmed.toLowerCase()] ?? text
    case 'list':
      return splitList(text)
    case 'word-or-list':
      return trimmed === 'default' || trimmed === 'full' ? trimmed : splitList(text)
    case 'string':
      return text
  }
}

const splitList = (text: string): string[] =>
  text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')

/** What to say of variables that look like a misspelt one of ours. */
export function unknownVariables(env: Environment): string[] {
  const ofClients = [CONFIG_VARIABLE, URL_VARIABLE, CA_VARIABLE, KEY_VARIABLE]
  const known = [...ofClients, ...configFields().map((field) => field.variable)]
  return Object.keys(env)
    .filter((name) => name.startsWith('CASTELLAN_') && !known.includes(name))
    .map((name) => ({ name, nearest: nearestName(name, known) }))
    .filter(({ nearest }) => nearest !== undefined)
    .map(
      ({ name, nearest }) => `The environment variable ${name} is not known and was ignored. Did you mean ${nearest}?`,
    )
}

function configError(problems: readonly ConfigProblem[]): AppError {
  const lines = problems.map(({ origin, position, field, rule, nearest }) => {
    const location = position === undefined ? origin : `${origin}:${position.line}:${position.column}`
    const hint = nearest === undefined ? '' : `. Did you mean ${nearest}?`
    return `${location}: ${field === '' ? 'the file' : field} ${rule}${hint}`
  })
  const code = problems.some(({ field }) => field === 'mode') ? 'ERR_INVALID_MODE' : 'ERR_CONFIG_INVALID'
  const [first] = problems
  return new AppError(code, lines.join('\n'), { field: first?.field, problems })
}

function finish(
  parsed: Parsed,
  sources: ReadonlyMap<string, ConfigSource>,
  { env, workingDirectory }: LoadConfigOptions,
  file: string | undefined,
): Config {
  const absolute = (field: string, input: string): string => {
    const base = sources.get(field) === 'file' && file !== undefined ? dirname(file) : workingDirectory
    return absolutePath(input, base, env)
  }
  const { data_dir, database_url, secret_key, ...rest } = parsed
  const dataDir = data_dir === undefined ? defaultDataDir(env) : absolute('data_dir', data_dir)
  const vaultPath = parsed.vault.path === undefined ? join(dataDir, 'vault') : absolute('vault.path', parsed.vault.path)
  refuseVaultAround(vaultPath, dataDir, sources.get('vault.path') === 'file' ? file : undefined)
  const transfers = parsed.workspaces.transfer_dir
  const transferDir =
    transfers === undefined ? join(dataDir, 'transfers') : absolute('workspaces.transfer_dir', transfers)
  const caFile = parsed.workspaces.ca_file
  const { search_key, ...web } = parsed.web
  const { password, ...smtp } = parsed.smtp
  const { api_key, ...embeddings } = parsed.search.embeddings
  const { headers, ...otlp } = parsed.interactions.otlp
  const { tls_cert, tls_key } = parsed
  if ((tls_cert === undefined) !== (tls_key === undefined)) {
    const [field, other] = tls_cert === undefined ? ['tls_cert', 'tls_key'] : ['tls_key', 'tls_cert']
    throw configError([{ origin: 'the configuration', field, rule: `must be set, because ${other} is set` }])
  }
  if (smtp.host !== undefined && smtp.from === undefined) {
    throw configError([
      { origin: 'the configuration', field: 'smtp.from', rule: 'must be set, because smtp.host is set' },
    ])
  }
  if (smtp.user !== undefined && smtp.tls === 'none') {
    const rule = 'must be starttls or implicit if smtp.user is set, so that the password is not sent in the clear'
    throw configError([{ origin: 'the configuration', field: 'smtp.tls', rule }])
  }
  if (headers !== undefined && otlp.endpoint === undefined) {
    const rule = 'must be set, because interactions.otlp.headers is set'
    throw configError([{ origin: 'the configuration', field: 'interactions.otlp.endpoint', rule }])
  }
  const roots = parsed.skills.roots.map((root) => absolute('skills.roots', root))
  return {
    ...rest,
    data_dir: dataDir,
    ...(database_url === undefined ? {} : { database_url: new Secret(database_url) }),
    ...(secret_key === undefined ? {} : { secret_key: new Secret([secret_key].flat().join(',')) }),
    interactions: {
      ...rest.interactions,
      otlp: { ...otlp, ...(headers === undefined ? {} : { headers: secretHeaders(headers) }) },
    },
    search: {
      ...rest.search,
      embeddings: { ...embeddings, ...(api_key === undefined ? {} : { api_key: new Secret(api_key) }) },
    },
    smtp: { ...smtp, ...(password === undefined ? {} : { password: new Secret(password) }) },
    vault: { ...rest.vault, path: vaultPath },
    web: { ...web, ...(search_key === undefined ? {} : { search_key: new Secret(search_key) }) },
    workspaces: {
      ...rest.workspaces,
      transfer_dir: transferDir,
      ...(caFile === undefined ? {} : { ca_file: absolute('workspaces.ca_file', caFile) }),
    },
    ...(tls_cert === undefined ? {} : { tls_cert: absolute('tls_cert', tls_cert) }),
    ...(tls_key === undefined ? {} : { tls_key: absolute('tls_key', tls_key) }),
    skills: { ...rest.skills, roots: roots.length > 0 ? roots : [workingDirectory, dataDir] },
  }
}

const secretHeaders = (headers: Readonly<Record<string, string>>): SecretHeaders =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, new Secret(value)]))

/** The vault's tool reads and writes its folder, which must not contain the program's state. */
function refuseVaultAround(vaultPath: string, dataDir: string, file: string | undefined): void {
  const inside = relative(vaultPath, dataDir)
  if (inside === '..' || inside.startsWith('../')) return
  const rule = 'must be a directory that does not contain the data directory. Choose one beside it or inside it'
  throw configError([{ origin: file ?? 'the configuration', field: 'vault.path', rule }])
}
