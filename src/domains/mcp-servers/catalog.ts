import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import { canModify, canSee, requireShareable, type Scope, type Sharing } from '../../contract/sharing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { nameKey } from '../../kernel/name-key.ts'
import type { Random } from '../../kernel/random.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import { parseReference } from '../secrets/rules.ts'
import type { SecretService } from '../secrets/service.ts'
import { applicable, invalid, requireEffect, requireUsableConfig, secretsIn, serverTypeOf } from './config-rules.ts'
import { secretsOf } from './deployment-texts.ts'
import { renameTools } from './discovery.ts'
import type { CatalogItem, Deployment, McpServerStore, ServerType } from './ports.ts'
import { type EnvironmentVariable, mayDirect, type ServerConfig } from './rules.ts'
import type { UpstreamRuntime } from './runtime.ts'
import { slugOf } from './tool-names.ts'
import { removeUnusedSecrets } from './unused-secrets.ts'

/** Finds teams of people by id or name. */
export type TeamDirectory = Readonly<{
  find(
    tx: ReadTx | WriteTx,
    tenant: TenantId,
    reference: string,
  ): Promise<Readonly<{ id: string; name: string }> | undefined>
}>

type CatalogDeps = Readonly<{
  store: McpServerStore
  secrets: Pick<SecretService, 'put' | 'removeUnused' | 'requireMayRefer'>
  runtime: Pick<UpstreamRuntime, 'checkAddress' | 'stop' | 'remove'>
  teams: TeamDirectory
  random: Random
  /** Called within the transaction that changes what callers see. */
  noteChange(tx: WriteTx, tenant: TenantId): Promise<void>
}>

type AboutInput = Readonly<{
  name?: string | undefined
  description?: string | null | undefined
  icon?: string | null | undefined
  docsUrl?: string | null | undefined
  repository?: string | null | undefined
  version?: string | null | undefined
  instructions?: string | null | undefined
  scope?: Scope | undefined
  labels?: readonly Readonly<{ key: string; value: string }>[] | undefined
  teams?: readonly string[] | undefined
}>
type ConfigInput = ServerConfig & Readonly<{ serverType?: ServerType | undefined }>
type CreateInput = AboutInput & ConfigInput & Readonly<{ name: string; environmentId?: string | null | undefined }>

export type Catalog = ReturnType<typeof createCatalog>

