import { parse } from 'yaml'
import { AppError } from '../../contract/app-error.ts'
import { parseReference } from '../secrets/rules.ts'
import type { ServerType } from './ports.ts'
import { type ServerConfig, valueFields } from './rules.ts'

/** What a server is when nobody says: something with an address is reached, something with a command is run. */
export function serverTypeOf(requested: ServerType | undefined, config: ServerConfig): ServerType {
  if (requested !== undefined) return requested
  if (typeof config.serverUrl === 'string') return 'remote'
  if (config.command !== undefined || config.dockerImage !== undefined) return 'local'
  throw invalid('serverType', 'give serverUrl for a remote server, or command for a local one')
}

/** Refuses what could not be run or reached, whatever is entered for a deployment. */
export function requireUsableConfig(serverType: ServerType, config: ServerConfig): void {
  if (serverType === 'builtin') {
    throw invalid('serverType', 'builtin is this server itself; use local or remote')
  }
  if (serverType === 'remote') requireAddress(config)
  else requireCommand(config)
  for (const { key, default: fallback } of config.environment ?? []) {
    if (!isPlain(fallback)) throw invalid('environment', `the default of ${key} must be text, a number, true or false`)
  }
  requireDistinct(
    'environment',
    (config.environment ?? []).map(({ key }) => key),
  )
  requireDistinct(
    'authFields',
    valueFields(config).map(({ name }) => name),
  )
  requireHeaders(config)
  requireExchange(config)
  requireUserFields(config)
  if (config.deploymentSpecYaml !== undefined) requireDeploymentSpec(config.deploymentSpecYaml)
}

export function requireAddress({ serverUrl }: Pick<ServerConfig, 'serverUrl'>): void {
  const url = URL.parse(serverUrl ?? '')
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    throw invalid('serverUrl', 'a remote server needs an address that begins with http:// or https://')
  }
  if (url.username !== '' || url.password !== '') {
    throw invalid('serverUrl', 'must not have a user name or a password; use authFields or userConfig')
  }
}

function requireCommand(config: ServerConfig): void {
  if (config.command === undefined && config.dockerImage === undefined) {
    throw invalid('command', 'a local server needs a command, such as npx, uvx or node')
  }
  if (config.oauthConfig !== undefined) throw invalid('oauthConfig', 'only a remote server has it')
  if (config.enterpriseManagedConfig !== undefined) {
    throw invalid('enterpriseManagedConfig', 'only a remote server has it')
  }
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9a-z-]+$/i

/** The same header from two fields would leave to chance which is sent. */
function requireHeaders(config: ServerConfig): void {
  const fromAuth = (config.authFields ?? []).filter(({ type }) => type === 'header').map(({ name }) => name)
  const fromUser = Object.values(config.userConfig ?? {}).flatMap(({ headerName }) => headerName ?? [])
  const fromExchange = config.enterpriseManagedConfig?.header_name ?? []
  const names = [...fromAuth, ...fromUser, ...[fromExchange].flat()].map((name) => name.toLowerCase())
  for (const { name, type } of config.authFields ?? []) {
    if (type === 'cookie' && !TOKEN.test(name)) throw invalid('authFields', 'has a name that is not valid for a cookie')
  }
  for (const name of names) {
    if (!TOKEN.test(name)) throw invalid('headerName', 'has a character that is not allowed in the name of a header')
    if (managedHeaders.has(name)) throw invalid('headerName', 'names a header that the protocol sets itself')
  }
  requireDistinct('headerName', names)
}

export function requireExchange({
  enterpriseManagedConfig: exchange,
}: Pick<ServerConfig, 'enterpriseManagedConfig'>): void {
  if (exchange === undefined) return
  const url = URL.parse(exchange.token_endpoint)
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    throw invalid('enterpriseManagedConfig.token_endpoint', 'must be an address that begins with https://')
  }
  const { injection = 'bearer', header_name: name } = exchange
  if ((injection === 'header') !== (name !== undefined)) {
    throw invalid('enterpriseManagedConfig.header_name', 'is required with injection header, and not allowed otherwise')
  }
  if (exchange.client_secret !== undefined && exchange.client_id === undefined) {
    throw invalid('enterpriseManagedConfig.client_id', 'a client_secret needs the client_id that it belongs to')
  }
}

const managedHeaders: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'content-type',
  'connection',
  'transfer-encoding',
  'accept',
  'mcp-session-id',
  'mcp-protocol-version',
])

function requireUserFields({ userConfig }: ServerConfig): void {
  for (const [name, field] of Object.entries(userConfig ?? {})) {
    const at = `userConfig.${name}`
    if (field.sensitive === true && field.default !== undefined) {
      throw invalid(at, 'a sensitive field cannot have a default, because everyone could read it')
    }
    if (field.sensitive === true && field.promptOnInstallation === false) {
      throw invalid(at, 'a sensitive field must be asked for: leave promptOnInstallation out')
    }
    if (field.required === true && field.promptOnInstallation === false && field.default === undefined) {
      throw invalid(at, 'a required field that is not asked for needs a default')
    }
    if (!isPlain(field.default)) throw invalid(at, 'default must be text, a number, true or false, or a list of texts')
    if (field.min !== undefined && field.max !== undefined && field.min > field.max) {
      throw invalid(at, 'min is greater than max')
    }
  }
}

/** What can be written into an environment or a header. */
const isPlain = (value: unknown): boolean =>
  Array.isArray(value) ? value.every((one) => typeof one === 'string') : typeof value !== 'object' || value === null

/** Kept for a cluster, which takes nothing but a Deployment here. */
function requireDeploymentSpec(text: string): void {
  let spec: unknown
  try {
    spec = parse(text, { maxAliasCount: 10 })
  } catch {
    throw invalid('deploymentSpecYaml', 'is not YAML')
  }
  const { apiVersion, kind } = (spec ?? {}) as Record<string, unknown>
  if (apiVersion !== 'apps/v1' || kind !== 'Deployment') {
    throw invalid('deploymentSpecYaml', 'must be a Deployment of apps/v1')
  }
}

function requireDistinct(field: string, names: readonly string[]): void {
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw invalid(field, 'has the same name twice')
}

export const invalid = (field: string, rule: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${rule}.`, { field, constraint: rule })

/** The references among what a server is configured with. */
export const secretsIn = ({ environment, oauthConfig, enterpriseManagedConfig }: ServerConfig): readonly string[] =>
  [
    ...(environment ?? []).map(({ value }) => value),
    oauthConfig?.client_secret,
    enterpriseManagedConfig?.client_secret,
  ].filter((value) => value !== undefined && parseReference(value) !== undefined) as string[]
