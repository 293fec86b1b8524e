/** A client's line, as far as its way over HTTP depends on it. */
export type WireMessage = Readonly<{
  line: string
  /** Its requests; more than one only in a batch. */
  ids: readonly (string | number)[]
  method: string | undefined
  /** Headers that the stateless revision requires; undefined for messages of a session. */
  statelessHeaders: Readonly<Record<string, string>> | undefined
  /** The request that it cancels. */
  cancels: string | number | undefined
}>

type Fields = Readonly<{ id?: unknown; method?: unknown; params?: Record<string, unknown> }>

const VERSION_FIELD = 'io.modelcontextprotocol/protocolVersion'
/** The field of a request that the header Mcp-Name repeats. */
const namedBy: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
])

/** Undefined for a line that is no message. */
export function readMessage(line: string): WireMessage | undefined {
  let parsed: unknown
  try {
    parsed = JSON.parse(line)
  } catch {
    return undefined
  }
  const parts = (Array.isArray(parsed) ? parsed : [parsed]).filter(isRecord) as Fields[]
  const ids = parts.flatMap(({ id, method }) => (typeof method === 'string' && isId(id) ? [id] : []))
  const [only] = Array.isArray(parsed) ? [] : parts
  const method = typeof only?.method === 'string' ? only.method : undefined
  const requestId = method === 'notifications/cancelled' ? only?.params?.['requestId'] : undefined
  return {
    line,
    ids,
    method,
    statelessHeaders: method === undefined ? undefined : statelessHeaders(method, only?.params),
    cancels: isId(requestId) ? requestId : undefined,
  }
}

/** The pending requests that a line of the server answers. */
export function answeredBy(line: string): readonly (string | number)[] {
  const parsed: unknown = JSON.parse(line)
  const parts = (Array.isArray(parsed) ? parsed : [parsed]).filter(isRecord) as Fields[]
  return parts.flatMap(({ id, method }) => (method === undefined && isId(id) ? [id] : []))
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
const isId = (value: unknown): value is string | number => typeof value === 'string' || typeof value === 'number'

function statelessHeaders(method: string, params: Fields['params']): Record<string, string> | undefined {
  const meta = params?.['_meta']
  const version = isRecord(meta) ? meta[VERSION_FIELD] : undefined
  if (typeof version !== 'string') return undefined
  const name = params?.[namedBy.get(method) ?? '']
  return {
    'mcp-protocol-version': version,
    'mcp-method': method,
    ...(typeof name === 'string' ? { 'mcp-name': headerText(name) } : {}),
  }
}

/** A header allows visible ASCII; other text is encoded as the protocol says. */
const headerText = (text: string): string =>
  /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !text.startsWith('=?base64?')
    ? text
    : `=?base64?${Buffer.from(text).toString('base64')}?=`
