import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  Client,
  type ClientCapabilities,
  type ClientOptions,
  type CreateMessageResult,
  type ElicitResult,
  type ListRootsResult,
  PROTOCOL_VERSION_META_KEY,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from '@modelcontextprotocol/client'
import { AppError } from '../contract/app-error.ts'
import type { CallingClientCapabilities, ClientQuestion } from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'
import type { RemoteSpec, UpstreamSpec } from '../domains/mcp-servers/runtime.ts'
import { TIMER_MS_MAX } from '../kernel/clock.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { CheckedFetch, Fetch } from '../web-client/checked-fetch.ts'
import { authorizing } from './authorizing-fetch.ts'
import type { ClientLink } from './client-link.ts'
import { type PlainCall, withPlainCalls } from './plain-calls.ts'
import type { ServerWorkspace } from './ports.ts'
import { addRawRequests, type RawRequest } from './raw-requests.ts'
import type { SharedWorkspace } from './shared-workspaces.ts'
import { createStdioTransport } from './stdio-transport.ts'

/** An open connection. `closed` resolves when it has ended, from either side, with everything that it started. */
export type Connection = Readonly<{
  client: Client
  /** The name of the server for people, and the prefix of its tools. */
  server: string
  /** A cheaper way to call a tool than the client's; absent if there is none. */
  plainCall?: PlainCall
  /** For methods that the client does not support. */
  request: DeclaringRequest
  closed: Promise<void>
  close(): Promise<void>
}>

/** The capabilities are declared in revisions where each request declares them. */
type DeclaringRequest = (
  method: string,
  params: Readonly<Record<string, unknown>>,
  options: Parameters<RawRequest>[2] & Readonly<{ capabilities?: ClientCapabilities }>,
) => ReturnType<RawRequest>

type ConnectDeps = Readonly<{
  version: string
  /** The name of the server for people. */
  server: string
  /** For remote servers: connects only to checked addresses. */
  web: CheckedFetch
  /** For local servers: connects to a port of this machine that is forwarded into a workspace. */
  localFetch: Fetch
  openWorkspace(spec: Extract<UpstreamSpec, { kind: 'local' }>, signal: AbortSignal): Promise<SharedWorkspace>
  log(line: string): void
  onToolsChanged(): void
  /** The last known revision. A server of the older one is not asked for the newer one at each connection. */
  mode: 'auto' | 'legacy'
  /** Answers the server's questions; if absent, the server is told that nothing can be asked. */
  clientLink: ClientLink | undefined
}>

