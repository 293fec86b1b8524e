import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  LOG_LEVEL_META_KEY,
  type LoggingLevel,
  ProtocolError,
  ProtocolErrorCode,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import {
  type CallingClient,
  type CallingClientCapabilities,
  type ClientNotification,
  clientCapabilitiesOf,
} from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'
import { callerKey, type Principal } from '../contract/principal.ts'
import { sha256Hex } from '../kernel/hash.ts'
import { isUpstreamName } from '../tools/runtime/exposure.ts'
import { isRecord } from './call-request.ts'
import { identityOf } from './session-identity.ts'
import type { Subscriptions } from './subscriptions.ts'
import type { AskingCall } from './waiting-calls.ts'

/** A connection of a client that lasts longer than a request. */
export type ClientSession = Readonly<{
  id: string
  ended: AbortSignal
  /** Called when the client is asked a question; returns a function that is called when the question is closed. */
  asks?: () => () => void
}>

/** The capabilities of the client in an envelope, if it answers questions of servers or requests their logs. */
export function envelopeCapabilities(
  envelope: Readonly<Record<string, unknown>> | undefined,
): CallingClientCapabilities | undefined {
  const capabilities = envelope?.[CLIENT_CAPABILITIES_META_KEY]
  const clientCapabilities = isRecord(capabilities) ? clientCapabilitiesOf(capabilities) : undefined
  return clientCapabilities ?? (envelope?.[LOG_LEVEL_META_KEY] === undefined ? undefined : {})
}

/** Whether a call of this name may reach another server, which may ask questions. */
export const mayReachServer = (tool: string): boolean => isUpstreamName(tool) || tool === 'run_tool'

type SessionState = Readonly<{ logLevel?: LoggingLevel; subscriptions?: Pick<Subscriptions, 'has'> }>

/** The client of a session. Questions of a call go to the stream of that call, all others to the listening stream. */
export function clientOfSession(
  server: Server,
  state: SessionState,
  session: ClientSession,
  principal: Principal,
  context: ServerContext,
): Readonly<{ client: CallingClient; over(): void }> | undefined {
  const capabilities = clientCapabilitiesOf(server.getClientCapabilities())
  if (capabilities === undefined && state.logLevel === undefined) return undefined
  return sessionClient(server, state, session, principal, capabilities ?? {}, context)
}

export function sessionClient(
  server: Server,
  state: SessionState,
  session: ClientSession,
  principal: Principal,
  capabilities: CallingClientCapabilities,
  /** The request of the client that is answered; without one, it only listens. */
  context: ServerContext | undefined,
): Readonly<{ client: CallingClient; over(): void }> {
  let isOver = false
  const client: CallingClient = {
    id: session.id,
    owner: callerKey(principal),
    isSession: true,
    capabilities: capabilities,
    logLevel: state.logLevel,
    ended: session.ended,
    async ask(questions, signal) {
      const options = { signal, timeout: limits.mcpAnswerMs }
      const send = isOver || context === undefined ? server.request.bind(server) : context.mcpReq.send
      const answered = session.asks?.()
      try {
        const answers = await Promise.all(
          Object.entries(questions).map(async ([key, { method, params }]) => [
            key,
            await send({ method, params: { ...params } }, options),
          ]),
        )
        return Object.fromEntries(answers)
      } finally {
        answered?.()
      }
    },
    tell(notification) {
      const { method, params } = notification
      const isUpdate = method === 'notifications/resources/updated'
      if (isUpdate && state.subscriptions?.has(String(params['uri'])) !== true) return
      if (method === 'notifications/message' && !isLoud(params['level'], state.logLevel)) return
      const isAside = isOver || isUpdate || context === undefined
      const send = isAside ? server.notification.bind(server) : context.mcpReq.notify
      send(notification as never).catch(() => {})
    },
  }
  return {
    client,
    over: () => {
      isOver = true
    },
  }
}

/** The client of a request in the stateless revision, identified only by the caller and its own statements. */
export function clientOfRequest(
  session: ClientSession | undefined,
  principal: Principal,
  context: ServerContext,
  call: AskingCall,
): CallingClient {
  const envelope = context.mcpReq.envelope as Readonly<Record<string, unknown>> | undefined
  const capabilities = envelopeCapabilities(envelope) ?? {}
  const known = JSON.stringify([identityOf(principal), envelope?.[CLIENT_INFO_META_KEY] ?? 0, session?.id ?? 0])
  return {
    id: sha256Hex(`${known}${JSON.stringify(capabilities)}`),
    owner: callerKey(principal),
    isSession: false,
    capabilities: capabilities,
    logLevel: envelope?.[LOG_LEVEL_META_KEY] as string | undefined,
    ask: call.ask,
    tell: call.tell,
  }
}

/** A client that listens in the stateless revision: it is notified of resources, and asked nothing. */
export const clientOfStream = (
  id: string,
  principal: Principal,
  ended: AbortSignal,
  onUpdated: (uri: string) => void,
): CallingClient => ({
  id,
  owner: callerKey(principal),
  isSession: true,
  capabilities: {},
  ended,
  ask: () => Promise.reject(new ProtocolError(ProtocolErrorCode.InvalidRequest, 'The client only listens.')),
  tell({ method, params }) {
    if (method === 'notifications/resources/updated') onUpdated(String(params['uri']))
  },
})

/** Notifications beside the answer to a request. */
export const tellIn =
  ({ mcpReq }: ServerContext) =>
  (notification: ClientNotification): void => {
    const envelope = mcpReq.envelope as Readonly<Record<string, unknown>> | undefined
    const minLevel = envelope?.[LOG_LEVEL_META_KEY] as LoggingLevel | undefined
    const isEnabled = notification.method === 'notifications/message' && isLoud(notification.params['level'], minLevel)
    if (isEnabled) mcpReq.notify(notification as never).catch(() => {})
  }

const levels: readonly unknown[] = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']

const isLoud = (level: unknown, minLevel: LoggingLevel | undefined): boolean =>
  minLevel !== undefined && levels.indexOf(level) >= levels.indexOf(minLevel)

export const noSuchState = (): ProtocolError =>
  new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    'requestState: no call of yours is waiting for this answer. The call was answered or timed out, or the server was restarted. Call again without requestState.',
  )
