import { AppError } from '../../contract/app-error.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { CatalogItem, Deployment } from './ports.ts'
import { missingFields, registryHosts, textOf, valueFields } from './rules.ts'
import type { UpstreamAuthorization, UpstreamSpec } from './runtime.ts'

/** Resolves a plain value or a reference. */
export type Resolve = (tenant: TenantId, text: string) => Promise<string>

const SECRET_FOLDER = '/secrets'
const PORT_DEFAULT = 8080
const PATH_DEFAULT = '/mcp'

/** How a deployment is run or reached, with every value. */
export async function specOf(
  item: CatalogItem,
  deployment: Deployment,
  resolve: Resolve,
  authorization?: UpstreamAuthorization,
): Promise<UpstreamSpec> {
  const { config } = item
  const missing = missingFields(config, deployment.values)
  if (missing.length > 0)
    throw needsValues(
      item,
      deployment,
      missing.map(({ name }) => name),
    )
  const valueAt = await valuesOf(item, deployment, resolve)
  return item.serverType === 'remote'
    ? remoteSpec(item, deployment, valueAt, authorization)
    : await localSpec(item, deployment, valueAt, resolve)
}

type ValueAt = (name: string) => string | undefined

/** Only values that were checked when they were saved are references: a default is plain text, even an operator's. */
async function valuesOf({ tenant, config }: CatalogItem, { values }: Deployment, resolve: Resolve): Promise<ValueAt> {
  const known = new Map<string, string>()
  for (const { name, default: fallback, preset } of valueFields(config)) {
    const entered = values[name] ?? (fallback === undefined ? preset : undefined)
    const text = entered === undefined ? fallback : await resolve(tenant, entered)
    if (text !== undefined) known.set(name, text)
  }
  for (const [name, field] of Object.entries(config.userConfig ?? {})) {
    const text = textOf(field.default)
    if (!known.has(name) && text !== undefined) known.set(name, text)
  }
  return (name) => known.get(name)
}

/** `${user_config.NAME}` in a text stands for the value of that field. */
const filled = (text: string, valueAt: ValueAt): string =>
  text.replaceAll(/\$\{user_config\.([\w-]+)\}/g, (_, name: string) => valueAt(name) ?? '')

function remoteSpec(
  { config, slug: name }: CatalogItem,
  deployment: Deployment,
  valueAt: ValueAt,
  authorization: UpstreamAuthorization | undefined,
): UpstreamSpec {
  const parts = { header: {}, query: {}, cookie: {} } as Record<'header' | 'query' | 'cookie', Record<string, string>>
  for (const { name, type } of config.authFields ?? []) {
    const value = valueAt(name)
    if (value !== undefined) parts[type][name] = type === 'header' ? headerValue(deployment, name, value) : value
  }
  for (const [name, { headerName, valuePrefix }] of Object.entries(config.userConfig ?? {})) {
    const value = valueAt(name)
    if (headerName === undefined || value === undefined) continue
    parts.header[headerName] = headerValue(deployment, name, `${valuePrefix ?? ''}${value}`)
  }
  const url = filled(config.serverUrl ?? '', valueAt)
  return { kind: 'remote', name, url, headers: parts.header, query: parts.query, cookies: parts.cookie, authorization }
}

/** The lower layer puts an invalid value into its error message, where others would read it. */
function headerValue(deployment: Deployment, name: string, value: string): string {
  const text = value.trim()
  if (/^[\t\x20-\x7e\x80-\xff]*$/.test(text)) return text
  throw new AppError(
    'ERR_CREDENTIAL_REQUIRED',
    `${name}: the value has a character that is not allowed in a header, such as a line break. The author of the deployment calls ${redeployToolOf(deployment)} again and enters another.`,
    { field: name },
  )
}

async function localSpec(
  item: CatalogItem,
  { sharing }: Deployment,
  valueAt: ValueAt,
  resolve: Resolve,
): Promise<UpstreamSpec> {
  const { config, tenant } = item
  if (config.dockerImage !== undefined) throw noContainers()
  const env: Record<string, string> = {}
  const files: Record<string, string> = {}
  for (const variable of config.environment ?? []) {
    const text = variable.promptOnInstallation
      ? valueAt(variable.key)
      : ((await resolved(tenant, variable.value, resolve)) ?? textOf(variable.default))
    if (text === undefined) continue
    const value = filled(text, valueAt)
    if (variable.mounted === true) files[`${SECRET_FOLDER}/${variable.key}`] = value
    else env[variable.key] = value
  }
  return {
    kind: 'local',
    name: item.slug,
    owner: sharing.author,
    transport: config.transportType ?? 'stdio',
    argv: [config.command!, ...(config.arguments ?? []).map((argument) => filled(argument, valueAt))],
    env,
    files,
    installationCommand: config.installationCommand,
    allowedDomains: config.allowedDomains ?? registryHosts(config.command!),
    mounts: config.mounts ?? [],
    port: config.httpPort ?? PORT_DEFAULT,
    path: config.httpPath ?? PATH_DEFAULT,
  }
}

const resolved = async (tenant: TenantId, text: string | undefined, resolve: Resolve): Promise<string | undefined> =>
  text === undefined ? undefined : await resolve(tenant, text)

/** Members may deploy for themselves alone, with a tool of their own. */
const redeployToolOf = ({ sharing }: Deployment): string =>
  sharing.scope === 'personal' ? 'install_mcp_server' : 'deploy_mcp_server'

const needsValues = ({ id, name }: CatalogItem, deployment: Deployment, fields: readonly string[]): AppError =>
  new AppError(
    'ERR_CREDENTIAL_REQUIRED',
    `The MCP server needs values that were not entered. The author of the deployment calls ${redeployToolOf(deployment)} again for a link where a person can enter them.`,
    { catalog_id: id, server: name, fields },
  )

const noContainers = (): AppError =>
  new AppError(
    'ERR_CAPABILITY_MISSING',
    'dockerImage: this server has no container back end, so it cannot run a container image. Set a command instead, which runs in a workspace.',
    { field: 'dockerImage' },
  )
