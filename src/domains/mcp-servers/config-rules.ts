import { AppError } from '../../contract/app-error.ts'
import { readDomain } from '../../contract/domain-name.ts'
import { limits } from '../../contract/limits.ts'
import { parseReference } from '../secrets/rules.ts'
import { type ComposedYaml, composeYaml } from '../templating/bounded-yaml.ts'
import { yamlLibrary } from '../templating/yaml-library.ts'
import type { ServerType } from './ports.ts'
import { allFields, type ServerConfig, type UserField, type ValueField, valueFields } from './rules.ts'

/** The default type: a server with an address is remote, one with a command is local. */
export function serverTypeOf(requested: ServerType | undefined, config: ServerConfig): ServerType {
  if (requested !== undefined) return requested
  if (typeof config.serverUrl === 'string' && config.command !== undefined) {
    throw invalid('serverType', 'give serverUrl for a remote server or command for a local one, not both')
  }
  if (typeof config.serverUrl === 'string') return 'remote'
  if (config.command !== undefined || config.dockerImage !== undefined) return 'local'
  throw invalid('serverType', 'set serverUrl for a remote server, or command for a local one')
}

/** What only servers of one type use. */
const fieldsOf: Readonly<Record<'local' | 'remote', readonly (keyof ServerConfig)[]>> = {
  local: [
    ...(['command', 'arguments', 'environment', 'envFrom', 'dockerImage', 'serviceAccount', 'transportType'] as const),
    ...(['httpPort', 'httpPath', 'nodePort', 'imagePullSecrets', 'deploymentSpecYaml', 'installationCommand'] as const),
    ...(['allowedDomains', 'mounts'] as const),
  ],
  remote: ['serverUrl', 'requiresAuth', 'authDescription', 'authFields', 'oauthConfig', 'enterpriseManagedConfig'],
}
const otherType = { local: 'remote', remote: 'local' } as const

/** Without what a server of this type does not use. */
export function applicable(serverType: ServerType, config: ServerConfig): ServerConfig {
  if (serverType === 'builtin') return config
  const other = new Set<string>(fieldsOf[otherType[serverType]])
  return Object.fromEntries(Object.entries(config).filter(([name]) => !other.has(name)))
}

/**
 * Refuses fields of the caller that could have no effect on the server as it then is. Stored ones are not judged: a rule that comes
 * later must not hold up a change of something else.
 */
export function requireEffect(serverType: ServerType, input: ServerConfig, after: ServerConfig): void {
  if (serverType === 'builtin') return
  const other = otherType[serverType]
  const idle = fieldsOf[other].find((name) => !isEmpty(input[name]))
  if (idle !== undefined) {
    throw invalid(idle, `only a ${other} server has it, and this one is ${serverType}; leave it out`)
  }
  for (const name of ['httpPort', 'httpPath'] as const) {
    if (input[name] === undefined || after.transportType === 'streamable-http') continue
    throw invalid(name, 'only the transport streamable-http has it; set transportType, or leave it out')
  }
  if (!isEmpty(input.oauthConfig?.redirect_uris)) {
    throw invalid(
      'oauthConfig.redirect_uris',
      'sign-in always returns to the address of this server, which authorize_mcp_server uses; leave it out',
    )
  }
  for (const [name, field] of Object.entries(input.userConfig ?? {})) requireEffectOf(serverType, name, field)
  for (const field of allFields(input)) requireDefault(field)
}

const isEmpty = (value: unknown): boolean =>
  value === undefined || value === null || value === false || (Array.isArray(value) && value.length === 0)

function requireEffectOf(serverType: ServerType, name: string, field: UserField): void {
  const at = `userConfig.${name}`
  if (field.headerName !== undefined && serverType !== 'remote') {
    throw invalid(`${at}.headerName`, `only a remote server gets headers; use \${user_config.${name}} in an argument`)
  }
  if (field.valuePrefix !== undefined && field.headerName === undefined) {
    throw invalid(`${at}.valuePrefix`, 'comes before the value in a header; add headerName, or leave it out')
  }
  if (field.type !== 'number' && (field.min !== undefined || field.max !== undefined)) {
    throw invalid(at, 'only the type number has min and max')
  }
  if (Array.isArray(field.default) && field.multiple !== true) {
    throw invalid(at, 'a list as default needs multiple')
  }
}

function requireDefault(field: ValueField): void {
  for (const text of [field.default, field.preset]) {
    // What takes the value of another field is known only in a deployment.
    if (text === undefined || text.includes('${user_config.')) continue
    if (parseReference(text) === undefined) requireValue(field, text)
  }
}

/** Refuses a value that the field does not accept. */
export function requireValue({ name, accepts, min, max, multiple }: ValueField, text: string): void {
  const values = multiple ? text.split(',') : [text]
  if (accepts === 'boolean' && !values.every((value) => value === 'true' || value === 'false')) {
    throw invalid(name, 'must be true or false')
  }
  if (accepts !== 'number') return
  const isIn = (value: string): boolean => {
    const number = value.trim() === '' ? Number.NaN : Number(value)
    return Number.isFinite(number) && number >= (min ?? number) && number <= (max ?? number)
  }
  if (values.every(isIn)) return
  const bounds = [min === undefined ? '' : ` from ${min}`, max === undefined ? '' : ` up to ${max}`].join('')
  throw invalid(name, `must be a number${bounds}`)
}

