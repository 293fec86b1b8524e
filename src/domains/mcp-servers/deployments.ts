import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import { canModify, canSee, requireShareable, type Scope, type Sharing } from '../../contract/sharing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Random } from '../../kernel/random.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import type { SecretLinks } from '../secrets/links.ts'
import { parseReference } from '../secrets/rules.ts'
import type { SecretService } from '../secrets/service.ts'
import type { Catalog, TeamDirectory } from './catalog.ts'
import { invalid, requireValue } from './config-rules.ts'
import { createDeploymentLookup } from './deployment-lookup.ts'
import {
  alreadyDeployed,
  authorizePathOf,
  messageOf,
  noDeployment,
  orphaned,
  recordOf,
  requireNoReference,
  requireQuota,
  secretsOf,
} from './deployment-texts.ts'
import { createDiscoveries } from './discoveries.ts'
import { forgetUnlisted } from './discovery.ts'
import type { ExchangedCredentials } from './exchanged-credentials.ts'
import { type Grants, needsAuthorization } from './grants.ts'
import { toolListOf } from './listed-tools.ts'
import type { CatalogItem, Deployment, DeploymentStatus, McpServerStore } from './ports.ts'
import { hasOwnValue, mayDirect, missingFields, valueFields } from './rules.ts'
import type { UpstreamAddress, UpstreamRuntime } from './runtime.ts'
import { specOf } from './spec.ts'
import { removeUnusedSecrets } from './unused-secrets.ts'

type DeploymentDeps = Readonly<{
  store: McpServerStore
  catalog: Pick<Catalog, 'find'>
  secrets: Pick<SecretService, 'put' | 'removeUnused' | 'resolve' | 'requireMayRefer'>
  isRevoked(tx: ReadTx | WriteTx, tenant: TenantId, owner: string): Promise<boolean>
  links: Pick<SecretLinks, 'create' | 'originFor' | 'onValues'>
  runtime: UpstreamRuntime
  grants: Pick<Grants, 'authorizationOf'>
  teams: TeamDirectory
  database: Pick<Database, 'read' | 'write'>
  clock: Clock
  random: Random
  logger: Logger
  noteChange(tx: WriteTx, tenant: TenantId): Promise<void>
  /** Called after a commit that changed the tools. */
  announce(tenant: TenantId): Promise<void>
  agentTools: AgentTools
}>

/** Tools of a deployment for agents, with its credentials. */
export type AgentTools = Readonly<{
  /** Throws for an agent that does not exist, or that the caller may not change. */
  requireAssignable(call: Pick<Call, 'principal' | 'read'>, agentIds: readonly string[]): Promise<void>
  assign(
    call: Call,
    input: Readonly<{ agentIds: readonly string[]; toolIds: readonly string[]; deploymentId: string }>,
  ): Promise<void>
}>

export type DeployInput = Readonly<{
  catalogId: string
  scope?: Scope | undefined
  teamId?: string | undefined
  agentIds?: readonly string[] | undefined
  values?: Readonly<Record<string, string | number | boolean>> | undefined
}>

const LINK_KIND = 'mcp_deployment'

export type Deployments = ReturnType<typeof createDeployments>

