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
  StreamableHTTPClientTransport,
  type Transport,
} from '@modelcontextprotocol/client'
import type { CallingClientCapabilities, ClientQuestion } from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'
import { hideCancelReasons } from './cancel-reason.ts'
import type { ClientLink } from './client-link.ts'
import type { PlainCall } from './plain-calls.ts'
import { addRawRequests, type RawRequest } from './raw-requests.ts'

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

export type HandshakeDeps = Readonly<{
  version: string
  /** The name of the server for people. */
  server: string
  log(line: string): void
  onToolsChanged(): void
  /** Answers the server's questions; if absent, the server is told that nothing can be asked. */
  clientLink: ClientLink | undefined
}>

/** The revision to ask for, and how long to wait for the first answer: to the question for the newer revision, and at all. */
export type Asking = Readonly<{ mode: 'auto' | 'legacy'; probeMs?: number; timeoutMs: number }>

export async function handshake(
  deps: HandshakeDeps,
  transport: Transport,
  asking: Asking,
  signal: AbortSignal,
  ended?: Promise<void>,
): Promise<Connection> {
  const identity = { name: 'castellan', version: deps.version }
  const client = new Client(identity, clientOptions(deps, asking))
  if (deps.clientLink !== undefined) answerQuestions(client, deps.server, deps.clientLink)
  const closed = Promise.withResolvers<void>()
  client.onclose = () => closed.resolve()
  client.onerror = (error) => {
    // A slow server may still answer the first request, which is no longer awaited.
    if (!error.message.includes('"id":"server-discover-probe-')) deps.log(`protocol: ${error.message}`)
  }
  hideCancelReasons(transport)
  signal.throwIfAborted()
  // The client does not pass the signal to its first request, which asks for the server's revision, and never notices that a stream
  // to which the server does not answer was closed.
  const leaving = Promise.withResolvers<never>()
  const giveUp = (): void => {
    void transport.close().catch(() => {})
    leaving.reject(signal.reason)
  }
  signal.addEventListener('abort', giveUp, { once: true })
  try {
    await Promise.race([client.connect(transport, { signal, timeout: asking.timeoutMs }), leaving.promise])
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

const clientOptions = (deps: HandshakeDeps, { mode, probeMs = limits.mcpProbeMs }: Asking): ClientOptions => ({
  versionNegotiation: { mode, probe: { timeoutMs: probeMs } },
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