/** Refuses what could not be run or reached, whatever values a deployment has. */
export function requireUsableConfig(serverType: ServerType, config: ServerConfig): void {
  if (serverType === 'builtin') {
    throw invalid('serverType', 'builtin is this server itself; use local or remote')
  }
  if (serverType === 'remote') requireAddress(config)
  else requireCommand(config)
  for (const { key, default: fallback } of config.environment ?? []) {
    if (!isPlain(fallback))
      throw invalid('environment', `the default of ${key} must be a string, a number, true or false`)
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
  requireDomains(config)
  requireClusterNames(config)
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
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9a-z-]+$/i

/** With the same header from two fields, it would be undefined which is sent. */
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

function requireExchange({ enterpriseManagedConfig: exchange }: Pick<ServerConfig, 'enterpriseManagedConfig'>): void {
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
    if (!isPlain(field.default))
      throw invalid(at, 'default must be a string, a number, true or false, or a list of strings')
    if (field.min !== undefined && field.max !== undefined && field.min > field.max) {
      throw invalid(at, 'min is greater than max')
    }
  }
}

/** A value for an environment or a header. */
const isPlain = (value: unknown): boolean =>
  Array.isArray(value) ? value.every((one) => typeof one === 'string') : typeof value !== 'object' || value === null

function requireDomains({ allowedDomains }: ServerConfig): void {
  if ((allowedDomains ?? []).every((domain) => readDomain(domain) !== undefined)) return
  throw invalid('allowedDomains', 'use names of hosts, such as registry.npmjs.org or *.example.org, without http://')
}

const CLUSTER_NAME = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/
const VARIABLE_PREFIX = /^[A-Za-z_][A-Za-z0-9_]*$/
const IMAGE = /^(?:[A-Za-z0-9.-]+:\d+\/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[\w.-]{1,128})?(?:@sha256:[0-9a-f]{64})?$/
const NODE_PORTS = { min: 30_000, max: 32_767 }

/** Stored for a cluster, with the rules that a cluster has for them. */
function requireClusterNames({ serviceAccount, imagePullSecrets, envFrom, nodePort, dockerImage }: ServerConfig): void {
  const names = {
    serviceAccount: serviceAccount === undefined ? [] : [serviceAccount],
    'imagePullSecrets.name': (imagePullSecrets ?? []).map(({ name }) => name),
    'envFrom.name': (envFrom ?? []).map(({ name }) => name),
  }
  for (const [field, used] of Object.entries(names)) {
    if (used.every((name) => CLUSTER_NAME.test(name))) continue
    throw invalid(
      field,
      'a name in Kubernetes has lower-case letters, digits, "-" and ".", with a letter or digit at both ends',
    )
  }
  if (!(envFrom ?? []).every(({ prefix = '_' }) => VARIABLE_PREFIX.test(prefix))) {
    throw invalid('envFrom.prefix', 'use letters, digits and "_", beginning with no digit')
  }
  if (nodePort !== undefined && (nodePort < NODE_PORTS.min || nodePort > NODE_PORTS.max)) {
    throw invalid(
      'nodePort',
      `Kubernetes has node ports from ${NODE_PORTS.min} to ${NODE_PORTS.max}; leave it out, or choose one of these`,
    )
  }
  if (dockerImage !== undefined && !IMAGE.test(dockerImage)) {
    throw invalid('dockerImage', 'is not the name of an image, such as ghcr.io/example/server:1.2')
  }
}

const SPEC_VALUES_MAX = 2_000

/** Stored for a cluster, which accepts only a Deployment here. Its aliases are never expanded here. */
function requireDeploymentSpec(text: string): void {
  const composed = composeYaml(text, {
    depthMax: limits.manifestDepthMax,
    valuesMax: SPEC_VALUES_MAX,
    warnings: 'ignored',
  })
  if ('problem' in composed) {
    const { code, line } = composed.problem
    if (code === 'TOO_DEEP' || code === 'TOO_MANY_VALUES') {
      const rule = `may have ${SPEC_VALUES_MAX} values in ${limits.manifestDepthMax} levels; make it smaller`
      throw invalid('deploymentSpecYaml', rule)
    }
    throw invalid('deploymentSpecYaml', `is not YAML (line ${line})`)
  }
  const { document } = composed
  const [apiVersion, kind] = ['apiVersion', 'kind'].map((field) => document.getIn([field]))
  if (apiVersion !== 'apps/v1' || kind !== 'Deployment') {
    throw invalid('deploymentSpecYaml', 'must be a Deployment of apps/v1')
  }
  requireAliases(composed)
}

function requireAliases({ document, targets }: ComposedYaml): void {
  yamlLibrary().visit(document, {
    Alias(_, alias, path) {
      const target = targets.get(alias)
      if (target === undefined) throw invalid('deploymentSpecYaml', 'has an alias (*name) without an anchor (&name)')
      if (path.includes(target)) throw invalid('deploymentSpecYaml', 'has an alias (*name) inside what it stands for')
    },
  })
}

function requireDistinct(field: string, names: readonly string[]): void {
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw invalid(field, 'has the same name twice')
}

export const invalid = (field: string, rule: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${rule}.`, { field, constraint: rule })

/** The secret references in a server's configuration. */
export const secretsIn = ({ environment, oauthConfig, enterpriseManagedConfig }: ServerConfig): readonly string[] =>
  [
    ...(environment ?? []).map(({ value }) => value),
    oauthConfig?.client_secret,
    enterpriseManagedConfig?.client_secret,
  ].filter((value) => value !== undefined && parseReference(value) !== undefined) as string[]
