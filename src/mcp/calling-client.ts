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
  abilitiesOf,
  type CallingClient,
  type ClientAbilities,
  type ClientNotification,
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
export type ClientSession = Readonly<{ id: string; ended: AbortSignal }>

/** Whether the client of an envelope answers questions of servers, or wants to hear what they log. */
export function envelopeAbilities(
  envelope: Readonly<Record<string, unknown>> | undefined,
): ClientAbilities | undefined {
  const capabilities = envelope?.[CLIENT_CAPABILITIES_META_KEY]
  const abilities = isRecord(capabilities) ? abilitiesOf(capabilities) : undefined
  return abilities ?? (envelope?.[LOG_LEVEL_META_KEY] === undefined ? undefined : {})
}

/** Whether a call of this name may reach another server, which may ask something. */
export const mayReachServer = (tool: string): boolean => isUpstreamName(tool) || tool === 'run_tool'

type SessionState = Readonly<{ logLevel?: LoggingLevel; subscriptions?: Pick<Subscriptions, 'has'> }>

/** The client of a session, asked by requests of ours: those of a call on the stream of that call, others where it listens. */
export function clientOfSession(
  server: Server,
  state: SessionState,
  session: ClientSession,
  principal: Principal,
  context: ServerContext,
): Readonly<{ client: CallingClient; over(): void }> | undefined {
  const abilities = abilitiesOf(server.getClientCapabilities())
  if (abilities === undefined && state.logLevel === undefined) return undefined
  return sessionClient(server, state, session, principal, abilities ?? {}, context)
}

export function sessionClient(
  server: Server,
  state: SessionState,
  session: ClientSession,
  principal: Principal,
  abilities: ClientAbilities,
  context: ServerContext,
): Readonly<{ client: CallingClient; over(): void }> {
  let isOver = false
  const client: CallingClient = {
    id: session.id,
    owner: callerKey(principal),
    isSession: true,
    abilities,
    logLevel: state.logLevel,
    ended: session.ended,
    async ask(questions, signal) {
      const options = { signal, timeout: limits.mcpAnswerMs }
      const send = isOver ? server.request.bind(server) : context.mcpReq.send
      const answers = await Promise.all(
        Object.entries(questions).map(async ([key, { method, params }]) => [
          key,
          await send({ method, params: { ...params } }, options),
        ]),
      )
      return Object.fromEntries(answers)
    },
    tell(notification) {
      const { method, params } = notification
      const isUpdate = method === 'notifications/resources/updated'
      if (isUpdate && state.subscriptions?.has(String(params['uri'])) !== true) return
      if (method === 'notifications/message' && !isLoud(params['level'], state.logLevel)) return
      const send = isOver || isUpdate ? server.notification.bind(server) : context.mcpReq.notify
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

/** The client of a request in the stateless revision. Who calls and what it says of itself is all that tells it from others. */
export function clientOfRequest(
  session: ClientSession | undefined,
  principal: Principal,
  context: ServerContext,
  call: AskingCall,
): CallingClient {
  const envelope = context.mcpReq.envelope as Readonly<Record<string, unknown>> | undefined
  const abilities = envelopeAbilities(envelope) ?? {}
  const known = JSON.stringify([identityOf(principal), envelope?.[CLIENT_INFO_META_KEY] ?? 0, session?.id ?? 0])
  return {
    id: sha256Hex(`${known}${JSON.stringify(abilities)}`),
    owner: callerKey(principal),
    isSession: false,
    abilities,
    logLevel: envelope?.[LOG_LEVEL_META_KEY] as string | undefined,
    ask: call.ask,
    tell: call.tell,
  }
}

/** A client that listens in the stateless revision: it is told of resources, and asked nothing. */
export const clientOfStream = (
  id: string,
  principal: Principal,
  ended: AbortSignal,
  onUpdated: (uri: string) => void,
): CallingClient => ({
  id,
  owner: callerKey(principal),
  isSession: true,
  abilities: {},
  ended,
  ask: () => Promise.reject(new ProtocolError(ProtocolErrorCode.InvalidRequest, 'The client only listens.')),
  tell({ method, params }) {
    if (method === 'notifications/resources/updated') onUpdated(String(params['uri']))
  },
})

/** What is said beside the answer to a request. */
export const tellIn =
  ({ mcpReq }: ServerContext) =>
  (notification: ClientNotification): void => {
    const envelope = mcpReq.envelope as Readonly<Record<string, unknown>> | undefined
    const wanted = envelope?.[LOG_LEVEL_META_KEY] as LoggingLevel | undefined
    const isWanted = notification.method === 'notifications/message' && isLoud(notification.params['level'], wanted)
    if (isWanted) mcpReq.notify(notification as never).catch(() => {})
  }

const levels: readonly unknown[] = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']

const isLoud = (level: unknown, wanted: LoggingLevel | undefined): boolean =>
  wanted !== undefined && levels.indexOf(level) >= levels.indexOf(wanted)

export const noSuchState = (): ProtocolError =>
  new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    'requestState: no call of yours waits for this answer. It was answered, took too long, or the server was restarted; call again without it.',
  )
