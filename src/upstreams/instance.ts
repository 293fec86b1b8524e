import { ProtocolError, SdkError, SdkErrorCode, SdkHttpError, UnauthorizedError } from '@modelcontextprotocol/client'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { InstanceState, UpstreamAddress } from '../domains/mcp-servers/runtime.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Connection } from './connect.ts'

type InstanceDeps = Readonly<{
  clock: Clock
  idleMs: number
  startMs: number
  open(at: UpstreamAddress, signal: AbortSignal): Promise<Connection>
  /** Asked before each start; throws when too many run. */
  admit(): Promise<void>
  log(line: string): void
  /** Told when the connection was closed because nobody needs it. */
  onStopped?(): void
}>

/** One server in use: connected on demand, left when idle, and given a rest when it fails. */
export type Instance = Readonly<{
  use<T>(at: UpstreamAddress, work: (connection: Connection) => Promise<T>): Promise<T>
  state(): InstanceState
  /** Since when nobody uses it; undefined while a caller does, or when nothing runs. */
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
    const signal = AbortSignal.any([cancel.signal, AbortSignal.timeout(deps.startMs)])
    const startedMs = clock.monotonicMs()
    try {
      const connection = await deps.open(at, signal)
      opened = connection
      problem = undefined
      deps.log(`connected after ${Math.round(clock.monotonicMs() - startedMs)} ms`)
      void connection.closed.then(() => onClosed(connection, startedMs))
      return connection
    } catch (error) {
      // A start that is too slow may be given up by its caller at the same moment, or end with a time-out of the protocol.
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

  /** A server that went on its own after it had worked for a while begins with the shortest rest. */
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
    clearTimeout(idleTimer)
    if (opening === undefined) return
    idleTimer = setTimeout(() => {
      if (inUse === 0) void stop()
    }, deps.idleMs)
    idleTimer.unref()
  }

  async function attempt<T>(
    at: UpstreamAddress,
    work: (connection: Connection) => Promise<T>,
    mayRepeat: boolean,
  ): Promise<T> {
    const connection = await connected(at)
    try {
      const result = await work(connection)
      failures = 0
      return result
    } catch (error) {
      if (ProtocolError.isInstance(error) || error instanceof AppError) throw error
      // A session that the server does not know any more took nothing of the request.
      if (mayRepeat && SdkHttpError.isInstance(error) && error.status === 404) {
        await stop()
        return await attempt(at, work, false)
      }
      throw unavailable(error)
    }
  }

  return {
    async use(at, work) {
      inUse++
      clearTimeout(idleTimer)
      try {
        return await attempt(at, work, true)
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
    `The MCP server did not answer within ${Math.round(startMs / 1000)} s of its start. get_mcp_server_logs shows what it said.`,
    {},
  )

const backingOff = (problem: string | undefined, waitMs: number): AppError =>
  new AppError(
    'ERR_UPSTREAM_UNAVAILABLE',
    `${problem ?? 'The MCP server failed.'} It is started again after a pause.`,
    { retry_after_ms: Math.ceil(waitMs) },
  )

/** What the other side wrote goes into the details, marked as such. */
function unavailable(error: unknown): AppError {
  if (error instanceof AppError) return error
  const said = String((error as Error)?.message ?? error).slice(0, limits.mcpErrorCharsMax)
  if (SdkHttpError.isInstance(error) && (error.status === 401 || error.status === 403)) {
    return new AppError(
      'ERR_UPSTREAM_UNAUTHORIZED',
      `The MCP server refused the credentials (HTTP ${error.status}). Enter them again with deploy_mcp_server, or let a person sign in with authorize_mcp_server.`,
      { http_status: error.status, server_said: said },
    )
  }
  if (error instanceof UnauthorizedError) {
    return new AppError(
      'ERR_UPSTREAM_UNAUTHORIZED',
      'The MCP server requires authentication. Let a person sign in with authorize_mcp_server, or deploy it with credentials.',
      {
        server_said: said,
      },
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
    { cause: error },
  )
}
