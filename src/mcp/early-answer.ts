import { Readable, type Writable } from 'node:stream'
import type { ListedTool } from '../tools/runtime/tool-host.ts'
import {
  listFor,
  MODERN_REVISION,
  SERVER_NAME,
  serverInstructions,
  skillCapabilities,
  toolCapabilities,
} from './server-facts.ts'

/**
 * Answers a client's first requests before the rest of the program is loaded: the handshake, and the list of tools, for which
 * some clients wait less than a second. Only plain requests are answered. Every line stays in the input, and the session that is
 * created later handles it as usual; its answers to requests that were answered already are dropped.
 */
type RequestId = string | number

/** Newest first: the first is the answer to a client that requests an unknown revision. */
export const sessionRevisions: readonly string[] = [
  '2025-11-25',
  '2025-06-18',
  '2025-03-26',
  '2024-11-05',
  '2024-10-07',
]

/** The tools that a client of this name will see; undefined if that needs more than is loaded. */
export type EarlyTools = (clientName: string) => Promise<readonly ListedTool[] | undefined>

export type EarlySession = Readonly<{
  /** Resolves when the client has its list, or expects nothing more early: time to load the rest. */
  settled: Promise<void>
  /** Answers nothing more, and hands the input over with everything received. */
  stop(): Readonly<{ input: Readable; answered: ReadonlySet<RequestId> }>
}>

type EarlySessionOptions = Readonly<{
  input: Readable
  output: Writable
  version: string
  tools?: EarlyTools
  /** A client that is silent for this long has no early requests. */
  waitMs: number
}>

/** Larger than the first requests of any client; the rest waits in the pipe. */
const BYTES_MAX = 256 * 1024

const SAME_MOMENT_MS = 30
/** Whatever else a line is, the client waits for its answer. */
const REQUEST_ID = /"id"\s*:/

type Request = Readonly<{ id: RequestId; method: string; params: Record<string, unknown>; isModern: boolean }>

export function answerEarly(options: EarlySessionOptions): EarlySession {
  const { input, output } = options
  const identity = { name: SERVER_NAME, version: options.version }
  const answered = new Set<RequestId>()
  const listAnswers: Promise<void>[] = []
  const settled = Promise.withResolvers<void>()
  const chunks: Buffer[] = []
  let byteCount = 0
  let rest = ''
  let hasEnded = false
  let isStopped = false
  let clientName: string | undefined
  let revision: string | undefined
  // Loading delays every answer, so a requested list goes first.
  const settle = (): void => void Promise.all(listAnswers).then(() => settled.resolve())
  let timer = setTimeout(settle, options.waitMs)

  const wait = (ms: number): void => {
    clearTimeout(timer)
    timer = setTimeout(settle, ms)
  }
  const answer = ({ id, isModern }: Request, result: Record<string, unknown>, onTaken?: () => void): void => {
    const tail = isModern
      ? { resultType: 'complete', ttlMs: 0, cacheScope: 'private', _meta: { [SERVER_INFO_KEY]: identity } }
      : {}
    output.write(`${JSON.stringify({ jsonrpc: '2.0', id, result: { ...result, ...tail } })}\n`, onTaken)
    answered.add(id)
  }
  const answerList = async (request: Request, name: string): Promise<void> => {
    const tools = await options.tools?.(name).catch(() => undefined)
    if (tools === undefined || isStopped) return
    // A pipe holds less than a list; the rest would wait behind the loading. A client that does not read is not waited for.
    const { promise, resolve } = Promise.withResolvers<void>()
    const deadline = setTimeout(resolve, options.waitMs)
    answer(request, { tools: listFor(revision, tools) }, resolve)
    await promise
    clearTimeout(deadline)
  }
  const onLine = (line: string): void => {
    const request = plainRequest(line)
    if (request === undefined) {
      if (REQUEST_ID.test(line)) wait(Math.min(options.waitMs, SAME_MOMENT_MS))
      return
    }
    const name = clientNameOf(request)
    const capabilities = { ...toolCapabilities, ...skillCapabilities }
    if (request.method === 'initialize' && name !== undefined && clientName === undefined) {
      clientName = name
      const requestedVersion = String(request.params['protocolVersion'])
      revision = sessionRevisions.includes(requestedVersion) ? requestedVersion : sessionRevisions[0]!
      answer(request, {
        protocolVersion: revision,
        capabilities,
        serverInfo: identity,
        instructions: serverInstructions,
      })
      wait(options.waitMs)
    } else if (request.method === 'server/discover' && request.isModern) {
      answer(request, { supportedVersions: [MODERN_REVISION], capabilities, instructions: serverInstructions })
      wait(options.waitMs)
    } else if (request.method === 'tools/list' && request.params['cursor'] === undefined) {
      const client = request.isModern ? name : clientName
      if (client !== undefined) listAnswers.push(answerList(request, client))
      settle()
    } else if (request.method === 'tools/call' || listAnswers.length > 0) settle()
    // Some request prompts or resources at the same time, before they request the list.
    else wait(Math.min(options.waitMs, SAME_MOMENT_MS))
  }
  const read = (): void => {
    const chunk: unknown = input.read()
    if (!Buffer.isBuffer(chunk)) return
    chunks.push(chunk)
    byteCount += chunk.length
    // A split character can only corrupt a line that is not plain; the session reads the bytes, not this text.
    const lines = (rest + chunk.toString('utf8')).split('\n')
    rest = lines.pop()!
    for (const line of lines) onLine(line)
    if (byteCount > BYTES_MAX) leave()
  }
  const end = (): void => {
    hasEnded = true
    leave()
  }
  const leave = (): void => {
    input.off('readable', read)
    input.off('end', end)
    clearTimeout(timer)
    settle()
  }
  input.on('readable', read)
  input.on('end', end)

  return {
    settled: settled.promise,
    stop() {
      isStopped = true
      leave()
      if (hasEnded) return { input: Readable.from(chunks), answered }
      if (chunks.length > 0) input.unshift(Buffer.concat(chunks))
      return { input, answered }
    },
  }
}

