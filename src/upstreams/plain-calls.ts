import {
  type JSONRPCMessage,
  SdkError,
  SdkErrorCode,
  specTypeSchemas,
  type Transport,
} from '@modelcontextprotocol/client'
import type { Progress } from '../contract/call.ts'
import { errorIn, idOf } from './answer-of.ts'
import { CANCEL_REASON } from './cancel-reason.ts'
import type { StdioTransport } from './stdio-transport.ts'

type PlainCallOptions = Readonly<{
  signal: AbortSignal
  timeoutMs: number
  onProgress: ((update: Progress) => void) | undefined
}>

/** `tools/call` as every revision with a handshake has it. */
export type PlainCall = (
  name: string,
  args: Readonly<Record<string, unknown>>,
  options: PlainCallOptions,
) => Promise<Readonly<Record<string, unknown>>>

type Pending = Readonly<{
  answer(message: Readonly<Record<string, unknown>>): void
  fail(error: Error): void
  progress(update: Progress): void
}>

type Entry = Readonly<{ id: number; one: Pending }>

/**
 * Calls without an answer yet, by their ids, which are consecutive. It is no `Map`: with so many insertions and removals, a
 * `Map` would keep removed calls alive (see `kernel/slot-set.ts`).
 */
class PendingCalls {
  #entries: (Entry | undefined)[] = new Array<Entry | undefined>(64).fill(undefined)
  #count = 0
  /** The most calls at a time since there was none, and before that. */
  #most = 0
  #mostBefore = 0

  get isEmpty(): boolean {
    return this.#count === 0
  }

  /** Whether a call that begins now has the server to itself: there is none, and the one before had none beside it. */
  get isQuiet(): boolean {
    return this.#count === 0 && this.#most <= 1 && this.#mostBefore <= 1
  }

  get(id: number): Pending | undefined {
    const entry = this.#entries[id % this.#entries.length]
    return entry?.id === id ? entry.one : undefined
  }