export function createDeployments(deps: DeploymentDeps) {
  const { store, runtime } = deps
  deps.links.onValues(LINK_KIND, (call, subject, values) => takeValues(call, subject, values))

  /** A local server runs in its author's workspace, and so ends with the author. */
  const isWithoutAuthor = async (tx: ReadTx | WriteTx, { serverType }: CatalogItem, { tenant, sharing }: Deployment) =>
    serverType === 'local' && (await deps.isRevoked(tx, tenant, sharing.author))

  /** `exchanged` creates the credentials of a single caller, who then has a separate connection. */
  const addressOf = (
    { tenant, id }: Pick<Deployment, 'tenant' | 'id'>,
    exchanged?: ExchangedCredentials,
  ): UpstreamAddress => ({
    tenant,
    deploymentId: id,
    ...(exchanged === undefined ? {} : { caller: exchanged.caller }),
    async load() {
      const { read } = deps.database
      const deployment = await store.findDeployment(read, tenant, id)
      const item = deployment && (await store.findItem(read, tenant, deployment.catalogId))
      if (deployment === undefined || item === undefined) throw noDeployment(id)
      if (await isWithoutAuthor(read, item, deployment)) throw orphaned(id)
      const { serverUrl } = item.config
      const authorization =
        exchanged !== undefined
          ? exchanged.authorization
          : item.serverType === 'remote'
            ? await deps.grants.authorizationOf(deployment, serverUrl!)
            : undefined
      return await specOf(item, deployment, (of, text) => deps.secrets.resolve(read, of, text), authorization)
    },
  })

  const find = createDeploymentLookup(deps)
  const { discoverUntil, reconnectLater, resume, close } = createDiscoveries(deps, addressOf)

  async function sharingFor(
    tx: WriteTx,
    principal: Principal,
    { scope = 'personal', teamId }: DeployInput,
  ): Promise<Sharing> {
    const team = teamId === undefined ? undefined : await deps.teams.find(tx, principal.tenant, teamId)
    if (teamId !== undefined && team === undefined) {
      throw new AppError('ERR_NOT_FOUND', 'teamId: there is no such team; user_team_list lists them', {
        field: 'teamId',
      })
    }
    const teams = team === undefined ? [] : [team.id]
    if (scope === 'team' && team === undefined) throw invalid('teamId', 'the scope team needs the id of a team')
    requireShareable(principal, 'mcpServerInstallation', scope, teams)
    return { scope, author: identityOf(principal), teams }
  }

  /** The holder's existing deployment of the item, if any. */
  async function existing(tx: WriteTx, item: CatalogItem, sharing: Sharing): Promise<Deployment | undefined> {
    const all = await store.listDeployments(tx, item.tenant, item.id)
    return all.find(
      (other) =>
        other.sharing.scope === sharing.scope &&
        (sharing.scope === 'personal'
          ? other.sharing.author === sharing.author
          : sharing.scope === 'org' || other.sharing.teams[0] === sharing.teams[0]),
    )
  }

  /**
   * Values of secret fields go into the secret store; others are visible to everybody who sees the deployment. A value from a
   * page is never a reference: the person with the link is not the caller that requested it.
   */
  async function storedValues(
    tx: WriteTx,
    { principal, nowMs }: Pick<Call, 'principal' | 'nowMs'>,
    item: CatalogItem,
    input: Readonly<Record<string, string | number | boolean>>,
    from: 'caller' | 'page',
  ): Promise<Record<string, string>> {
    const fields = new Map(valueFields(item.config).map((field) => [field.name, field]))
    const stored: Record<string, string> = {}
    for (const [name, written] of Object.entries(input)) {
      const field = fields.get(name)
      if (field === undefined)
        throw invalid(
          'values',
          `has a name that the server does not ask for; it asks for ${[...fields.keys()].join(', ') || 'nothing'}`,
        )
      if (typeof written !== 'string' && typeof written !== field.accepts) {
        throw invalid(name, `must be a ${field.accepts === 'text' ? 'string' : field.accepts}`)
      }
      const value = String(written)
      const isReference = from === 'caller' && parseReference(value) !== undefined
      if (isReference) await deps.secrets.requireMayRefer(tx, principal, 'values', value)
      else if (!field.secret) requireNoReference(name, value)
      if (!isReference) requireValue(field, value)
      const purpose = `${item.name}: ${field.label}`
      stored[name] =
        field.secret && !isReference
          ? await deps.secrets.put(tx, item.tenant, { owner: identityOf(principal), purpose, value, nowMs })
          : value
    }
    return stored
  }

  /** A client gives up a call after about a minute. A command of the terminal waits, because what it started may end with it. */
  function discoverFor(call: Call, deployment: Deployment): Promise<Deployment | undefined> {
    const waitMs = call.transport === 'cli' ? Number.POSITIVE_INFINITY : limits.runWaitMsMax
    let progress = 0
    return discoverUntil(deployment, {
      untilMs: deps.clock.monotonicMs() + waitMs,
      signal: call.signal,
      onWaiting: () => call.progress({ progress: ++progress, message: 'waiting for the first answer of the server' }),
    })
  }

  async function deploy(call: Call, input: DeployInput) {
    const { principal, nowMs } = call
    const { tenant } = principal
    const { agentIds = [] } = input
    if (agentIds.length > 0) await call.assignsTools?.()
    await deps.agentTools.requireAssignable(call, agentIds)
    const origin = await deps.links.originFor(call)
    const made = await call.transact(async (tx) => {
      const item = await deps.catalog.find(tx, principal, input.catalogId, 'catalogId')
      const sharing = await sharingFor(tx, principal, input)
      const before = await existing(tx, item, sharing)
      const isOrphaned = before !== undefined && (await isWithoutAuthor(tx, item, before))
      const isRetained = before?.status === 'success' && input.values === undefined && !isOrphaned
      if (before !== undefined && sharing.scope !== 'personal' && isRetained) throw alreadyDeployed(before)
      // With another person's values beside them, the author's could be sent where that person likes.
      const isTheirs = before !== undefined && mayDirect(principal, before)
      const keepsValues = isTheirs || (before !== undefined && input.values === undefined && !isOrphaned)
      const retained = keepsValues ? before.values : {}
      const values = { ...retained, ...(await storedValues(tx, call, item, input.values ?? {}, 'caller')) }
      const missing = missingFields(item.config, values)
      const status: DeploymentStatus = missing.length > 0 ? 'pending' : 'discovering-tools'
      const deployment: Deployment = {
        tenant,
        id: before?.id ?? uuidOf(deps.random.bytes(16)),
        catalogId: item.id,
        // A deployment without its author is taken over.
        sharing: before === undefined || isOrphaned ? sharing : before.sharing,
        status,
        error: null,
        values,
        grant: isOrphaned && !isTheirs ? null : (before?.grant ?? null),
        toolList: before?.toolList ?? null,
        createdAtMs: before?.createdAtMs ?? nowMs,
        updatedAtMs: nowMs,
      }
      if (before === undefined) {
        requireQuota((await store.listDeployments(tx, tenant)).length)
        await store.insertDeployment(tx, tenant, deployment)
      } else await store.saveDeployment(tx, tenant, deployment)
      if (isOrphaned) await removeUnusedSecrets(deps, tx, tenant, secretsOf(before))
      await deps.noteChange(tx, tenant)
      const link = missing.length === 0 ? undefined : await createLink(tx, call, origin, item, deployment)
      return { item, deployment, link, isNew: before === undefined }
    })
    if (made.link !== undefined) await runtime.stop(made.deployment.id)
    const ready = made.link === undefined ? await discoverFor(call, made.deployment) : undefined
    const deployment = ready ?? made.deployment
    const list = await toolListOf(store, deps.database.read, deployment)
    const toolIds = [...(list?.keys() ?? [])]
    if (agentIds.length > 0 && deployment.status === 'success') {
      await deps.agentTools.assign(call, { agentIds, toolIds, deploymentId: deployment.id })
    }
    call.record({ kind: 'mcp_server_deployed', body: recordOf(made.item, deployment) })
    return {
      ...view(made.item, deployment, call.origin),
      isNew: made.isNew,
      toolCount: toolIds.length,
      ...(made.link === undefined ? {} : { link: made.link }),
      message: messageOf(made.item, deployment, { hasLink: made.link !== undefined, tools: toolIds.length, agentIds }),
    }
  }

  function createLink(tx: WriteTx, call: Call, origin: string, item: CatalogItem, deployment: Deployment) {
    const fields = valueFields(item.config).map((field) => ({
      name: field.name,
      label: field.label,
      description: field.description,
      secret: field.secret,
      required: field.required && !hasOwnValue(field) && deployment.values[field.name] === undefined,
    }))
    return deps.links.create(tx, call, origin, {
      kind: LINK_KIND,
      subject: deployment.id,
      title: `Values for ${item.name}`,
      fields,
    })
  }

  async function takeValues(
    call: Pick<Call, 'principal' | 'nowMs' | 'write' | 'record'>,
    id: string,
    values: Readonly<Record<string, string>>,
  ): Promise<string> {
    const { principal, nowMs, write } = call
    const { tenant } = principal
    const before = await find(write, principal, id)
    const item = await store.findItem(write, tenant, before.catalogId)
    if (item === undefined) throw noDeployment(id)
    const stored = await storedValues(write, call, item, values, 'page')
    const next = {
      ...before,
      values: { ...before.values, ...stored },
      status: 'discovering-tools' as const,
      error: null,
      updatedAtMs: nowMs,
    }
    await store.saveDeployment(write, tenant, next)
    const replaced = Object.keys(stored).map((name) => before.values[name] ?? '')
    await removeUnusedSecrets(deps, write, tenant, replaced)
    call.record({ kind: 'mcp_server_values_entered', body: { deployment_id: id, fields: Object.keys(values) } })
    // The person does not wait for the server: the list of deployments shows the outcome.
    reconnectLater(tenant, id)
    return `The values were saved, and ${item.name} is being connected.`
  }

  async function list(call: Pick<Call, 'principal' | 'read' | 'origin'>) {
    const { principal, read } = call
    const items = new Map((await store.listItems(read, principal.tenant)).map((item) => [item.id, item]))
    const seen = (await store.listDeployments(read, principal.tenant)).filter(
      ({ catalogId, sharing }) => items.has(catalogId) && canSee(principal, 'mcpServerInstallation', sharing),
    )
    return { deployments: seen.map((one) => view(items.get(one.catalogId)!, one, call.origin)) }
  }

  function view(item: CatalogItem, deployment: Deployment, origin: string | undefined) {
    const { state, problem, isUnreachable, starts } = runtime.stateOf(deployment.id)
    const isUnauthorized = item.serverType === 'remote' && needsAuthorization(deployment)
    return {
      id: deployment.id,
      catalogId: item.id,
      name: item.name,
      serverType: item.serverType,
      scope: deployment.sharing.scope,
      teamId: deployment.sharing.teams[0] ?? null,
      author: deployment.sharing.author,
      status: isUnreachable && deployment.status === 'success' ? ('error' as const) : deployment.status,
      error: deployment.error ?? problem ?? null,
      needsAuthorization: isUnauthorized,
      authorizeUrl: isUnauthorized && origin !== undefined ? `${origin}${authorizePathOf(deployment.id)}` : null,
      state,
      starts,
      createdAt: isoTime(deployment.createdAtMs),
    }
  }

  async function logs(
    call: Pick<Call, 'principal' | 'read'>,
    { serverId, lines = 100 }: Readonly<{ serverId: string; lines?: number | undefined }>,
  ) {
    const deployment = await find(call.read, call.principal, serverId)
    const text = await runtime.readLog(deployment.tenant, deployment.id, lines)
    return { serverId: deployment.id, lines: text, state: runtime.stateOf(deployment.id).state }
  }

  async function remove(
    call: Pick<Call, 'principal' | 'transact' | 'record'>,
    { serverId }: Readonly<{ serverId: string }>,
  ) {
    const { principal } = call
    const deployment = await call.transact(async (tx) => {
      const found = await find(tx, principal, serverId)
      if (!canModify(principal, 'mcpServerInstallation', found.sharing)) {
        throw new AppError('ERR_PERMISSION_DENIED', 'You can see this deployment, but you may not remove it.', {
          id: serverId,
        })
      }
      await store.deleteDeployment(tx, found.tenant, found.id)
      await forgetUnlisted(deps, tx, found.tenant, found.catalogId, deps.clock.nowMs())
      await removeUnusedSecrets(deps, tx, found.tenant, secretsOf(found))
      await deps.noteChange(tx, found.tenant)
      return found
    })
    await runtime.remove(deployment.tenant, deployment.id)
    await deps.announce(deployment.tenant)
    call.record({
      kind: 'mcp_server_undeployed',
      body: { deployment_id: deployment.id, catalog_id: deployment.catalogId },
    })
    return { id: deployment.id, deleted: true }
  }

  return { deploy, reconnectLater, resume, list, logs, remove, find, addressOf, view, close }
}
