import { AppError } from '../contract/app-error.ts'
import { type ErrorCode, errorCodes } from '../contract/error-codes.ts'
import { lostUnderWay, notStarted } from '../contract/owner-lost.ts'

/** A line connection to a server, as the command line needs it. */
export type ClientLines = Readonly<{
  onLine(handler: (line: string) => void): void
  onClose(handler: () => void): void
  send(line: string): unknown
  close(): void
}>

export type ListedToolView = Readonly<{
  name: string
  title?: string
  description?: string
  inputSchema: Record<string, unknown>
}>

export type McpClient = Readonly<{
  listTools(): Promise<ListedToolView[]>
  /**
   * The structured answer; a tool error is thrown. An answer of the tool's own shape that says that it failed is returned, with
   * `isError`. Warnings are separate. An aborted call is cancelled and awaited: if it had completed before, it is answered as
   * done.
   */
  callTool(
    name: string,
    args: unknown,
    signal?: AbortSignal,
  ): Promise<{ answer: Record<string, unknown>; warnings: string[]; isError: boolean }>
  close(): void
}>

type Message = Readonly<{
  id?: number
  method?: string
  params?: Record<string, unknown>
  result?: Record<string, unknown>
  error?: { message: string; data?: unknown }
}>

const PROTOCOL_REVISION = '2025-11-25'

/** The few requests of the command line, over any line connection. */
export async function connectMcpClient(options: {
  lines: ClientLines
  version: string
  onProgress?: (progress: { progress: number; total?: number; message?: string }) => void
}): Promise<McpClient> {
  const { lines } = options
  const waiting = new Map<number, PromiseWithResolvers<Record<string, unknown>> & Readonly<{ what: string }>>()
  let nextId = 1
  let isClosed = false
  lines.onLine((line) => {
    const message = JSON.parse(line) as Message
    if (message.method === 'notifications/progress') options.onProgress?.(message.params as never)
    const request = message.id === undefined ? undefined : waiting.get(message.id)
    if (request === undefined || message.method !== undefined) return
    waiting.delete(message.id!)
    if (message.error !== undefined) request.reject(protocolError(message.error))
    else request.resolve(message.result ?? {})
  })
  lines.onClose(() => {
    isClosed = true
    for (const { what, reject } of waiting.values()) reject(new AppError('ERR_OWNER_LOST', lostUnderWay(what)))
    waiting.clear()
  })
  const ask = async (method: string, params: Record<string, unknown>): Promise<Record<string, unknown>> => {
    const id = nextId++
    const request = Promise.withResolvers<Record<string, unknown>>()
    const { name } = params
    const what = method === 'tools/call' && typeof name === 'string' ? name : method
    if (isClosed) throw new AppError('ERR_OWNER_LOST', notStarted(what))
    waiting.set(id, { ...request, what })
    lines.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
    return await request.promise
  }
  await ask('initialize', {
    protocolVersion: PROTOCOL_REVISION,
    capabilities: {},
    clientInfo: { name: 'castellan-cli', version: options.version },
  })
  lines.send(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }))
  return {
    async listTools() {
      const tools: ListedToolView[] = []
      for (let cursor: unknown; ; ) {
        const page = await ask('tools/list', cursor === undefined ? {} : { cursor })
        tools.push(...(page['tools'] as ListedToolView[]))
        cursor = page['nextCursor']
        if (cursor === undefined) return tools
      }
    },
    async callTool(name, args, signal) {
      if (signal?.aborted === true) throw new AppError('ERR_CANCELLED', 'The call was cancelled before it began.')
      const requestId = nextId
      const cancel = (): void =>
        void lines.send(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } }))
      signal?.addEventListener('abort', cancel, { once: true })
      const response = ask('tools/call', { name, arguments: args, _meta: { progressToken: requestId } })
      const result = await response.finally(() => signal?.removeEventListener('abort', cancel))
      const content = (result['content'] ?? []) as { type: string; text?: string }[]
      const structured = result['structuredContent'] as Record<string, unknown> | undefined
      const isError = result['isError'] === true
      if (isError && (structured === undefined || envelopeIn(structured) !== undefined)) {
        throw toAppError(structured, content[0]?.text)
      }
      if (structured === undefined) return { answer: { content }, warnings: [], isError }
      const answer = structured
      return {
        answer,
        isError,
        warnings: content.slice(1).flatMap((block) => (block.text === undefined ? [] : [block.text])),
      }
    },
    close: () => lines.close(),
  }
}

/** A refusal of the transport itself: its code and details are in `data`. */
function protocolError({ message, data }: NonNullable<Message['error']>): AppError {
  const { code, ...details } = (data ?? {}) as Record<string, unknown>
  return new AppError(knownCode(code) ?? 'ERR_INVALID_INPUT', message, details)
}

const knownCode = (code: unknown): ErrorCode | undefined =>
  typeof code === 'string' && Object.hasOwn(errorCodes, code) ? (code as ErrorCode) : undefined

type Envelope = Readonly<{ code: string; message: string; details?: Record<string, unknown> }>

/** Our own envelope, `{"error":{code,message,details}}`. */
function envelopeIn(value: unknown): Envelope | undefined {
  const { error } = (value ?? {}) as { error?: Partial<Envelope> | null }
  return typeof error?.code === 'string' && typeof error.message === 'string' ? (error as Envelope) : undefined
}

/** For a tool of another server, whose schema does not admit it, the envelope is only in the text. */
function toAppError(answer: unknown, text = 'The call failed.'): AppError {
  const error = envelopeIn(answer) ?? envelopeIn(parsedOrUndefined(text))
  if (error === undefined) return new AppError('ERR_TOOL_FAILED', text)
  return new AppError(knownCode(error.code) ?? 'ERR_INTERNAL', error.message, error.details ?? {})
}

function parsedOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