  /**
   * The first id from this one on whose slot is free. Slots of calls that wait for long are skipped, so the table stays as
   * small as the number of waiting calls.
   */
  freeId(from: number): number {
    if (this.#count * 2 >= this.#entries.length) this.#grow()
    let id = from
    while (this.#entries[id % this.#entries.length] !== undefined) id++
    return id
  }

  set(id: number, one: Pending): void {
    this.#entries[id % this.#entries.length] = { id, one }
    if (this.#count === 0) {
      this.#mostBefore = this.#most
      this.#most = 0
    }
    this.#count++
    this.#most = Math.max(this.#most, this.#count)
  }

  delete(id: number): void {
    if (this.get(id) === undefined) return
    this.#entries[id % this.#entries.length] = undefined
    this.#count--
  }

  takeAll(): readonly Pending[] {
    const all = this.#entries.flatMap((entry) => entry?.one ?? [])
    this.#entries.fill(undefined)
    this.#count = 0
    return all
  }

  /** Two ids with different slots in a table also have different slots in one of twice its size. */
  #grow(): void {
    const before = this.#entries
    this.#entries = new Array<Entry | undefined>(before.length * 2).fill(undefined)
    for (const entry of before) if (entry !== undefined) this.#entries[entry.id % this.#entries.length] = entry
  }
}

/** The SDK counts from 0. All our ids fit into 32 bits, because some servers parse ids as 32-bit integers. */
const FIRST_ID = 1_000_000_000
const LAST_ID = 2_000_000_000

/**
 * A transport for the SDK's client that can also call tools without the client. A call through the client costs several times
 * what a quick server needs for its answer; here a call is one message, one timer and one table entry. It behaves as the client
 * does: the same errors, the same time limit, which progress extends, and the same cancellation.
 */
export function withPlainCalls(
  inner: Transport & Partial<Pick<StdioTransport, 'post'>>,
): Readonly<{ transport: Transport; call: PlainCall }> {
  const pending = new PendingCalls()
  let nextId = FIRST_ID
  let isClosed = false

  // `pid` and `stderr` tell the client that this is a process. A process that does not answer the first request in time may
  // still be starting, so the client sends the same process the handshake of the older revision.
  const transport: Transport & Readonly<{ pid: null; stderr: null }> = {
    pid: null,
    stderr: null,
    start: () => inner.start(),
    send: (message, options) => inner.send(message, options),
    close: () => inner.close(),
  }
  inner.onerror = (error) => transport.onerror?.(error)
  inner.onclose = () => {
    isClosed = true
    const left = pending.takeAll()
    try {
      transport.onclose?.()
    } finally {
      for (const one of left) one.fail(new SdkError(SdkErrorCode.ConnectionClosed, 'Connection closed'))
    }
  }
  inner.onmessage = (message, extra) => {
    if (!isOurs(message as Readonly<Record<string, unknown>>)) transport.onmessage?.(message, extra)
  }

  function isOurs(message: Readonly<Record<string, unknown>>): boolean {
    if (pending.isEmpty) return false
    if (!('method' in message)) {
      const one = pending.get(idOf(message['id']))
      one?.answer(message)
      return one !== undefined
    }
    if (message['method'] !== 'notifications/progress') return false
    const { progressToken, progress, total, message: text } = (message['params'] ?? {}) as Record<string, unknown>
    const one = pending.get(idOf(progressToken))
    if (one === undefined || typeof progress !== 'number') return false
    one.progress({
      progress,
      ...(typeof total === 'number' && { total }),
      ...(typeof text === 'string' && { message: text }),
    })
    return true
  }

  const call: PlainCall = (name, args, { signal, timeoutMs, onProgress }) =>
    new Promise((resolve, reject) => {
      if (isClosed) throw new SdkError(SdkErrorCode.ConnectionClosed, 'Connection closed')
      if (signal.aborted) throw new SdkError(SdkErrorCode.RequestTimeout, String(signal.reason))
      const id = pending.freeId(nextId)
      nextId = id >= LAST_ID ? FIRST_ID : id + 1
      let timer: NodeJS.Timeout | undefined
      const settle = (): void => {
        pending.delete(id)
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
      }
      function cancel(error: Error): void {
        settle()
        reject(error)
        inner
          .send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id, reason: CANCEL_REASON } })
          .catch((cause: unknown) => transport.onerror?.(new Error(`Failed to send cancellation: ${String(cause)}`)))
      }
      function onTimeout(): void {
        cancel(new SdkError(SdkErrorCode.RequestTimeout, 'Request timed out', { timeout: timeoutMs }))
      }
      function onAbort(): void {
        cancel(new SdkError(SdkErrorCode.RequestTimeout, String(signal.reason)))
      }
      const isAlone = pending.isQuiet
      const one: Pending = {
        answer(message) {
          settle()
          const error = errorIn(message)
          if (error !== undefined) reject(error)
          else settleWith(message['result'], resolve, reject)
        },
        fail(error) {
          settle()
          reject(error)
        },
        progress(update) {
          clearTimeout(timer)
          timer = setTimeout(onTimeout, timeoutMs)
          onProgress?.(update)
        },
      }
      pending.set(id, one)
      const meta = onProgress === undefined ? {} : { _meta: { progressToken: id } }
      const request: JSONRPCMessage = {
        jsonrpc: '2.0',
        id,
        method: 'tools/call',
        params: { name, arguments: args, ...meta },
      }
      // A server that gets one call at a time waits for this one, so it is sent before everything else that there is to do. Calls that
      // come together go into one write.
      try {
        const sending = inner.post === undefined ? inner.send(request) : inner.post(request, isAlone)
        sending?.catch(one.fail)
      } catch (error) {
        one.fail(error as Error)
      }
      // It may have been answered at once.
      if (pending.get(id) !== one) return
      timer ??= setTimeout(onTimeout, timeoutMs)
      signal.addEventListener('abort', onAbort)
    })

  return { transport, call }
}

type Result = Readonly<Record<string, unknown>>

/** The common answer is recognised at once. */
function settleWith(result: unknown, resolve: (result: Result) => void, reject: (error: unknown) => void): void {
  if (isObject(result) && isPlainResult(result)) resolve(result)
  else resultOf(result).then(resolve, reject)
}

/** The answer, checked by the SDK's schema. */
export async function resultOf(result: unknown): Promise<Result> {
  const checked = await specTypeSchemas.CallToolResult['~standard'].validate(result)
  const value = checked.issues === undefined ? (checked.value as Readonly<Record<string, unknown>>) : undefined
  const structured = value?.['structuredContent'] ?? {}
  if (value !== undefined && isObject(structured)) return value
  const said = checked.issues?.map(({ message }) => message).join('; ') ?? 'structuredContent must be an object'
  throw new SdkError(SdkErrorCode.InvalidResult, `Invalid result for tools/call: ${said}`)
}

/** Only text blocks, possibly with structured content. */
function isPlainResult({ content, structuredContent, isError, _meta }: Readonly<Record<string, unknown>>): boolean {
  if (_meta !== undefined || !(isError === undefined || typeof isError === 'boolean')) return false
  if (!(structuredContent === undefined || isObject(structuredContent)) || !Array.isArray(content)) return false
  for (const block of content as unknown[]) {
    if (!isObject(block) || block['type'] !== 'text' || typeof block['text'] !== 'string') return false
    if (Object.keys(block).length !== 2) return false
  }
  return true
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
