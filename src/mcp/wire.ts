import { SERVER_INFO_META_KEY } from '@modelcontextprotocol/server'
import type { Progress } from '../contract/call.ts'
import type { DisplayedAnswer } from './displayed-answer.ts'
import { errorResponse, idText, type RequestId } from './json-rpc.ts'

/**
 * JSON-RPC messages as text. The hot path writes them by concatenation: a tool's answer arrives as JSON text and goes out
 * as that same text, so nothing is parsed or serialised twice.
 */
export type Era = 'legacy' | 'modern'
export type ServerIdentity = Readonly<{ name: string; version: string }>

/** A finished call on the wire. */
export type CallOutcome =
  | Readonly<{ kind: 'result'; displayed: DisplayedAnswer; isError: boolean; structured: boolean }>
  | Readonly<{ kind: 'error'; code: number; message: string; data: unknown }>

export type Wire = Readonly<{
  callResponse(id: RequestId, outcome: CallOutcome, era: Era): string
  errorResponse(id: RequestId | null, code: number, message: string, data?: unknown): string
  progress(token: RequestId, update: Progress): string
}>

const textBlock = (text: string): string => `[{"type":"text","text":${JSON.stringify(text)}}]`

export function createWire(identity: ServerIdentity): Wire {
  const serverInfo = { [SERVER_INFO_META_KEY]: identity }
  const modernTail = `,"resultType":"complete","_meta":${JSON.stringify(serverInfo)}`
  const tailOf = (era: Era, meta: DisplayedAnswer['meta']): string => {
    if (meta === undefined) return era === 'modern' ? modernTail : ''
    if (era === 'legacy') return `,"_meta":${JSON.stringify(meta)}`
    return `,"resultType":"complete","_meta":${JSON.stringify({ ...meta, ...serverInfo })}`
  }

  return {
    callResponse(id, outcome, era) {
      if (outcome.kind === 'error') return errorResponse(id, outcome.code, outcome.message, outcome.data)
      const { json, content: blocks, contentJson, meta } = outcome.displayed
      const content = contentJson ?? (blocks === undefined ? textBlock(json) : JSON.stringify(blocks))
      const structured = outcome.structured ? `,"structuredContent":${json}` : ''
      const failed = outcome.isError ? ',"isError":true' : ''
      return `{"jsonrpc":"2.0","id":${idText(id)},"result":{"content":${content}${structured}${failed}${tailOf(era, meta)}}}`
    },
    errorResponse,
    progress(token, update) {
      return JSON.stringify({
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken: token, ...update },
      })
    },
  }
}
