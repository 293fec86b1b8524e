type ForeignObject = Readonly<Record<string, unknown>>

/** What a server can ask of a client while it works for it. */
export const clientQuestions = ['elicitation/create', 'sampling/createMessage', 'roots/list'] as const
export type ClientQuestion = Readonly<{ method: (typeof clientQuestions)[number]; params: ForeignObject }>
export type ClientQuestions = Readonly<Record<string, ClientQuestion>>
/** By the keys of the questions. */
export type ClientAnswers = Readonly<Record<string, ForeignObject>>

/** Which questions a client answers, as it declared them. */
export type ClientAbilities = Readonly<{ elicitation?: ForeignObject; sampling?: ForeignObject; roots?: ForeignObject }>

export type ClientNotification = Readonly<{ method: string; params: ForeignObject }>

/**
 * The program behind a call, for servers that ask back.
 * 1. What a server asks goes to the client of the call that made it ask, and to no other.
 * 2. A session is one client, so its calls may share a connection. Without one, clients are told apart by who calls and by what they call
 *    themselves, and a connection serves one call at a time.
 */
export type CallingClient = Readonly<{
  id: string
  /** Who is counted for what is held for the client. */
  owner: string
  isSession: boolean
  abilities: ClientAbilities
  /** The least severe of what servers log that it wants to hear of; nothing if it is absent. */
  logLevel?: string | undefined
  /** Rejects if the client refuses, cannot be reached, or the signal is aborted. */
  ask(questions: ClientQuestions, signal: AbortSignal): Promise<ClientAnswers>
  /** What a server says beside its answer. Nobody waits for it. */
  tell(notification: ClientNotification): void
  /** Aborted when the session is over; absent without a session. */
  ended?: AbortSignal
}>

/** The part of declared capabilities that are questions; undefined if there is none. */
export function abilitiesOf(capabilities: ForeignObject | undefined): ClientAbilities | undefined {
  const found = (['elicitation', 'sampling', 'roots'] as const).flatMap((name) => {
    const declared = capabilities?.[name]
    return typeof declared === 'object' && declared !== null ? [[name, declared]] : []
  })
  return found.length === 0 ? undefined : (Object.fromEntries(found) as ClientAbilities)
}
