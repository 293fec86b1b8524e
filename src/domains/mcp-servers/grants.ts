import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import { createSingleFlight } from '../../kernel/single-flight.ts'
import { parseReference } from '../secrets/rules.ts'
import type { SecretService } from '../secrets/service.ts'
import type { Grant, OauthClient, OauthTokens } from './oauth.ts'
import type { Deployment, McpServerStore } from './ports.ts'
import type { UpstreamAuthorization } from './runtime.ts'

type GrantDeps = Readonly<{
  store: Pick<McpServerStore, 'findDeployment' | 'saveDeployment'>
  secrets: Pick<SecretService, 'resolve' | 'enter'>
  oauth: Pick<OauthClient, 'refresh'>
  database: Pick<Database, 'read' | 'write'>
  clock: Pick<Clock, 'nowMs'>
  noteChange(tx: WriteTx, tenant: TenantId): Promise<void>
}>

/** Prefix of the error of a deployment that needs a person's sign-in. */
const UNAUTHORIZED = 'ERR_UPSTREAM_UNAUTHORIZED'
export const needsAuthorization = ({ error }: Pick<Deployment, 'error'>): boolean =>
  error?.startsWith(UNAUTHORIZED) === true

export type Grants = ReturnType<typeof createGrants>

/**
 * The tokens of deployments. They are renewed before they expire and when a server refuses them: by one caller for all, and not
 * again for a token that another has renewed already. The deployment reports a failed renewal until one succeeds or a person
 * signs in again.
 */
export function createGrants(deps: GrantDeps) {
  const { store, database } = deps
  const renewals = createSingleFlight<Grant>()
  /**
   * Renewed tokens that could not be saved, by their secret. The old refresh token is void, so these are used, and saved with the
   * next use.
   */
  const unsaved = new Map<string, Grant>()

  /** Undefined if nobody authorised it, or for another address than the server's present one. */
  async function find(tx: ReadTx, { tenant, grant }: Deployment, serverUrl: string): Promise<Grant | undefined> {
    if (grant === null) return undefined
    const found = unsaved.get(grant) ?? (JSON.parse(await deps.secrets.resolve(tx, tenant, grant)) as Grant)
    return found.serverUrl === serverUrl ? found : undefined
  }

  async function current(tenant: TenantId, id: string, serverUrl: string): Promise<[Deployment, Grant]> {
    const deployment = await store.findDeployment(database.read, tenant, id)
    const grant = deployment && (await find(database.read, deployment, serverUrl))
    if (deployment === undefined || grant === undefined) throw ended(id, 'nobody has authorized it')
    return [deployment, grant]
  }

  async function renew(tenant: TenantId, id: string, serverUrl: string, refused: string): Promise<Grant> {
    const [deployment, grant] = await current(tenant, id, serverUrl)
    const late = unsaved.get(deployment.grant!)
    if (late !== undefined) await save(deployment, late)
    if (grant.accessToken !== refused) return grant
    try {
      if (grant.refreshToken === undefined) throw ended(id, 'there is no refresh token')
      const tokens = await deps.oauth.refresh(grant, new AbortController().signal)
      const next = renewed(grant, tokens, deps.clock.nowMs())
      unsaved.set(deployment.grant!, next)
      await save(deployment, next)
      return next
    } catch (error) {
      // Another process may have renewed it with the same refresh token.
      const [, now] = await current(tenant, id, serverUrl)
      if (now.accessToken !== refused) return now
      const failure = refusalOf(id, error)
      await noteFailure(tenant, id, failure)
      throw failure
    }
  }

  async function save({ tenant, id, grant: reference }: Deployment, grant: Grant): Promise<void> {
    const nowMs = deps.clock.nowMs()
    await database.write(tenant, async (tx) => {
      const deployment = await store.findDeployment(tx, tenant, id)
      if (deployment === undefined || deployment.grant !== reference) return
      await deps.secrets.enter(tx, tenant, parseReference(reference!)!.name, JSON.stringify(grant), nowMs)
      if (!needsAuthorization(deployment)) return
      await store.saveDeployment(tx, tenant, { ...deployment, status: 'success', error: null, updatedAtMs: nowMs })
      await deps.noteChange(tx, tenant)
    })
    unsaved.delete(reference!)
  }

  async function noteFailure(tenant: TenantId, id: string, { code, message }: AppError): Promise<void> {
    const updatedAtMs = deps.clock.nowMs()
    await database.write(tenant, async (tx) => {
      const deployment = await store.findDeployment(tx, tenant, id)
      if (deployment === undefined) return
      const failed = { ...deployment, status: 'error' as const, error: `${code}: ${message}`, updatedAtMs }
      await store.saveDeployment(tx, tenant, failed)
      await deps.noteChange(tx, tenant)
    })
  }

  return {
    find,

    /** Sends the token of a deployment with each request; undefined if there is none. */
    async authorizationOf(deployment: Deployment, serverUrl: string): Promise<UpstreamAuthorization | undefined> {
      const { tenant, id } = deployment
      let grant = await find(database.read, deployment, serverUrl)
      if (grant === undefined) return undefined
      async function renewOnce(refused: string): Promise<void> {
        grant = await renewals.run(id, () => renew(tenant, id, serverUrl, refused))
      }
      return {
        async token() {
          const { accessToken, refreshToken, expiresAtMs } = grant!
          const isExpiring = expiresAtMs !== null && expiresAtMs - limits.mcpTokenRenewalMs <= deps.clock.nowMs()
          if (isExpiring && refreshToken !== undefined) await renewOnce(accessToken)
          return grant!.accessToken
        },
        async renew(refused = grant!.accessToken) {
          if (refused === grant!.accessToken) await renewOnce(refused)
        },
      }
    },
  }
}

/** The refresh token stays valid if the answer has no new one. */
export const renewed = <T extends object>(terms: T, tokens: OauthTokens, nowMs: number) => ({
  ...terms,
  accessToken: tokens.accessToken,
  refreshToken: tokens.refreshToken ?? (terms as Partial<Grant>).refreshToken,
  expiresAtMs: tokens.expiresInSecs === undefined ? null : nowMs + tokens.expiresInSecs * 1_000,
})

function refusalOf(id: string, error: unknown): AppError {
  if (!(error instanceof AppError)) return ended(id, 'the renewal failed')
  const said = error.details['oauth_error']
  if (error.code === UNAUTHORIZED && typeof said === 'string' && /^[a-z_]{1,64}$/.test(said)) return ended(id, said)
  return error.code === UNAUTHORIZED
    ? error
    : new AppError(
        UNAUTHORIZED,
        `The authorization could not be renewed: ${error.message}`,
        { ...error.details, deployment_id: id },
        { quotes: error.quotes },
      )
}

const ended = (id: string, why: string): AppError =>
  new AppError(
    UNAUTHORIZED,
    `The authorization for the MCP server has ended (${why}). Call authorize_mcp_server for a link where a person can sign in again.`,
    { deployment_id: id },
  )