export function createCatalog(deps: CatalogDeps) {
  const { store } = deps

  /**
   * By id, or by name among those that the caller sees. The same message whether it is another's or does not exist. `field` is the
   * parameter that has the reference.
   */
  async function find(
    tx: ReadTx | WriteTx,
    principal: Principal,
    reference: string,
    field: string,
  ): Promise<CatalogItem> {
    const byId = await store.findItem(tx, principal.tenant, reference)
    const found = byId !== undefined && canSee(principal, 'mcpRegistry', byId.sharing) ? byId : undefined
    if (found !== undefined) return found
    const key = nameKey(reference)
    const named = (await visible(tx, principal)).filter(({ name }) => nameKey(name) === key)
    if (named.length === 1) return named[0]!
    if (named.length > 1) throw severalNamed(named, field)
    const message = `${field}: there is no such MCP server that you can see; get_mcp_servers lists them`
    throw new AppError('ERR_NOT_FOUND', message, { field, id: reference.slice(0, 128).toWellFormed() })
  }

  async function visible(tx: ReadTx | WriteTx, principal: Principal): Promise<CatalogItem[]> {
    return (await store.listItems(tx, principal.tenant)).filter(({ sharing }) =>
      canSee(principal, 'mcpRegistry', sharing),
    )
  }

  async function findOwn(tx: ReadTx | WriteTx, principal: Principal, reference: string): Promise<CatalogItem> {
    const item = await find(tx, principal, reference, 'id')
    if (canModify(principal, 'mcpRegistry', item.sharing)) return item
    throw new AppError('ERR_PERMISSION_DENIED', 'You can see this MCP server, but you may not change it.', {
      id: item.id,
    })
  }

  /** The name of another author's personal server is neither revealed nor taken. */
  async function requireFreeName(tx: WriteTx, item: CatalogItem): Promise<void> {
    const key = nameKey(item.name)
    const { scope, author, teams } = item.sharing
    const isSame = ({ id, name, sharing }: CatalogItem): boolean =>
      id !== item.id &&
      nameKey(name) === key &&
      sharing.scope === scope &&
      (scope === 'personal'
        ? sharing.author === author
        : scope === 'org' || sharing.teams.some((team) => teams.includes(team)))
    const items = await store.listItems(tx, item.tenant)
    if (items.some(isSame)) {
      throw new AppError(
        'ERR_ALREADY_EXISTS',
        'name: an MCP server of this scope already has this name; choose another.',
        {
          field: 'name',
        },
      )
    }
    if (items.length >= limits.mcpCatalogItemsMax) {
      throw new AppError(
        'ERR_QUOTA_EXCEEDED',
        `The limit of ${items.length} MCP servers is reached. Delete one that is not needed.`,
      )
    }
  }

  async function sharingFor(tx: WriteTx, principal: Principal, input: AboutInput, before?: Sharing): Promise<Sharing> {
    const teams = input.teams === undefined ? undefined : await teamIds(deps.teams, tx, principal, input.teams)
    const scope = input.scope ?? before?.scope ?? (teams !== undefined && teams.length > 0 ? 'team' : 'personal')
    const teamsAfter = scope === 'team' ? (teams ?? before?.teams ?? []) : (teams ?? [])
    const sharing = { scope, author: before?.author ?? identityOf(principal), teams: teamsAfter }
    if (before === undefined || input.scope !== undefined || input.teams !== undefined) {
      requireShareable(principal, 'mcpRegistry', scope, teamsAfter)
    }
    return sharing
  }

  /** In a separate transaction, after the address was checked. */
  async function create(call: Pick<Call, 'principal' | 'nowMs' | 'write' | 'record'>, input: CreateInput) {
    const { principal, nowMs, write } = call
    const { tenant } = principal
    const { name, environmentId = null } = input
    const { about, config, serverType } = usableConfig(input)
    const id = uuidOf(deps.random.bytes(16))
    const item: CatalogItem = {
      tenant,
      id,
      name,
      slug: slugOf(name, id),
      sharing: await sharingFor(write, principal, input),
      ...emptyAbout,
      ...about,
      environmentId,
      serverType,
      config: await withSecretsStored(deps, { write, principal, nowMs }, config),
      createdAtMs: nowMs,
      updatedAtMs: nowMs,
    }
    await requireFreeName(write, item)
    await store.insertItem(write, tenant, item)
    await deps.noteChange(write, tenant)
    call.record({ kind: 'mcp_server_created', body: recordOf(item) })
    return itemView(item)
  }

  async function editDescription(
    call: Pick<Call, 'principal' | 'nowMs' | 'write' | 'record'>,
    { id, ...input }: AboutInput & Readonly<{ id: string }>,
  ) {
    const { principal, nowMs, write } = call
    const before = await findOwn(write, principal, id)
    const { about } = parted(input)
    const name = input.name ?? before.name
    const item: CatalogItem = {
      ...before,
      ...about,
      name,
      slug: nameKey(name) === nameKey(before.name) ? before.slug : slugOf(name, before.id),
      sharing: await sharingFor(write, principal, input, before.sharing),
      updatedAtMs: nowMs,
    }
    await requireFreeName(write, item)
    await store.saveItem(write, before.tenant, item)
    if (item.slug !== before.slug) await renameTools(deps.store, write, item)
    await deps.noteChange(write, before.tenant)
    call.record({ kind: 'mcp_server_changed', body: recordOf(item) })
    return itemView(item)
  }

  /** Connections with the former configuration are ended; the next use has the new one. */
  async function editConfig(
    call: Pick<Call, 'principal' | 'nowMs' | 'read' | 'transact' | 'record' | 'writesTo'>,
    { id, serverType: requestedType, ...input }: ConfigInput & Readonly<{ id: string }>,
  ) {
    const { principal, nowMs } = call
    const present = Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined))
    const changed = async (tx: ReadTx | WriteTx) => {
      const before = await findOwn(tx, principal, id)
      const serverType = requestedType ?? before.serverType
      const merged = applicable(serverType, { ...before.config, ...present })
      requireEffect(serverType, present, merged)
      requireUsableConfig(serverType, merged)
      return { before, serverType, merged }
    }
    await changed(call.read)
    await checkAddress(input)
    const { item, deployments } = await call.transact(async (tx) => {
      const { before, serverType, merged } = await changed(tx)
      const { tenant } = before
      // Another member of the team must enter the secrets again: they would go where that member directs them.
      const known = mayDirect(principal, before) ? before.config : {}
      const config = await withSecretsStored(deps, { write: tx, principal, nowMs }, merged, known)
      const item = { ...before, serverType, config, updatedAtMs: nowMs }
      await call.writesTo?.(`server:${item.id}`, tx)
      await store.saveItem(tx, tenant, item)
      const deployments = await store.listDeployments(tx, tenant, item.id)
      for (const deployment of deployments) await forgetValues(tx, principal, deployment, nowMs)
      await deps.noteChange(tx, tenant)
      return { item, deployments }
    })
    for (const deployment of deployments) await deps.runtime.stop(deployment.id)
    call.record({ kind: 'mcp_server_changed', body: recordOf(item) })
    return itemView(item)
  }

  /**
   * Values that one person entered do not go where another directs the server: they must be entered again. Their secrets stay,
   * because others may use them.
   */
  async function forgetValues(tx: WriteTx, principal: Principal, deployment: Deployment, nowMs: number): Promise<void> {
    const { tenant, values } = deployment
    if (Object.keys(values).length === 0 || mayDirect(principal, deployment)) return
    const error =
      'ERR_CREDENTIAL_REQUIRED: The server was changed by another person. Deploy it again to enter its values.'
    await store.saveDeployment(tx, tenant, { ...deployment, values: {}, status: 'pending', error, updatedAtMs: nowMs })
    await removeUnusedSecrets(deps, tx, tenant, Object.values(values))
  }

  async function remove(call: Pick<Call, 'principal' | 'transact' | 'record'>, input: Readonly<{ id: string }>) {
    const { principal } = call
    const { item, deployments } = await call.transact(async (tx) => {
      const item = await findOwn(tx, principal, input.id)
      const deployments = await store.listDeployments(tx, item.tenant, item.id)
      await store.deleteItem(tx, item.tenant, item.id)
      const references = [...deployments.flatMap(secretsOf), ...secretsIn(item.config)]
      await removeUnusedSecrets(deps, tx, item.tenant, references)
      await deps.noteChange(tx, item.tenant)
      return { item, deployments }
    })
    for (const deployment of deployments) await deps.runtime.remove(item.tenant, deployment.id)
    call.record({ kind: 'mcp_server_deleted', body: { id: item.id, name: item.name, deployments: deployments.length } })
    return { id: item.id, name: item.name, deleted: true, deployments: deployments.length }
  }

  /** For a tool that writes within a transaction: checking an address may need a name lookup, so the rules come first. */
  async function checkNew(input: CreateInput): Promise<void> {
    usableConfig(input)
    await checkAddress(input)
  }

  async function checkAddress({
    serverUrl,
    enterpriseManagedConfig,
  }: Pick<ConfigInput, 'serverUrl' | 'enterpriseManagedConfig'>): Promise<void> {
    const { token_endpoint } = enterpriseManagedConfig ?? {}
    if (token_endpoint !== undefined) {
      await deps.runtime.checkAddress('enterpriseManagedConfig.token_endpoint', token_endpoint)
    }
    if (typeof serverUrl === 'string') await deps.runtime.checkAddress('serverUrl', serverUrl)
  }

  return { find, visible, create, editDescription, editConfig, remove, checkNew }
}

