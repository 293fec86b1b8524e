import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client'

/** All that a server learns about why a request was cancelled: no policy judges the words of the client that cancels it. */
export const CANCEL_REASON = 'Nobody waits for the answer any more.'

/** The SDK's client would send the reason of the signal. */
export function hideCancelReasons(transport: Transport): void {
  const send = transport.send.bind(transport)
  transport.send = (message, options) => send(withoutReason(message), options)
}

function withoutReason(message: JSONRPCMessage): JSONRPCMessage {
  if (!('method' in message) || message.method !== 'notifications/cancelled') return message
  return { ...message, params: { ...message.params, reason: CANCEL_REASON } }
}