/** The transport without the answers that were already sent. */
export function withoutAnswers<T extends Readonly<{ send(line: string): unknown }>>(
  transport: T,
  answered: ReadonlySet<RequestId>,
): T {
  if (answered.size === 0) return transport
  const left = new Set(answered)
  const direct = (line: string): unknown => transport.send(line)
  let send = (line: string): unknown => {
    const message = JSON.parse(line) as { id?: RequestId; method?: unknown }
    if (message.method !== undefined || message.id === undefined || !left.delete(message.id)) return direct(line)
    if (left.size === 0) send = direct
    return true
  }
  return { ...transport, send: (line: string) => send(line) }
}

const PREFIX = 'io.modelcontextprotocol/'
const VERSION_KEY = `${PREFIX}protocolVersion`
const CLIENT_KEY = `${PREFIX}clientInfo`
const CAPABILITIES_KEY = `${PREFIX}clientCapabilities`
const SERVER_INFO_KEY = `${PREFIX}serverInfo`
const envelopeKeys: ReadonlySet<string> = new Set([VERSION_KEY, CLIENT_KEY, CAPABILITIES_KEY, 'progressToken'])

/** A request without anything that only the session could judge. */
function plainRequest(line: string): Request | undefined {
  let message: unknown
  try {
    message = JSON.parse(line)
  } catch {
    return undefined
  }
  if (!isRecord(message) || message['jsonrpc'] !== '2.0' || typeof message['method'] !== 'string') return undefined
  const { id, method, params = {} } = message
  const isId = typeof id === 'string' || (typeof id === 'number' && Number.isSafeInteger(id))
  if (!isId || !isRecord(params)) return undefined
  const meta = params['_meta']
  if (meta === undefined || (method !== 'initialize' && hasOnlyToken(meta)))
    return { id, method, params, isModern: false }
  return isEnvelope(meta) ? { id, method, params, isModern: true } : undefined
}

const hasOnlyToken = (meta: unknown): boolean =>
  isRecord(meta) && Object.keys(meta).every((key) => key === 'progressToken')

const isEnvelope = (meta: unknown): boolean =>
  isRecord(meta) &&
  meta[VERSION_KEY] === MODERN_REVISION &&
  isRecord(meta[CAPABILITIES_KEY]) &&
  isClient(meta[CLIENT_KEY]) &&
  Object.keys(meta).every((key) => envelopeKeys.has(key))

/** From a handshake or an envelope; undefined if a required member is missing. */
function clientNameOf({ method, params, isModern }: Request): string | undefined {
  if (isModern) return ((params['_meta'] as Record<string, unknown>)[CLIENT_KEY] as { name: string }).name
  if (method !== 'initialize' || typeof params['protocolVersion'] !== 'string') return undefined
  const { capabilities, clientInfo } = params
  return isRecord(capabilities) && isClient(clientInfo) ? clientInfo.name : undefined
}

const isClient = (value: unknown): value is { name: string; version: string } =>
  isRecord(value) && typeof value['name'] === 'string' && typeof value['version'] === 'string'

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