export async function connect(deps: ConnectDeps, spec: UpstreamSpec, signal: AbortSignal): Promise<Connection> {
  if (spec.kind === 'remote') {
    await deps.web.check(new URL(spec.url), signal)
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
  const connection = await handshake(deps, transport, mode, signal, stdio.ended, TIMER_MS_MAX)
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
  try {
    return await handshake(deps, new StreamableHTTPClientTransport(url, options), deps.mode, signal)
  } catch (error) {
    if (!isOldTransport(error)) throw error
    deps.log('the server does not speak Streamable HTTP; trying HTTP with SSE')
    const inSse: Fetch = (input, init) =>
      options.fetch(input, { ...init, headers: { ...headers, ...Object.fromEntries(new Headers(init?.headers)) } })
    return await handshake(
      deps,
      new SSEClientTransport(url, { ...options, eventSourceInit: { fetch: inSse } }),
      'legacy',
      signal,
    )
  }
}

const isOldTransport = (error: unknown): boolean =>
  SdkHttpError.isInstance(error) && [400, 404, 405, 406, 415].includes(error.status)

async function handshake(
  deps: ConnectDeps,
  transport: Transport,
  mode: 'auto' | 'legacy',
  signal: AbortSignal,
  ended?: Promise<void>,
  /** A process gets the whole start time, because it may first have to download the server. */
  timeout: number = limits.mcpConnectMs,
): Promise<Connection> {
  const identity = { name: 'castellan', version: deps.version }
  const client = new Client(identity, clientOptions(deps, mode))
  if (deps.clientLink !== undefined) answerQuestions(client, deps.server, deps.clientLink)
  const closed = Promise.withResolvers<void>()
  client.onclose = () => closed.resolve()
  client.onerror = (error) => {
    // A slow server may still answer the first request, which is no longer awaited.
    if (!error.message.includes('"id":"server-discover-probe-')) deps.log(`protocol: ${error.message}`)
  }
  signal.throwIfAborted()
  // The client does not pass the signal to its first request, which asks for the server's revision.
  const giveUp = () => void transport.close().catch(() => {})
  signal.addEventListener('abort', giveUp, { once: true })
  try {
    await client.connect(transport, { signal, timeout })
  } catch (error) {
    await client.close().catch(() => {})
    throw error
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
  client.setNotificationHandler('notifications/message', ({ params }) => {
    deps.log(`${params.level}: ${typeof params.data === 'string' ? params.data : JSON.stringify(params.data)}`)
    deps.clientLink?.tell({ method: 'notifications/message', params })
  })
  const send = addRawRequests(transport)
  return {
    client,
    server: deps.server,
    request(method, params, { capabilities = {}, ...options }) {
      if (client.getProtocolEra() !== 'modern') return send(method, params, options)
      const _meta = {
        [PROTOCOL_VERSION_META_KEY]: client.getNegotiatedProtocolVersion(),
        [CLIENT_INFO_META_KEY]: identity,
        [CLIENT_CAPABILITIES_META_KEY]: capabilities,
      }
      return send(method, { ...params, _meta }, options)
    },
    closed: closed.promise.then(() => ended),
    async close() {
      await terminate(transport)
      await client.close().catch(() => {})
      await ended
    },
  }
}

/** The server's questions go to the client of the call, and the answers back. */
function answerQuestions(client: Client, server: string, { capabilities, ask, tell }: ClientLink): void {
  const answer = async <Answer>(method: ClientQuestion['method'], params: object, signal: AbortSignal) => {
    const { _meta, ...rest } = params as Record<string, unknown>
    const { answer: found } = await ask(server, { answer: { method, params: rest } }, signal)
    return found as Answer
  }
  client.setNotificationHandler('notifications/resources/updated', ({ params }) =>
    tell({ method: 'notifications/resources/updated', params }),
  )
  if (capabilities.elicitation !== undefined) {
    client.setRequestHandler('elicitation/create', ({ params }, { mcpReq }) =>
      answer<ElicitResult>('elicitation/create', params, mcpReq.signal),
    )
    client.setNotificationHandler('notifications/elicitation/complete', ({ params }) =>
      tell({ method: 'notifications/elicitation/complete', params }),
    )
  }
  if (capabilities.sampling !== undefined) {
    client.setRequestHandler('sampling/createMessage', ({ params }, { mcpReq }) =>
      answer<CreateMessageResult>('sampling/createMessage', params, mcpReq.signal),
    )
  }
  if (capabilities.roots !== undefined) {
    client.setRequestHandler('roots/list', ({ params }, { mcpReq }) =>
      answer<ListRootsResult>('roots/list', params ?? {}, mcpReq.signal),
    )
  }
}

/** A server's session ends with ours; if it cannot be told, it expires. */
async function terminate(transport: Transport): Promise<void> {
  if (!(transport instanceof StreamableHTTPClientTransport) || transport.sessionId === undefined) return
  const told = transport.terminateSession().catch(() => {})
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limits.mcpServerEndGraceMs)
  })
  await Promise.race([told, late])
  clearTimeout(timer)
}

/** A server's answer is passed on unchanged: the caller interprets it. */
const acceptsAll = {
  getValidator: () => (data: unknown) => ({ valid: true as const, data: data as never, errorMessage: undefined }),
}

const clientOptions = (deps: ConnectDeps, mode: 'auto' | 'legacy'): ClientOptions => ({
  versionNegotiation: { mode, probe: { timeoutMs: limits.mcpProbeMs } },
  jsonSchemaValidator: acceptsAll,
  listMaxPages: limits.mcpToolPagesMax,
  listChanged: { tools: { autoRefresh: false, onChanged: () => deps.onToolsChanged() } },
  inputRequired: { autoFulfill: false },
  ...(deps.clientLink !== undefined && { capabilities: declared(deps.clientLink.capabilities) }),
})

/** We do not announce changes of a client's roots. */
export const declared = ({ roots, ...capabilities }: CallingClientCapabilities): ClientCapabilities => ({
  ...(capabilities as ClientCapabilities),
  ...(roots !== undefined && { roots: {} }),
})