/** The parts of a new item; throws for what could never be used. */
function usableConfig({ name: _, environmentId = null, serverType: requestedType, ...rest }: CreateInput) {
  const { about, config } = parted(rest)
  const serverType = serverTypeOf(requestedType, config)
  requireEffect(serverType, config, config)
  requireUsableConfig(serverType, config)
  if (environmentId !== null) throw invalid('environmentId', 'there are no environments here; leave it out')
  return { about, config, serverType }
}

const emptyAbout = {
  description: null,
  icon: null,
  docsUrl: null,
  repository: null,
  version: null,
  instructions: null,
  labels: [],
} as const

/** The display fields, and the configuration; without absent values. */
function parted(input: AboutInput & ServerConfig): Readonly<{ about: Partial<CatalogItem>; config: ServerConfig }> {
  const { name: _, scope: __, teams: ___, ...rest } = input
  const present = Object.entries(rest).filter(([, value]) => value !== undefined)
  return {
    about: Object.fromEntries(present.filter(([key]) => key in emptyAbout)) as Partial<CatalogItem>,
    config: Object.fromEntries(present.filter(([key]) => !(key in emptyAbout))) as ServerConfig,
  }
}

async function teamIds(
  teams: TeamDirectory,
  tx: WriteTx,
  { tenant }: Principal,
  references: readonly string[],
): Promise<readonly string[]> {
  const found: string[] = []
  for (const reference of references) {
    const team = await teams.find(tx, tenant, reference)
    if (team === undefined) throw invalid('teams', 'names a team that does not exist')
    found.push(team.id)
  }
  return [...new Set(found)]
}

