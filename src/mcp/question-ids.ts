import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/server'
import { isRecord } from './call-request.ts'

/**
 * If several processes share a store, each may ask the client of one session. The SDK numbers its requests from the start in each
 * of them. So each process puts its own prefix before its ids, and recognises the answers to its own questions by the prefix.
 */
export function nameQuestions(transport: Transport, name: string): void {
  const send = transport.send.bind(transport)
  transport.send = (message, options) => send(withName(message, name), options)
}

function withName(message: JSONRPCMessage, name: string): JSONRPCMessage {
  if (!('method' in message)) return message
  if ('id' in message) return { ...message, id: `${name}${message.id}` }
  const id = message.params?.['requestId']
  if (message.method !== 'notifications/cancelled' || typeof id !== 'number') return message
  return { ...message, params: { ...message.params, requestId: `${name}${id}` } }
}

type Reply = Readonly<Record<string, unknown>> & Readonly<{ id: unknown }>

/** Whether a message of a client answers a question. */
export const isReply = (body: unknown): body is Reply =>
  isRecord(body) && !('method' in body) && 'id' in body && ('result' in body || 'error' in body)

/** The answer as the SDK knows its question; undefined if this process did not ask it. */
export function ownReply(reply: Reply, name: string): JSONRPCMessage | undefined {
  const { id } = reply
  if (typeof id !== 'string' || !id.startsWith(name)) return undefined
  return { ...reply, id: Number(id.slice(name.length)) } as JSONRPCMessage
}
