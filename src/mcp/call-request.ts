import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  classifyInboundRequest,
  LOG_LEVEL_META_KEY,
  PROTOCOL_VERSION_META_KEY,
} from '@modelcontextprotocol/server'
import { limits } from '../contract/limits.ts'
import { exceededBound } from '../kernel/json-bounds.ts'
import { jsonRpcCodes, type RequestId } from './json-rpc.ts'
import { MODERN_REVISION } from './server-facts.ts'

/** Why a message must not be parsed; undefined if it may. */
export function tooMuch(text: string): string | undefined {
  const { messageDepthMax: depthMax, messageValuesMax: valuesMax, messageMembersMax: membersMax } = limits
  const exceeded = exceededBound(text, { depthMax, valuesMax, membersMax })
  if (exceeded === 'depth') return `Invalid Request: a message must not nest more than ${depthMax} levels deep`
  if (exceeded === 'values') return `Invalid Request: a message must not have more than ${valuesMax} values`
  return exceeded && `Invalid Request: the objects of a message must not have more than ${membersMax} members together`
}

/** The message that a text is, or why it is none. */
export function readMessage(text: string): Readonly<{ body: unknown } | { code: number; problem: string }> {
  const problem = tooMuch(text)
  if (problem !== undefined) return { code: jsonRpcCodes.invalidRequest, problem }
  try {
    return { body: JSON.parse(text) as unknown }
  } catch {
    return { code: jsonRpcCodes.parseError, problem: 'Parse error: the request body is not valid JSON' }
  }
}

/**
 * Recognises a `tools/call` request that needs only a tool host. Anything else (another method, an unknown member, a task, a
 * resumed round, a wrong type) is `undefined` here and goes to the SDK, which decides.
 */
export type PlainToolCall = Readonly<{
  id: RequestId
  name: string
  args: Readonly<Record<string, unknown>>
  meta: Readonly<Record<string, unknown>> | undefined
  progressToken: RequestId | undefined
}>

const RESERVED_META_PREFIX = 'io.modelcontextprotocol/'
const noArguments: Readonly<Record<string, unknown>> = Object.freeze({})

export function plainToolCall(message: unknown): PlainToolCall | undefined {
  if (!isRecord(message) || message['method'] !== 'tools/call' || message['jsonrpc'] !== '2.0') return undefined
  const { id, params } = message
  if (!isRequestId(id) || !isRecord(params)) return undefined
  let members = 0
  for (const _ in message) members++
  if (members !== 4) return undefined

  let name: unknown
  let args: unknown = noArguments
  let meta: unknown
  for (const key in params) {
    if (key === 'name') name = params[key]
    else if (key === 'arguments') args = params[key]
    else if (key === '_meta') meta = params[key]
    else return undefined
  }
  if (typeof name !== 'string' || !isRecord(args)) return undefined
  if (meta === undefined) return { id, name, args, meta, progressToken: undefined }
  if (!isRecord(meta)) return undefined
  const progressToken = meta['progressToken']
  if (progressToken !== undefined && !isRequestId(progressToken)) return undefined
  return { id, name, args, meta, progressToken }
}

/** Whether a call on a connection with a handshake contains nothing of the newer revision. */
export function isLegacyCall(call: PlainToolCall): boolean {
  for (const key in call.meta) if (key.startsWith(RESERVED_META_PREFIX)) return false
  return true
}

/** The id in a `notifications/cancelled`, for calls that the SDK never saw. */
export function cancelledRequest(message: unknown): RequestId | undefined {
  if (!isRecord(message) || message['method'] !== 'notifications/cancelled' || 'id' in message) return undefined
  const params = message['params']
  if (!isRecord(params) || !isRequestId(params['requestId'])) return undefined
  return params['requestId']
}

/** The `_meta` of a message's params. */
export function metaOf(message: unknown): Record<string, unknown> | undefined {
  const params = isRecord(message) ? message['params'] : undefined
  return isRecord(params) && isRecord(params['_meta']) ? params['_meta'] : undefined
}

/** The client's own name in the envelope of a request. */
export function envelopeClientName(meta: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const info = meta?.[CLIENT_INFO_META_KEY]
  return isRecord(info) && typeof info['name'] === 'string' ? info['name'] : undefined
}

const ENVELOPE_MEMO_MAX = 256

/**
 * Decides whether a request carries a valid envelope of the stateless revision. The SDK's schema decides; its verdict is cached
 * by the envelope's text, because a client sends the same envelope with every request.
 */
export type EnvelopeCheck = (message: unknown, meta: Readonly<Record<string, unknown>> | undefined) => boolean

export function createEnvelopeCheck(): EnvelopeCheck {
  const accepted = new Set<string>()
  return (message, meta) => {
    if (meta?.[PROTOCOL_VERSION_META_KEY] !== MODERN_REVISION) return false
    const key = JSON.stringify([
      meta[CLIENT_CAPABILITIES_META_KEY],
      meta[CLIENT_INFO_META_KEY] ?? 0,
      meta[LOG_LEVEL_META_KEY] ?? 0,
    ])
    if (accepted.has(key)) return true
    if (classifyInboundRequest({ httpMethod: 'POST', body: message }).kind !== 'modern') return false
    if (accepted.size >= ENVELOPE_MEMO_MAX) accepted.clear()
    accepted.add(key)
    return true
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isRequestId(value: unknown): value is RequestId {
  return typeof value === 'string' || (typeof value === 'number' && Number.isSafeInteger(value))
}
