type ForeignObject = Readonly<Record<string, unknown>>

/** The requests that an MCP server can send to a client during a call. */
export const clientQuestions = ['elicitation/create', 'sampling/createMessage', 'roots/list'] as const
export type ClientQuestion = Readonly<{ method: (typeof clientQuestions)[number]; params: ForeignObject }>
export type ClientQuestions = Readonly<Record<string, ClientQuestion>>
/** By the keys of the questions. */
export type ClientAnswers = Readonly<Record<string, ForeignObject>>

/** The capabilities for these questions, as the client declared them. */
export type CallingClientCapabilities = Readonly<{
  elicitation?: ForeignObject
  sampling?: ForeignObject
  roots?: ForeignObject
}>

export type ClientNotification = Readonly<{ method: string; params: ForeignObject }>

/**
 * The program behind a call, for servers that ask back.
 * 1. A server's question goes to the client of the call that caused it, and to no other.
 * 2. A session is one client, so its calls may share a connection. Without a session, clients are told apart by caller and client
 *    name, and a connection serves one call at a time.
 */
export type CallingClient = Readonly<{
  id: string
  /** The identity against which the client's resources are counted. */
  owner: string
  isSession: boolean
  capabilities: CallingClientCapabilities
  /** The minimum level of server log messages that the client wants; no messages if absent. */
  logLevel?: string | undefined
  /** Rejects if the client refuses, cannot be reached, or the signal is aborted. */
  ask(questions: ClientQuestions, signal: AbortSignal): Promise<ClientAnswers>
  /** A notification from the server. Nobody waits for it. */
  tell(notification: ClientNotification): void
  /** Aborted when the session ends; absent without a session. */
  ended?: AbortSignal
}>

/** The declared capabilities that are questions; undefined if there are none. */
export function clientCapabilitiesOf(capabilities: ForeignObject | undefined): CallingClientCapabilities | undefined {
  const found = (['elicitation', 'sampling', 'roots'] as const).flatMap((name) => {
    const declared = capabilities?.[name]
    return typeof declared === 'object' && declared !== null ? [[name, declared]] : []
  })
  return found.length === 0 ? undefined : (Object.fromEntries(found) as CallingClientCapabilities)
}
