import {
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  SSEClientTransport,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { RemoteSpec, UpstreamSpec } from '../domains/mcp-servers/runtime.ts'
import { TIMER_MS_MAX } from '../kernel/clock.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { CheckedFetch, Fetch } from '../web-client/checked-fetch.ts'
import { authorizing } from './authorizing-fetch.ts'
import { type Asking, type Connection, type HandshakeDeps, handshake } from './handshake.ts'
import { withPlainCalls } from './plain-calls.ts'
import type { ServerWorkspace } from './ports.ts'
import { requireReachable } from './reachable-address.ts'
import type { SharedWorkspace } from './shared-workspaces.ts'
import { createStdioTransport } from './stdio-transport.ts'

type ConnectDeps = HandshakeDeps &
  Readonly<{
    /** For remote servers: connects only to checked addresses. */
    web: CheckedFetch
    /** For local servers: connects to a port of this machine that is forwarded into a workspace. */
    localFetch: Fetch
    openWorkspace(spec: Extract<UpstreamSpec, { kind: 'local' }>, signal: AbortSignal): Promise<SharedWorkspace>
    /** The last known revision. A server of the older one is not asked for the newer one at each connection. */
    mode: 'auto' | 'legacy'
  }>

export async function connect(deps: ConnectDeps, spec: UpstreamSpec, signal: AbortSignal): Promise<Connection> {
  if (spec.kind === 'remote') {
    await requireReachable(deps.web, 'serverUrl', spec.url, signal)
    return await connectRemote(deps, spec, deps.web.fetch, signal)
  }
  const workspace = await deps.openWorkspace(spec, signal)
  try {
    const connection = await connectIn(deps, spec, workspace, signal)
    const closed = connection.closed.then(() => workspace.release())
    return {
      ...connection,
      closed,
      async close() {
        await connection.close()
        await closed
      },
    }
  } catch (error) {
    await workspace.release()
    throw error
  }
}

type LocalSpec = Extract<UpstreamSpec, { kind: 'local' }>

async function connectIn(
  deps: ConnectDeps,
  spec: LocalSpec,
  workspace: SharedWorkspace,
  signal: AbortSignal,
): Promise<Connection> {
  await workspace.exclusively(async () => {
    for (const [path, content] of Object.entries(spec.files)) await workspace.writeFile(path, content)
    const { installationCommand } = spec
    if (installationCommand !== undefined) await install(deps, workspace, installationCommand, spec.env, signal)
  })
  deps.log(`starting ${spec.argv[0]}, which may reach ${spec.allowedDomains.join(', ') || 'no host (allowedDomains)'}`)
  if (spec.transport === 'streamable-http') return await connectToPort(deps, spec, workspace, signal)
  const open = () =>
    createStdioTransport({
      run: (io) => workspace.run({ argv: spec.argv, env: spec.env, timeoutMs: 0, ...io }),
      onLine: deps.log,
    })
  const first = open()
  try {
    return await handshakeOverStdio(deps, first, deps.mode, signal)
  } catch (error) {
    // Some servers end at a request of the newer revision. They are contacted again in the older one.
    await first.close()
    if (signal.aborted || deps.mode === 'legacy' || !isEnded(error)) throw error
    const second = open()
    try {
      return await handshakeOverStdio(deps, second, 'legacy', signal)
    } catch (again) {
      await second.close()
      throw again
    }
  }
}

async function handshakeOverStdio(
  deps: ConnectDeps,
  stdio: ReturnType<typeof createStdioTransport>,
  mode: 'auto' | 'legacy',
  signal: AbortSignal,
): Promise<Connection> {
  const { transport, call } = withPlainCalls(stdio)
  // A process gets the whole start time, because it may first have to download the server.
  const connection = await handshake(deps, transport, { mode, timeoutMs: TIMER_MS_MAX }, signal, stdio.ended)
  // In the newer revision a message contains more than the call.
  return connection.client.getProtocolEra() === 'legacy' ? { ...connection, plainCall: call } : connection
}

const isEnded = (error: unknown): boolean =>
  SdkError.isInstance(error) &&
  [SdkErrorCode.ConnectionClosed, SdkErrorCode.EraNegotiationFailed, SdkErrorCode.SendFailed].includes(error.code)

const INSTALLED = '/root/.castellan-installed'

/** Once for each command: its success is recorded beside its results. */
async function install(
  deps: ConnectDeps,
  workspace: ServerWorkspace,
  command: string,
  env: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  const mark = sha256Hex(command)
  const run = (script: string, onOutput: (stream: string, chunk: Uint8Array) => void) =>
    workspace.run({ argv: ['/bin/sh', '-c', script], env, timeoutMs: limits.mcpInstallMs, signal, onOutput })
  const before = await run(`[ "$(cat ${INSTALLED} 2>/dev/null)" = ${mark} ]`, () => {})
  if (before.exitCode === 0) return
  deps.log('installing')
  const { exitCode } = await run(command, (_, chunk) => logChunk(deps, chunk))
  if (exitCode === 0) {
    await workspace.writeFile(INSTALLED, mark)
    return
  }
  throw new AppError(
    'ERR_UPSTREAM_UNAVAILABLE',
    'The installation command of the MCP server failed. See its output with get_mcp_server_logs.',
    { exit_code: exitCode },
  )
}

function logChunk(deps: ConnectDeps, chunk: Uint8Array): void {
  for (const line of Buffer.from(chunk).toString('utf8').split('\n')) if (line.trim() !== '') deps.log(line)
}

/** A server that listens inside, once for all connections: it is polled until it answers, within the start time. */
async function connectToPort(
  deps: ConnectDeps,
  spec: LocalSpec,
  workspace: SharedWorkspace,
  signal: AbortSignal,
): Promise<Connection> {
  const listening = workspace.part(() => startListening(deps, spec, workspace))
  const url = `${await listening.address}${spec.path}`
  for (;;) {
    try {
      const remote = { kind: 'remote', name: spec.name, url, headers: {}, query: {}, cookies: {} } as const
      const connection = await connectRemote(deps, remote, deps.localFetch, signal)
      // A server that has ended no longer listens.
      void listening.ended.then(() => connection.close())
      return connection
    } catch (error) {
      if (signal.aborted || listening.hasEnded() || !isNotListening(error)) throw error
      await new Promise((resolve) => setTimeout(resolve, limits.mcpReadinessPollMs))
    }
  }
}

function startListening(deps: ConnectDeps, spec: LocalSpec, workspace: ServerWorkspace) {
  const end = new AbortController()
  let hasEnded = false
  const ended = workspace
    .run({
      argv: spec.argv,
      env: { ...spec.env, PORT: spec.env['PORT'] ?? String(spec.port) },
      timeoutMs: 0,
      signal: end.signal,
      onOutput: (_, chunk) => logChunk(deps, chunk),
    })
    .then(
      ({ exitCode }) => deps.log(`the process ended (exit code ${exitCode})`),
      (error: unknown) => deps.log(`the process ended (${String(error)})`),
    )
    .finally(() => {
      hasEnded = true
    })
  const address = workspace.forward(spec.port)
  address.catch(() => {})
  return {
    address,
    ended,
    hasEnded: () => hasEnded,
    async end() {
      end.abort()
      await ended
    },
  }
}

const isNotListening = (error: unknown): boolean =>
  /ECONNREFUSED|ECONNRESET|socket hang up|EPIPE/.test(
    `${String(error)} ${String((error as Error).cause)} ${(error as NodeJS.ErrnoException).code}`,
  )

/** Streamable HTTP of either revision; otherwise the old transport with two addresses. */
async function connectRemote(
  deps: ConnectDeps,
  spec: RemoteSpec,
  send: Fetch,
  signal: AbortSignal,
): Promise<Connection> {
  const url = new URL(spec.url)
  for (const [name, value] of Object.entries(spec.query)) url.searchParams.set(name, value)
  const cookie = Object.entries(spec.cookies).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  const headers = { ...spec.headers, ...(cookie.length === 0 ? {} : { cookie: cookie.join('; ') }) }
  const options = { fetch: send, requestInit: { headers }, ...authorizing(spec, send) }
  const overStreamable = (asking: Asking) => (until: AbortSignal) =>
    handshake(deps, new StreamableHTTPClientTransport(url, options), asking, until)
  const overSse = (until: AbortSignal) => {
    const inSse: Fetch = (input, init) =>
      options.fetch(input, { ...init, headers: { ...headers, ...Object.fromEntries(new Headers(init?.headers)) } })
    const transport = new SSEClientTransport(url, { ...options, eventSourceInit: { fetch: inSse } })
    return handshake(deps, transport, { mode: 'legacy', timeoutMs: TIMER_MS_MAX }, until)
  }
  try {
    return await overStreamable({ mode: deps.mode, timeoutMs: limits.mcpProbeMs })(signal)
  } catch (error) {
    if (isOldTransport(error)) {
      deps.log('the server does not speak Streamable HTTP; trying HTTP with SSE')
      return await overSse(signal)
    }
    if (signal.aborted || !isSilent(error)) throw error
    // It is slow, or never answers the newer revision, or answers every request with the stream of the old transport.
    deps.log('the server has not answered yet; waiting for it, and trying the older revision and HTTP with SSE')
    const patient = { probeMs: TIMER_MS_MAX, timeoutMs: TIMER_MS_MAX }
    const attempts = [
      overStreamable({ mode: 'auto', ...patient }),
      overStreamable({ mode: 'legacy', ...patient }),
      overSse,
    ]
    return await firstOf(deps.mode === 'legacy' ? attempts.slice(1) : attempts, signal)
  }
}

/** The first that is open; the others are given up. If none is, the failure of the first in the list. */
async function firstOf(
  attempts: readonly ((until: AbortSignal) => Promise<Connection>)[],
  signal: AbortSignal,
): Promise<Connection> {
  const ends = attempts.map(() => new AbortController())
  const tried = attempts.map(async (attempt, index) => {
    const connection = await attempt(AbortSignal.any([signal, ends[index]!.signal]))
    return { index, connection }
  })
  const first = await Promise.any(tried).catch((failed: AggregateError) => {
    throw failed.errors[0]
  })
  ends.forEach((end, index) => {
    if (index !== first.index) end.abort()
  })
  for (const late of tried) {
    void late.then(
      ({ index, connection }) => (index === first.index ? undefined : connection.close()),
      () => {},
    )
  }
  return first.connection
}

const isSilent = (error: unknown): boolean => SdkError.isInstance(error) && error.code === SdkErrorCode.RequestTimeout

const isOldTransport = (error: unknown): boolean =>
  SdkHttpError.isInstance(error) && [400, 404, 405, 406, 415].includes(error.status)
