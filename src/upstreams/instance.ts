import { ProtocolError, SdkError, SdkErrorCode, SdkHttpError, UnauthorizedError } from '@modelcontextprotocol/client'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { InstanceState, UpstreamAddress } from '../domains/mcp-servers/runtime.ts'
import type { Clock } from '../kernel/clock.ts'
import { withTimeout } from '../kernel/with-timeout.ts'
import type { Connection } from './handshake.ts'

type InstanceDeps = Readonly<{
  clock: Clock
  idleMs: number
  startMs: number
  open(at: UpstreamAddress, signal: AbortSignal): Promise<Connection>
  /** Called before each start; throws if too many run. */
  admit(): Promise<void>
  log(line: string): void
  /** Called after each use: with the reason if the server was not reached, and without one if it answered. */
  onReached(at: UpstreamAddress, failure?: AppError): void
  /** Called when the connection was closed because nobody needs it. */
  onStopped?(): void
}>

/** One server in use: connected on demand, closed when idle, and paused after failures. */
export type Instance = Readonly<{
  use<T>(at: UpstreamAddress, work: (connection: Connection) => Promise<T>): Promise<T>
  state(): Omit<InstanceState, 'isUnreachable'>
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
  /** A request on the open connection did not reach the server. */
  let isBroken = false
  let cancel = new AbortController()

  function connected(at: UpstreamAddress): Promise<Connection> {
    if (opening !== undefined) return opening
    const waitMs = retryAtMs - clock.monotonicMs()
    if (waitMs > 0) {
      const reason = backingOff(problem, waitMs)
      deps.onReached(at, reason)
      throw reason
    }
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
      isBroken = false
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
      // What was stopped has not failed, and may start again at once.
      if (cancel.signal.aborted) throw reason
      noteFailure(reason.message)
      deps.onReached(at, reason)
      throw reason
    }
  }

  function noteFailure(why: string): void {
    failures++
    const pauseMs = Math.min(limits.mcpBackOffMs * 2 ** (failures - 1), limits.mcpBackOffMsMax)
    retryAtMs = clock.monotonicMs() + pauseMs
    problem = why
    const sentence = /[.!?]$/.test(why) ? why : `${why}.`
    deps.log(`failed: ${sentence} The next start is possible in ${pauseMs} ms.`)
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
    if (!SdkHttpError.isInstance(failure) || failure.status !== 404) throw failed(at, failure)
    await stop()
    const connection = await connected(at)
    try {
      const result = await work(connection)
      noteSuccess(at)
      return result
    } catch (error) {
      throw failed(at, error)
    }
  }

  function noteSuccess(at: UpstreamAddress): void {
    failures = 0
    isBroken = false
    deps.onReached(at)
  }

  function failed(at: UpstreamAddress, error: unknown): unknown {
    const told = asTold(error)
    const isOurs = cancel.signal.aborted
    if (!isOurs && isUnreached(error)) {
      isBroken = true
      deps.onReached(at, told as AppError)
    }
    return told
  }

  /** A connection over HTTP does not end with its server. It is replaced when nobody waits for an answer on it. */
  async function replaceBroken(): Promise<void> {
    if (!isBroken || inUse > 1 || opened === undefined) return
    stopping ??= end().finally(() => {
      stopping = undefined
    })
    await stopping
  }

  return {
    async use(at, work) {
      inUse++
      try {
        if (isBroken) await replaceBroken()
        const connection = opened ?? (await connected(at))
        let result: Awaited<ReturnType<typeof work>>
        try {
          result = await work(connection)
        } catch (error) {
          return await repeated(at, work, error)
        }
        noteSuccess(at)
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

/** Whether a request did not get to the server: no connection, or a proxy that has none. A time-out may be a slow answer. */
function isUnreached(error: unknown): boolean {
  if (error instanceof AppError) return error.code === 'ERR_WEB_FAILED'
  if (SdkHttpError.isInstance(error)) return [502, 503, 504].includes(error.status ?? 0)
  return isOwnText(error) || (SdkError.isInstance(error) && error.code === SdkErrorCode.SendFailed)
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