type StoringCall = Readonly<{ write: WriteTx; principal: Principal; nowMs: number }>

/**
 * A plain secret goes into the store, and its reference stays. An existing reference is the caller's own, or was there before;
 * but references to the environment or a file are only for the operator, who alone may change such a server.
 */
async function withSecretsStored(
  { secrets }: Pick<CatalogDeps, 'secrets'>,
  { write, principal, nowMs }: StoringCall,
  config: ServerConfig,
  before: ServerConfig = {},
): Promise<ServerConfig> {
  const known = new Set(secretsIn(before))
  const store = async (field: string, purpose: string, value: string): Promise<string> => {
    const reference = parseReference(value)
    if (reference?.kind === 'secret' && known.has(value)) return value
    await secrets.requireMayRefer(write, principal, field, value)
    if (reference !== undefined) return value
    return await secrets.put(write, principal.tenant, { owner: identityOf(principal), purpose, value, nowMs })
  }
  const environment: EnvironmentVariable[] = []
  for (const variable of config.environment ?? []) {
    const { key, type, value } = variable
    if (value === undefined) environment.push(variable)
    else if (type === 'secret') environment.push({ ...variable, value: await store('environment', key, value) })
    else {
      await secrets.requireMayRefer(write, principal, 'environment', value)
      environment.push(variable)
    }
  }
  const withClientStored = async <T extends { client_secret?: string | undefined }>(field: string, client: T) =>
    client.client_secret === undefined
      ? client
      : { ...client, client_secret: await store(field, 'OAuth client secret', client.client_secret) }
  const { oauthConfig, enterpriseManagedConfig: exchange } = config
  return {
    ...config,
    ...(config.environment === undefined ? {} : { environment }),
    ...(oauthConfig === undefined ? {} : { oauthConfig: await withClientStored('oauthConfig', oauthConfig) }),
    ...(exchange === undefined
      ? {}
      : { enterpriseManagedConfig: await withClientStored('enterpriseManagedConfig', exchange) }),
  }
}

const recordOf = ({ id, name, sharing, serverType }: CatalogItem) => ({
  id,
  name,
  scope: sharing.scope,
  author: sharing.author,
  teams: [...sharing.teams],
  server_type: serverType,
})

/** More are in the details. */
const NAMED_IDS_MAX = 10

function severalNamed(items: readonly CatalogItem[], field: string): AppError {
  const ids = items.map(({ id, sharing }) => `${id} (${sharing.scope})`).slice(0, NAMED_IDS_MAX)
  const message = `${field}: several MCP servers have this name. Use the id of one of them: ${ids.join(', ')}.`
  return new AppError('ERR_INVALID_INPUT', message, { field, ids: items.map(({ id }) => id) })
}

const itemView = (item: CatalogItem) => ({
  id: item.id,
  name: item.name,
  scope: item.sharing.scope,
  teams: item.sharing.teams,
  serverType: item.serverType,
  toolPrefix: `${item.slug}__`,
})
