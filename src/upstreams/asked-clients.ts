import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/client'
import type {
  CallingClient,
  ClientAbilities,
  ClientAnswers,
  ClientNotification,
  ClientQuestions,
} from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'

/**
 * Who is asked what a server asks on one connection: the client of the call under way; in a session also between calls. A connection
 * has one client for as long as it lasts, so a question cannot reach another.
 */
export type AskedClients = Readonly<{
  abilities: ClientAbilities
  /** The client makes a call. Answers how to say that it is over. */
  enter(client: CallingClient): () => void
  ask(questions: ClientQuestions, signal: AbortSignal): Promise<ClientAnswers>
  tell(notification: ClientNotification): void
  /** Told when the first question is open, and when none is. */
  onAsking(listener: (isAsking: boolean) => void): () => void
}>

export function createAskedClients(abilities: ClientAbilities): AskedClients {
  const calling = new Set<CallingClient>()
  const listeners = new Set<(isAsking: boolean) => void>()
  let last: CallingClient | undefined
  let open = 0

  const current = (): CallingClient | undefined => [...calling].at(-1) ?? (last?.isSession === true ? last : undefined)
  function count(by: 1 | -1): void {
    open += by
    if (open === 0 || (open === 1 && by === 1)) for (const listener of listeners) listener(open > 0)
  }

  return {
    abilities,
    enter(client) {
      calling.add(client)
      last = client
      return () => void calling.delete(client)
    },
    async ask(questions, signal) {
      const client = current()
      if (client === undefined) throw refused('There is no call of a client to which this belongs.')
      if (open >= limits.mcpQuestionsOpenMax) throw refused('Too many questions are open.')
      count(1)
      try {
        return await client.ask(questions, signal)
      } finally {
        count(-1)
      }
    },
    tell: (notification) => current()?.tell(notification),
    onAsking(listener) {
      listeners.add(listener)
      if (open > 0) listener(true)
      return () => listeners.delete(listener)
    },
  }
}

const refused = (reason: string): ProtocolError => new ProtocolError(ProtocolErrorCode.InvalidRequest, reason)
