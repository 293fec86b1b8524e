import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { Database } from '../../contract/database.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import { canModify } from '../../contract/sharing.ts'
import type { WriteTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { SecretLinks } from '../secrets/links.ts'
import type { SecretLink } from '../secrets/ports.ts'
import type { SecretService } from '../secrets/service.ts'
import type { Deployments } from './deployments.ts'
import { type Grants, renewed } from './grants.ts'
import type { OauthClient, PendingGrant } from './oauth.ts'
import type { CatalogItem, Deployment, DeploymentStatus, McpServerStore } from './ports.ts'

type AuthorizationDeps = Readonly<{
  store: Pick<McpServerStore, 'findItem' | 'findDeployment' | 'saveDeployment'>
  deployments: Pick<Deployments, 'find' | 'reconnectLater'>
  grants: Pick<Grants, 'find'>
  secrets: Pick<SecretService, 'put' | 'remove' | 'resolve' | 'sealText' | 'openText'>
  links: Pick<SecretLinks, 'create' | 'newToken' | 'originFor' | 'openAs' | 'takeAs'>
  oauth: Pick<OauthClient, 'begin' | 'redeem'>
  database: Pick<Database, 'read'>
  clock: Pick<Clock, 'nowMs'>
  noteChange(tx: WriteTx, tenant: TenantId): Promise<void>
}>

type RequestCall = Pick<Call, 'principal' | 'nowMs' | 'read' | 'origin' | 'transact' | 'record' | 'signal' | 'warn'>

const LINK_KIND = 'mcp_authorization'
const AUTHORIZE_PATH = '/mcp-authorize/'
const CALLBACK_PATH = '/mcp-callback'

/** Shown on a page before a person goes to the authorisation server. */
type OpenAuthorization = Readonly<{ title: string; principal: Principal; url: string }>

export type Authorizations = ReturnType<typeof createAuthorizations>

/**
 * Asks a person to let a deployment act for them at its server. The token of the link is the `state` of the request: it is bound
 * to the caller that requested the link, and works once. The page of the link binds it to a browser as well.
 */
export function createAuthorizations(deps: AuthorizationDeps) {
  const { store, secrets, links } = deps

  async function itemOf({ tenant, catalogId }: Deployment): Promise<CatalogItem> {
    const item = await store.findItem(deps.database.read, tenant, catalogId)
    if (item?.serverType === 'remote' && typeof item.config.serverUrl === 'string') return item
    throw new AppError('ERR_INVALID_INPUT', 'serverId: only a remote MCP server is authorized by a person.', {
      field: 'serverId',
    })
  }

  async function request(call: RequestCall, { serverId }: Readonly<{ serverId: string }>) {
    const { principal, nowMs, signal } = call
    const deployment = await deps.deployments.find(call.read, principal, serverId)
    requireMayAuthorize(principal, deployment)
    const { tenant, id } = deployment
    const item = await itemOf(deployment)
    const origin = await links.originFor(call)
    const token = links.newToken()
    const { oauthConfig: config, serverUrl } = item.config
    const secret = config?.client_secret
    const authorization = await deps.oauth.begin(
      {
        serverUrl: serverUrl!,
        config,
        clientSecret: secret === undefined ? undefined : await secrets.resolve(deps.database.read, tenant, secret),
        redirectUri: `${origin}${CALLBACK_PATH}`,
        state: token,
        clientName: `Castellan: ${item.name}`,
        known: await deps.grants.find(deps.database.read, deployment, serverUrl!),
      },
      signal,
    )
    const pending: PendingGrant = { ...authorization, deploymentId: id }
    const subject = await secrets.sealText(tenant, LINK_KIND, JSON.stringify(pending))
    const link = await call.transact(async (tx) => {
      const now = await store.findDeployment(tx, tenant, id)
      if (now?.status === 'error' && now.grant === null) {
        await store.saveDeployment(tx, tenant, { ...now, status: 'pending', updatedAtMs: nowMs })
      }
      return await links.create(tx, call, origin, {
        kind: LINK_KIND,
        subject,
        title: item.name,
        fields: [],
        at: { path: AUTHORIZE_PATH, token },
      })
    })
    call.record({ kind: 'mcp_authorization_requested', body: { deployment_id: id, issuer: pending.server.issuer } })
    return { serverId: id, authorizationServer: pending.server.issuer, link }
  }

  /** The answer to a deployment that needs a person's sign-in, with a link if one can be created. */
  async function offer<T extends Readonly<{ id: string; name: string; status: DeploymentStatus; message: string }>>(
    call: RequestCall & Pick<Call, 'warn'>,
    deployed: T,
  ) {
    try {
      const { link } = await request(call, { serverId: deployed.id })
      const message = `${deployed.name} requires a person to sign in. Give the link to that person.`
      return { ...deployed, status: 'pending' as const, link, message }
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      call.warn(`No sign-in link could be created: ${error.message}`)
      return deployed
    }
  }

  async function open(token: string, nowMs: number): Promise<OpenAuthorization | undefined> {
    const link = await links.openAs(LINK_KIND, token, nowMs)
    if (link === undefined) return undefined
    const pending = await pendingOf(link)
    return pending && { title: link.title, principal: link.principal, url: pending.url }
  }

  async function pendingOf({ tenant, subject }: SecretLink): Promise<PendingGrant | undefined> {
    const text = await secrets.openText(tenant, LINK_KIND, subject)
    return text === undefined ? undefined : (JSON.parse(text) as PendingGrant)
  }

  /** The link is used up before the code is redeemed: whatever the outcome, a second answer finds nothing. */
  async function finish(
    call: Pick<Call, 'principal' | 'nowMs' | 'read' | 'transact' | 'record' | 'signal'>,
    input: Readonly<{ state: string; code?: string | undefined; error?: string | undefined; iss?: string | undefined }>,
  ) {
    const { principal, nowMs } = call
    const { tenant } = principal
    const link = await call.transact((tx) => links.takeAs(LINK_KIND, tx, call, input.state))
    const pending = await pendingOf(link)
    if (pending === undefined) throw refused(undefined)
    const { deploymentId: id, verifier: _, url: __, ...terms } = pending
    if (input.code === undefined) throw refused(input.error)
    const tokens = await deps.oauth.redeem(pending, { code: input.code, iss: input.iss }, call.signal)
    const value = JSON.stringify(renewed(terms, tokens, deps.clock.nowMs()))
    await call.transact(async (tx) => {
      const deployment = await deps.deployments.find(tx, principal, id)
      requireMayAuthorize(principal, deployment)
      const owner = identityOf(principal)
      const grant = await secrets.put(tx, tenant, { owner, purpose: `${link.title}: OAuth tokens`, value, nowMs })
      if (deployment.grant !== null) await secrets.remove(tx, tenant, deployment.grant)
      const next = { ...deployment, grant, status: 'discovering-tools' as const, error: null, updatedAtMs: nowMs }
      await store.saveDeployment(tx, tenant, next)
      await deps.noteChange(tx, tenant)
    })
    call.record({ kind: 'mcp_server_authorized', body: { deployment_id: id, issuer: terms.server.issuer } })
    // The person does not wait for the server: the list of deployments shows the outcome.
    deps.deployments.reconnectLater(tenant, id)
    return { serverId: id, message: `${link.title} may now be used with your authorization, and is being connected.` }
  }

  return { request, offer, open, finish }
}

/** Only its author authorises a personal deployment: an administrator does not sign in for others. */
function requireMayAuthorize(principal: Principal, { id, sharing }: Deployment): void {
  const isOthers = sharing.scope === 'personal' && sharing.author !== identityOf(principal)
  if (!isOthers && canModify(principal, 'mcpServerInstallation', sharing)) return
  throw new AppError('ERR_PERMISSION_DENIED', 'You can see this deployment, but you may not authorize it.', { id })
}

const refused = (error: string | undefined): AppError =>
  new AppError(
    'ERR_UPSTREAM_UNAUTHORIZED',
    'The authorization server did not allow it. Call authorize_mcp_server for another link.',
    { ...(error === undefined ? {} : { oauth_error: error }) },
  )
