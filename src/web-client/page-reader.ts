import { Worker } from 'node:worker_threads'
import type { PageReader } from '../domains/web/ports.ts'
import type { PageAnswer, PageTask } from './page-worker.ts'

export type PageReaderDeps = Readonly<{ timeoutMs?: number; memoryMb?: number }>

const TIMEOUT_MS = 10_000
const MEMORY_MB = 384
const AT_ONCE = 2

/** Each page in a thread of its own that is ended when it takes too long or too much. Few are read at once. */
export function createPageReader({ timeoutMs = TIMEOUT_MS, memoryMb = MEMORY_MB }: PageReaderDeps = {}): PageReader {
  const waiting: (() => void)[] = []
  let running = 0

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (running >= AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve))
    else running++
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }

  const read = (task: PageTask): Promise<PageAnswer | undefined> =>
    inTurn(
      () =>
        new Promise((resolve) => {
          const worker = new Worker(new URL('./page-worker.ts', import.meta.url), {
            resourceLimits: { maxOldGenerationSizeMb: memoryMb, stackSizeMb: 4 },
            // Nothing of the environment is for what others wrote, and none of it may be said on our standard output.
            env: {},
            execArgv: [],
            stdout: true,
            stderr: true,
          })
          const end = (answer: PageAnswer | undefined): void => {
            clearTimeout(timer)
            resolve(answer)
            void worker.terminate()
          }
          const timer = setTimeout(() => end(undefined), timeoutMs)
          worker.on('message', (answer: PageAnswer) => end(answer))
          worker.on('error', () => end(undefined))
          worker.on('exit', () => end(undefined))
          worker.postMessage(task)
        }),
    )

  return {
    async toMarkdown(html, url) {
      const markdown = (await read({ kind: 'markdown', html, url }))?.markdown
      return markdown === '' ? undefined : markdown
    },
    async searchResults(html) {
      const answer = await read({ kind: 'search-results', html })
      if (answer === undefined) throw new SyntaxError('the page could not be read')
      return answer.results
    },
  }
}
