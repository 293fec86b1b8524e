import { SdkError, SdkErrorCode, type Transport } from '@modelcontextprotocol/client'
import { errorIn, idOf } from './answer-of.ts'

type ForeignObject = Readonly<Record<string, unknown>>
type RawOptions = Readonly<{ signal: AbortSignal; timeoutMs: number }>

/** Sends a request that the SDK's client does not support in the revision of the connection, or whose answer it refuses. */
export type RawRequest = (method: string, params: ForeignObject, options: RawOptions) => Promise<ForeignObject>

type Pending = Readonly<{ answer(message: ForeignObject): void; fail(error: Error): void }>

/** After the ids of plain calls. All of them fit into 32 bits, because some servers parse ids as 32-bit integers. */
const FIRST_ID = 2_000_000_001
const LAST_ID = 2 ** 31 - 1

/** In `_meta`: the task that a server answered with. The SDK's client accepts only complete answers. */
export const TASK_META_KEY = 'castellan/task'

/** For a transport whose client has completed its handshake. Answers to other requests are passed on to the client. */
export function addRawRequests(transport: Transport): RawRequest {
  const pending = new Map<number, Pending>()
  let nextId = FIRST_ID
  let isClosed = false
  const { onmessage, onclose } = transport

  transport.onmessage = (message, extra) => {
    const known = message as ForeignObject
    const waiting = 'method' in known ? undefined : pending.get(idOf(known['id']))
    if (waiting === undefined) onmessage?.(withTaskInMeta(message), extra)
    else waiting.answer(known)
  }
  transport.onclose = () => {
    isClosed = true
    for (const one of [...pending.values()]) one.fail(closedError())
    onclose?.()
  }

  return (method, params, { signal, timeoutMs }) =>
    new Promise((resolve, reject) => {
      if (isClosed) throw closedError()
      signal.throwIfAborted()
      const id = nextId
      nextId = id === LAST_ID ? FIRST_ID : id + 1
      const settle = (): void => {
        pending.delete(id)
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
      }
      const fail = (error: unknown): void => {
        settle()
        reject(error)
      }
      const onAbort = (): void => fail(signal.reason)
      const timer = setTimeout(
        () => fail(new SdkError(SdkErrorCode.RequestTimeout, 'Request timed out', { timeout: timeoutMs })),
        timeoutMs,
      )
      signal.addEventListener('abort', onAbort)
      pending.set(id, {
        answer(message) {
          settle()
          const error = errorIn(message)
          if (error !== undefined) reject(error)
          else if (isObject(message['result'])) resolve(message['result'])
          else reject(new SdkError(SdkErrorCode.InvalidResult, `Invalid result for ${method}: not an object`))
        },
        fail,
      })
      transport.send({ jsonrpc: '2.0', id, method, params: { ...params } }, { requestSignal: signal }).catch(fail)
    })
}

const closedError = (): SdkError => new SdkError(SdkErrorCode.ConnectionClosed, 'Connection closed')

function withTaskInMeta<Message>(message: Message): Message {
  const { result } = message as Readonly<{ result?: unknown }>
  if (!isObject(result) || result['resultType'] !== 'task') return message
  const complete = { resultType: 'complete', content: [], isError: true, _meta: { [TASK_META_KEY]: result } }
  return { ...message, result: complete }
}

const isObject = (value: unknown): value is ForeignObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
