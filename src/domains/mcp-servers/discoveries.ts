import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { WriteTx } from '../../contract/tx.ts'
import { createBackground } from '../../kernel/background.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Random } from '../../kernel/random.ts'
import { createSingleFlight } from '../../kernel/single-flight.ts'
import { createChangeFollower } from './change-follower.ts'
import { leftOutText, problemText } from './deployment-texts.ts'
import { hasToolList, storeToolList } from './discovery.ts'
import type { Deployment, DeploymentStatus, McpServerStore } from './ports.ts'
import type { ListedTool, UpstreamAddress, UpstreamRuntime } from './runtime.ts'

type DiscoveryDeps = Readonly<{
  store: McpServerStore
  runtime: Pick<UpstreamRuntime, 'listTools' | 'stop' | 'onToolsChanged'>
  database: Pick<Database, 'read' | 'write'>
  clock: Clock
  random: Random
  logger: Logger
  noteChange(tx: WriteTx, tenant: TenantId): Promise<void>
  /** Called after a commit that changed the tools. */
  announce(tenant: TenantId): Promise<void>
}>

/** Asks deployed servers for their tools: when they are deployed or changed, and when they announce changes. */
export function createDiscoveries(
  deps: DiscoveryDeps,
  addressOf: (deployment: Pick<Deployment, 'tenant' | 'id'>) => UpstreamAddress,
) {
  const { store, runtime } = deps
  const discovering = createSingleFlight<Deployment | undefined>()
  /** What these are asked now says nothing any more: they will be asked again with other values. */
  const outdated = new Set<string>()
  const background = createBackground((error) =>
    deps.logger.warn('an MCP server could not be connected again', { cause: String(error) }),
  )
  runtime.onToolsChanged(createChangeFollower(deps.clock, background, rediscover))

  /** After its credentials or address have changed. */
  function reconnectLater(tenant: TenantId, id: string): void {
    background.later((closed) => reconnect(tenant, id, closed))
  }

  async function reconnect(tenant: TenantId, id: string, signal: AbortSignal): Promise<Deployment | undefined> {
    if (discovering.pending(id) !== undefined) outdated.add(id)
    await runtime.stop(id)
    return await rediscover(tenant, id, signal)
  }

  /** A list in transit may be outdated. */
  async function rediscover(tenant: TenantId, id: string, signal: AbortSignal): Promise<Deployment | undefined> {
    await discovering.pending(id)
    return await discover(tenant, id, signal)
  }

  /** Asks the server for its tools and stores them. Returns the updated deployment; never throws. */
  function discover(tenant: TenantId, id: string, signal: AbortSignal): Promise<Deployment | undefined> {
    return discovering.run(id, () => {
      outdated.delete(id)
      return discoverNow(tenant, id, signal).catch((error: unknown) => {
        deps.logger.warn('tools of an MCP server could not be stored', { deployment: id, cause: String(error) })
        return giveUp(tenant, id, problemText(error)).catch(() => undefined)
      })
    })
  }

  /** For a caller that waits until then at most. What takes longer goes on without it, and is undefined here. */
  async function discoverUntil(
    { tenant, id }: Pick<Deployment, 'tenant' | 'id'>,
    { untilMs, signal, onWaiting }: Readonly<{ untilMs: number; signal: AbortSignal; onWaiting(): void }>,
  ): Promise<Deployment | undefined> {
    const outcome = Promise.withResolvers<Deployment | undefined>()
    const left = new AbortController()
    const leave = (): void => left.abort(signal.reason)
    for (const end of [signal, background.closed]) end.addEventListener('abort', leave, { once: true })
    if (signal.aborted) leave()
    const look = setInterval(() => {
      if (deps.clock.monotonicMs() >= untilMs) outcome.resolve(undefined)
      else onWaiting()
    }, limits.mcpWaitingToldMs)
    background.run(() =>
      reconnect(tenant, id, left.signal)
        .finally(() => background.closed.removeEventListener('abort', leave))
        .then(outcome.resolve, outcome.reject),
    )
    if (background.closed.aborted) outcome.resolve(undefined)
    try {
      return await outcome.promise
    } finally {
      clearInterval(look)
      signal.removeEventListener('abort', leave)
    }
  }

  async function discoverNow(tenant: TenantId, id: string, signal: AbortSignal): Promise<Deployment | undefined> {
    let outcome: Readonly<{ status: DeploymentStatus; error: string | null }> = { status: 'success', error: null }
    let listed: Awaited<ReturnType<UpstreamRuntime['listTools']>> | undefined
    try {
      listed = await unlessAborted(runtime.listTools(addressOf({ tenant, id }), signal), signal)
    } catch (error) {
      if (signal.aborted) return isShutdown(signal.reason) ? undefined : await giveUp(tenant, id, CANCELLED)
      if (error instanceof AppError && broken.has(error.code)) return await giveUp(tenant, id, problemText(error))
      outcome = { status: 'error', error: problemText(error) }
    }
    if (listed !== undefined) outcome = { status: 'success', error: leftOutText(listed.length) }
    if (background.closed.aborted) return undefined
    const unchanged = listed && (await unchangedBy(tenant, id, listed, outcome.error))
    if (unchanged !== undefined) return unchanged
    const settled = await deps.database.write(tenant, async (tx) => {
      const deployment = await store.findDeployment(tx, tenant, id)
      const item = deployment && (await store.findItem(tx, tenant, deployment.catalogId))
      if (deployment === undefined || item === undefined) return undefined
      // The values with which the server was asked were withdrawn, or replaced.
      if (deployment.status === 'pending' || outdated.has(id)) return undefined
      const nowMs = deps.clock.nowMs()
      const next = { ...deployment, ...outcome, updatedAtMs: nowMs }
      await store.saveDeployment(tx, tenant, next)
      const isChanged = listed !== undefined && (await storeToolList(deps, tx, item, deployment, listed, nowMs))
      if (isChanged || deployment.status !== next.status) await deps.noteChange(tx, tenant)
      return await store.findDeployment(tx, tenant, id)
    })
    await deps.announce(tenant)
    return settled
  }

  /** The server was not asked: a deployment that waits for its answer tells why, and one that works stays as it is. */
  async function giveUp(tenant: TenantId, id: string, error: string): Promise<Deployment | undefined> {
    if (background.closed.aborted) return undefined
    const settled = await deps.database.write(tenant, async (tx) => {
      const deployment = await store.findDeployment(tx, tenant, id)
      if (deployment?.status !== 'discovering-tools' || outdated.has(id)) return undefined
      const next = { ...deployment, status: 'error' as const, error, updatedAtMs: deps.clock.nowMs() }
      await store.saveDeployment(tx, tenant, next)
      await deps.noteChange(tx, tenant)
      return next
    })
    await deps.announce(tenant)
    return settled
  }

  /**
   * The deployment, if it works and has this list already. Then nothing needs to be written: a server may announce changes
   * as often as it likes, and writers wait for each other.
   */
  async function unchangedBy(
    tenant: TenantId,
    id: string,
    listed: readonly ListedTool[],
    error: string | null,
  ): Promise<Deployment | undefined> {
    const { read } = deps.database
    const deployment = await store.findDeployment(read, tenant, id)
    if (deployment?.status !== 'success' || deployment.error !== error) return undefined
    const item = await store.findItem(read, tenant, deployment.catalogId)
    return item !== undefined && (await hasToolList(deps, read, item, deployment, listed)) ? deployment : undefined
  }

  return {
    discoverUntil,
    reconnectLater,
    /** Connects the deployments that waited for it when the program ended. */
    async resume(tenant: TenantId): Promise<void> {
      for (const { id, status } of await store.listDeployments(deps.database.read, tenant)) {
        if (status === 'discovering-tools') background.run((closed) => discover(tenant, id, closed))
      }
    },
    /** Resolves when nothing that was started here uses the store any more. */
    async close(): Promise<void> {
      await background.close()
      await discovering.settled()
    },
  }
}

/** A server that starts is shared, and is not ended with one of those who wait for it. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const abort = (): void => aborted.reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  try {
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** What waits then is connected by the next program. */
const isShutdown = (reason: unknown): boolean => reason instanceof AppError && reason.code === 'ERR_SHUTTING_DOWN'

/** Errors that say nothing about the server. */
const broken: ReadonlySet<string> = new Set(['ERR_SHUTTING_DOWN', 'ERR_CANCELLED', 'ERR_BUSY'])
const CANCELLED = 'ERR_CANCELLED: The call that deployed it was cancelled before the server answered. Deploy it again.'
