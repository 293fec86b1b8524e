import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/client'
import type {
  CallingClient,
  CallingClientCapabilities,
  ClientAnswers,
  ClientNotification,
  ClientQuestions,
} from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'
import { namedQuestions } from './named-questions.ts'

/**
 * The client that answers a server's questions on one connection: that of the call in progress; in a session also between calls.
 * A connection has one client for its whole life, so a question cannot reach another.
 */
export type ClientLink = Readonly<{
  capabilities: CallingClientCapabilities
  /** The client makes a call. Returns a function that ends it. */
  enter(client: CallingClient): () => void
  /** The client is told which server asks. */
  ask(server: string, questions: ClientQuestions, signal: AbortSignal): Promise<ClientAnswers>
  tell(notification: ClientNotification): void
  /** Called when the first question opens, and when none is open any more. */
  onAsking(listener: (isAsking: boolean) => void): () => void
}>

export function createClientLink(capabilities: CallingClientCapabilities): ClientLink {
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
    capabilities: capabilities,
    enter(client) {
      calling.add(client)
      last = client
      return () => void calling.delete(client)
    },
    async ask(server, questions, signal) {
      const client = current()
      if (client === undefined) throw refused('This request belongs to no client call in progress.')
      if (open >= limits.mcpQuestionsOpenMax)
        throw refused('Too many requests of this server are waiting for an answer. Wait until some are answered.')
      count(1)
      try {
        return await client.ask(namedQuestions(server, questions), signal)
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
