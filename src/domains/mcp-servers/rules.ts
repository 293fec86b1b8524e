import { isPermitted } from '../../contract/permissions.ts'
import { identityOf, type Principal } from '../../contract/principal.ts'
import type { Sharing } from '../../contract/sharing.ts'
import type { SubjectTokenType } from '../../contract/upstream-tools.ts'

/** How a server is run or reached, in the fields of its tools. */
type AuthField = Readonly<{
  name: string
  label: string
  type: 'header' | 'query' | 'cookie'
  secret: boolean
}>

export type EnvironmentVariable = Readonly<{
  key: string
  type: 'plain_text' | 'secret' | 'boolean' | 'number'
  /** A plain value, or a reference to a secret. */
  value?: string | undefined
  promptOnInstallation: boolean
  required?: boolean | undefined
  description?: string | undefined
  default?: unknown
  /** The value is in the file `/secrets/KEY` instead of in the environment. */
  mounted?: boolean | undefined
}>

export type UserField = Readonly<{
  type: 'string' | 'number' | 'boolean' | 'directory' | 'file'
  title?: string | undefined
  description?: string | undefined
  required?: boolean | undefined
  default?: unknown
  multiple?: boolean | undefined
  sensitive?: boolean | undefined
  min?: number | undefined
  max?: number | undefined
  promptOnInstallation?: boolean | undefined
  /** The value goes into this header of every request, after `valuePrefix`. */
  headerName?: string | undefined
  valuePrefix?: string | undefined
}>

export type OauthConfig = Readonly<{
  name?: string | undefined
  server_url?: string | undefined
  client_id?: string | undefined
  /** A reference, or the value until it is stored. */
  client_secret?: string | undefined
  redirect_uris?: readonly string[] | undefined
  scopes?: readonly string[] | undefined
  authorization_endpoint?: string | undefined
  token_endpoint?: string | undefined
  well_known_url?: string | undefined
  supports_resource_metadata?: boolean | undefined
}>

/** How a caller's token is exchanged for the server's, at its identity provider (RFC 8693). */
export type ExchangeConfig = Readonly<{
  token_endpoint: string
  client_id?: string | undefined
  /** A reference, or the value until it is stored. */
  client_secret?: string | undefined
  resource?: string | undefined
  audience?: string | undefined
  scopes?: readonly string[] | undefined
  requested_token_type?: string | undefined
  /** The caller's token to exchange, and its type; the access token by default. */
  subject_token_type?: SubjectTokenType | undefined
  /** Where the token is sent: `Authorization: Bearer TOKEN`, `Authorization: TOKEN`, or a custom header. */
  injection?: 'bearer' | 'raw' | 'header' | undefined
  header_name?: string | undefined
}>

export type ServerMount = Readonly<{ host_path: string; path: string; mode?: 'ro' | 'rw' | undefined }>

export type ServerConfig = Readonly<{
  serverUrl?: string | null | undefined
  requiresAuth?: boolean | undefined
  authDescription?: string | null | undefined
  authFields?: readonly AuthField[] | undefined
  oauthConfig?: OauthConfig | undefined
  enterpriseManagedConfig?: ExchangeConfig | undefined
  command?: string | undefined
  arguments?: readonly string[] | undefined
  environment?: readonly EnvironmentVariable[] | undefined
  envFrom?: readonly Readonly<{ type: 'secret' | 'configMap'; name: string; prefix?: string | undefined }>[] | undefined
  dockerImage?: string | undefined
  serviceAccount?: string | undefined
  transportType?: 'stdio' | 'streamable-http' | undefined
  httpPort?: number | undefined
  httpPath?: string | undefined
  nodePort?: number | undefined
  imagePullSecrets?: readonly Readonly<{ source: 'existing'; name: string }>[] | undefined
  deploymentSpecYaml?: string | undefined
  installationCommand?: string | undefined
  userConfig?: Readonly<Record<string, UserField>> | undefined
  /** Hosts that a local server may reach. */
  allowedDomains?: readonly string[] | undefined
  /** Mounted folders of the host. */
  mounts?: readonly ServerMount[] | undefined
}>

