import type { IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import { limits } from '../contract/limits.ts'
import type { RequestHead } from './exchange/request-head.ts'

/**
 * A POST to an MCP address or one of a model that leaves nothing to interpret, as clients send them one after the other. It is read without a
 * parser's state: either the bytes are exactly one such request, or nobody here judges them and `node:http` reads them.
 *
 * 1. One request line of HTTP/1.1, then fields of printable ASCII with names of letters, digits and hyphens, each name once.
 * 2. There is a Host. The length of the body is stated in digits, and the body is there, whole, with nothing after it.
 * 3. No field that changes how a message is framed or answered: see `NOT_PLAIN`.
 */
export type PlainHead = RequestHead &
  Readonly<{
    url: string
    /** The text of the head with the empty line. An equal text has an equal head. */
    text: string
    bodyBytes: number
  }>

const REQUEST_LINE = /^POST (\/(?:mcp|v1(?=\/))(?:[/?][\x21-\x7e]*)?) HTTP\/1\.1$/
const NAME = /^[A-Za-z][A-Za-z0-9-]*$/
const VALUE = /^[\x20-\x7e\t]*$/
const LENGTH = /^[0-9]{1,7}$/
const FIELDS_MAX = 64
const NOT_PLAIN: ReadonlySet<string> = new Set([
  ...['transfer-encoding', 'te', 'trailer', 'upgrade', 'expect', 'content-encoding', 'proxy-connection', 'keep-alive'],
  // Of browsers. The `fetch` of Node says `sec-fetch-mode` too.
  ...['origin', 'cookie', 'sec-fetch-site', 'sec-fetch-dest'],
])

/** The head of the request that the text is, one character for each byte; undefined if it is anything else. */
export function readPlainHead(text: string, socket: Socket): PlainHead | undefined {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1 || end > limits.httpHeaderBytesMax / 2) return undefined
  const [first = '', ...lines] = text.slice(0, end).split('\r\n')
  const url = REQUEST_LINE.exec(first)?.[1]
  if (url === undefined || lines.length > FIELDS_MAX) return undefined
  const headers: IncomingHttpHeaders = {}
  const rawHeaders: string[] = []
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(colon, 0))
    const value = line.slice(colon + 1)
    const key = name.toLowerCase()
    if (!NAME.test(name) || !VALUE.test(value) || NOT_PLAIN.has(key) || Object.hasOwn(headers, key)) return undefined
    headers[key] = value.trim()
    rawHeaders.push(name, headers[key])
  }
  const { host, connection = 'keep-alive', 'content-length': length = '' } = headers
  if (host === undefined || connection.toLowerCase() !== 'keep-alive' || !LENGTH.test(length)) return undefined
  const head = text.slice(0, end + 4)
  return { method: 'POST', url, headers, rawHeaders, socket, text: head, bodyBytes: Number(length) }
}
