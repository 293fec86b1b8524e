import { ProtocolError, SdkError, SdkErrorCode, SdkHttpError, UnauthorizedError } from '@modelcontextprotocol/client'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { InstanceState, UpstreamAddress } from '../domains/mcp-servers/runtime.ts'
import type { Clock } from '../kernel/clock.ts'
import { withTimeout } from '../kernel/with-timeout.ts'
import type { Connection } from './connect.ts'

type InstanceDeps = Readonly<{
  clock: Clock
  idleMs: number
  startMs: number
  open(at: UpstreamAddress, signal: AbortSignal): Promise<Connection>
  /** Called before each start; throws if too many run. */
  admit(): Promise<void>
  log(line: string): void
  /** Called when the connection was closed because nobody needs it. */
  onStopped?(): void
}>

/** One server in use: connected on demand, closed when idle, and paused after failures. */
export type Instance = Readonly<{
  use<T>(at: UpstreamAddress, work: (connection: Connection) => Promise<T>): Promise<T>
  state(): InstanceState
  /** Since when it is unused; undefined while a caller uses it, or if nothing runs. */
  idleSinceMs(): number | undefined
  isOpen(): boolean
  stop(): Promise<void>
}>

export function createInstance(deps: InstanceDeps): Instance {
  const { clock } = deps
  let opening: Promise<Connection> | undefined
  let opened: Connection | undefined
  let stopping: Promise<void> | undefined
  let inUse = 0
  let idleAtMs = 0
  let idleTimer: NodeJS.Timeout | undefined
  let failures = 0
  let retryAtMs = 0
  let problem: string | undefined
  let starts = 0
  let cancel = new AbortController()

  function connected(at: UpstreamAddress): Promise<Connection> {
    if (opening !== undefined) return opening
    const waitMs = retryAtMs - clock.monotonicMs()
    if (waitMs > 0) throw backingOff(problem, waitMs)
    const attempt = begin(at)
    opening = attempt
    attempt.catch(() => {
      if (opening === attempt) opening = undefined
    })
    return attempt
  }

  async function begin(at: UpstreamAddress): Promise<Connection> {
    await stopping
    await deps.admit()
    starts++
    cancel = new AbortController()
    const signal = withTimeout(cancel.signal, deps.startMs)
    const startedMs = clock.monotonicMs()
    try {
      const connection = await deps.open(at, signal)
      opened = connection
      problem = undefined
      deps.log(`connected after ${Math.round(clock.monotonicMs() - startedMs)} ms`)
      void connection.closed.then(() => onClosed(connection, startedMs))
      return connection
    } catch (error) {
      // A slow start may be cancelled by its caller at the same moment, or end with a protocol time-out.
      const isSilent = SdkError.isInstance(error) && error.code === SdkErrorCode.RequestTimeout
      const isTimedOut = signal.aborted && !cancel.signal.aborted
      const waitedMs = Math.min(clock.monotonicMs() - startedMs, deps.startMs)
      const reason = isTimedOut || isSilent ? startTooSlow(isTimedOut ? deps.startMs : waitedMs) : unavailable(error)
      noteFailure(reason.message)
      throw reason
    }
  }

  function noteFailure(why: string): void {
    failures++
    const pauseMs = Math.min(limits.mcpBackOffMs * 2 ** (failures - 1), limits.mcpBackOffMsMax)
    retryAtMs = clock.monotonicMs() + pauseMs
    problem = why
    deps.log(`failed: ${why} The next start is possible in ${pauseMs} ms.`)
  }

  /** A server that ended by itself after it had worked for a while gets the shortest pause. */
  function onClosed(connection: Connection, startedMs: number): void {
    if (opened !== connection) return
    opened = undefined
    opening = undefined
    if (cancel.signal.aborted) return
    if (clock.monotonicMs() - startedMs > limits.mcpBackOffMsMax) failures = 0
    noteFailure('The MCP server closed the connection.')
  }

  async function end(): Promise<void> {
    clearTimeout(idleTimer)
    idleTimer = undefined
    cancel.abort()
    const connection = await opening?.catch(() => undefined)
    opened = undefined
    opening = undefined
    if (connection === undefined) return
    await connection.close()
    await connection.closed
    deps.log('stopped')
  }

  function stop(): Promise<void> {
    failures = 0
    retryAtMs = 0
    problem = undefined
    stopping ??= end().finally(() => {
      stopping = undefined
      deps.onStopped?.()
    })
    return stopping
  }

  function leave(): void {
    inUse--
    if (inUse > 0) return
    idleAtMs = clock.monotonicMs()
    if (opening === undefined) return
    // Frequent calls need no new timer for each call.
    if (idleTimer !== undefined) {
      idleTimer.refresh()
      return
    }
    idleTimer = setTimeout(() => {
      if (inUse === 0) void stop()
    }, deps.idleMs)
    idleTimer.unref()
  }

  /** If the server no longer knows the session, it processed nothing of the request, which is then repeated once. */
  async function repeated<T>(
    at: UpstreamAddress,
    work: (connection: Connection) => Promise<T>,
    failure: unknown,
  ): Promise<T> {
    if (!SdkHttpError.isInstance(failure) || failure.status !== 404) throw asTold(failure)
    await stop()
    const connection = await connected(at)
    try {
      const result = await work(connection)
      failures = 0
      return result
    } catch (error) {
      throw asTold(error)
    }
  }

  return {
    async use(at, work) {
      inUse++
      try {
        const connection = opened ?? (await connected(at))
        let result: Awaited<ReturnType<typeof work>>
        try {
          result = await work(connection)
        } catch (error) {
          return await repeated(at, work, error)
        }
        failures = 0
        return result
      } finally {
        leave()
      }
    },
    state() {
      const isResting = opening === undefined && retryAtMs > clock.monotonicMs()
      const state =
        opened !== undefined ? 'running' : opening !== undefined ? 'starting' : isResting ? 'backing-off' : 'stopped'
      return { state, problem, starts }
    },
    idleSinceMs: () => (inUse === 0 && opening !== undefined ? idleAtMs : undefined),
    isOpen: () => opening !== undefined,
    stop,
  }
}