/** Where a deployment's values come from. */
export type ValueField = Readonly<{
  name: string
  label: string
  description: string
  secret: boolean
  required: boolean
  accepts: 'text' | 'number' | 'boolean'
  min?: number | undefined
  max?: number | undefined
  /** Several values, with commas between them. */
  multiple?: boolean | undefined
  /** Plain text. */
  default: string | undefined
  /** The item's value if there is no default: a plain value, or a reference that its author was allowed. */
  preset?: string | undefined
}>

/** The values that a deployment needs: those that the item prompts for, and credentials. */
export const valueFields = (config: ServerConfig): readonly ValueField[] => fieldsOf(config, (prompts) => prompts)

/** Also those that nobody enters, because their value is in the configuration. */
export const allFields = (config: ServerConfig): readonly ValueField[] => fieldsOf(config, () => true)

function fieldsOf(config: ServerConfig, isOne: (prompts: boolean) => boolean): readonly ValueField[] {
  const fromEnvironment = (config.environment ?? [])
    .filter(({ promptOnInstallation }) => isOne(promptOnInstallation))
    .map((variable) => ({
      name: variable.key,
      label: variable.key,
      description: variable.description ?? '',
      secret: variable.type === 'secret',
      required: variable.required === true,
      accepts: acceptedBy(variable.type),
      default: textOf(variable.default),
      preset: variable.value,
    }))
  const fromAuth = (config.authFields ?? []).map(({ name, label, secret }, index) => ({
    name,
    label,
    // One text for all of them.
    description: index === 0 ? (config.authDescription ?? '') : '',
    secret,
    required: config.requiresAuth === true,
    accepts: 'text' as const,
    default: undefined,
  }))
  const fromUser = Object.entries(config.userConfig ?? {})
    .filter(([, field]) => isOne(field.promptOnInstallation !== false))
    .map(([name, field]) => ({
      name,
      label: field.title ?? name,
      description: field.description ?? '',
      secret: field.sensitive === true,
      required: field.required === true,
      accepts: acceptedBy(field.type),
      min: field.min,
      max: field.max,
      multiple: field.multiple,
      default: textOf(field.default),
    }))
  return [...fromEnvironment, ...fromAuth, ...fromUser]
}

const acceptedBy = (type: string): ValueField['accepts'] => (type === 'number' || type === 'boolean' ? type : 'text')

/** A number or boolean of the caller as a string; undefined if absent. */
export function textOf(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined
  return Array.isArray(value) ? value.join(',') : String(value)
}

/** Whether the item itself has a value for it. */
export const hasOwnValue = ({ default: fallback, preset }: ValueField): boolean =>
  fallback !== undefined || preset !== undefined

/** Required values that neither the deployment nor the item has. */
export const missingFields = (config: ServerConfig, values: Readonly<Record<string, string>>): readonly ValueField[] =>
  valueFields(config).filter((field) => field.required && values[field.name] === undefined && !hasOwnValue(field))

/** Whether the caller may decide where the values of a deployment go: its author, and administrators of servers. */
export const mayDirect = (principal: Principal, { sharing }: Readonly<{ sharing: Sharing }>): boolean =>
  sharing.author === identityOf(principal) || isPermitted(principal, 'mcpServerInstallation:admin')

const NPM = ['registry.npmjs.org']
const PYPI = ['pypi.org', 'files.pythonhosted.org']
const registries: ReadonlyMap<string, readonly string[]> = new Map([
  ['npx', NPM],
  ['bunx', NPM],
  ['uvx', PYPI],
  ['pipx', PYPI],
])

/** The hosts from which a package runner installs what it runs; none for other commands. */
export const registryHosts = (command: string): readonly string[] => registries.get(command.split('/').at(-1)!) ?? []