const startTooSlow = (startMs: number): AppError =>
  new AppError(
    'ERR_UPSTREAM_UNAVAILABLE',
    `The MCP server did not answer within ${Math.round(startMs / 1000)} s of its start. See its output with get_mcp_server_logs. If it needs more time, raise mcp_servers.start_timeout_secs.`,
    {},
  )

const backingOff = (problem: string | undefined, waitMs: number): AppError =>
  new AppError(
    'ERR_UPSTREAM_UNAVAILABLE',
    `${problem ?? 'The MCP server failed.'} Castellan starts it again after a pause.`,
    { retry_after_ms: Math.ceil(waitMs) },
  )

/** The server's answer to a request stays unchanged; a broken connection is reported as such. */
const asTold = (error: unknown): unknown => (ProtocolError.isInstance(error) ? error : unavailable(error))

const QUOTING = { quotes: ['server_said'] } as const

/** Whether the text of an error is of this machine: without a connection, the other side has said nothing. */
function isOwnText(error: unknown): boolean {
  const isClosed = SdkError.isInstance(error) && error.code === SdkErrorCode.ConnectionClosed
  const { code } = ((error as Error | undefined)?.cause ?? error ?? {}) as { code?: unknown }
  return isClosed || (typeof code === 'string' && /^(?:E[A-Z]{3,}|UND_ERR_[A-Z_]+)$/.test(code))
}

/** The other side's text goes into the details, marked as such. */
function unavailable(error: unknown): AppError {
  if (error instanceof AppError) return error
  const said = String((error as Error)?.message ?? error).slice(0, limits.mcpErrorCharsMax)
  if (SdkHttpError.isInstance(error) && (error.status === 401 || error.status === 403)) {
    return new AppError(
      'ERR_UPSTREAM_UNAUTHORIZED',
      `The MCP server rejected the credentials (HTTP ${error.status}). Enter new ones with deploy_mcp_server, or have a person sign in with authorize_mcp_server.`,
      { http_status: error.status, server_said: said },
      QUOTING,
    )
  }
  if (error instanceof UnauthorizedError) {
    return new AppError(
      'ERR_UPSTREAM_UNAUTHORIZED',
      'The MCP server requires authentication. Have a person sign in with authorize_mcp_server, or deploy it with credentials.',
      { server_said: said },
      QUOTING,
    )
  }
  if (SdkError.isInstance(error) && error.code === SdkErrorCode.RequestTimeout) {
    return new AppError(
      'ERR_TIMED_OUT',
      'The MCP server did not answer in time.',
      { server_said: said },
      { cause: error },
    )
  }
  return new AppError(
    'ERR_UPSTREAM_UNAVAILABLE',
    'The MCP server cannot be reached, or closed the connection. See get_mcp_server_logs.',
    { server_said: said },
    { cause: error, ...(!isOwnText(error) && QUOTING) },
  )
}
