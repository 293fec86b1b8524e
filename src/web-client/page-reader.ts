import { Worker } from 'node:worker_threads'
import type { PageReader } from '../domains/web/ports.ts'
import { createSemaphore } from '../kernel/semaphore.ts'
import { workerArguments } from '../kernel/worker-arguments.ts'
import type { PageAnswer, PageTask } from './page-worker.ts'

type PageReaderDeps = Readonly<{ timeoutMs?: number; memoryMb?: number }>

const TIMEOUT_MS = 10_000
const MEMORY_MB = 384
const AT_ONCE = 2

/** Each page in a thread of its own that is ended when it takes too long or too much. Few are read at once. */
export function createPageReader({ timeoutMs = TIMEOUT_MS, memoryMb = MEMORY_MB }: PageReaderDeps = {}): PageReader {
  const semaphore = createSemaphore(AT_ONCE)
  const read = (task: PageTask, signal: AbortSignal): Promise<PageAnswer | undefined> =>
    semaphore.run(() => readInThread(task, { timeoutMs, memoryMb }, signal), signal)

  return {
    async toMarkdown(html, url, signal) {
      const markdown = (await read({ kind: 'markdown', html, url }, signal))?.markdown
      return markdown === '' ? undefined : markdown
    },
    async searchResults(html, signal) {
      const answer = await read({ kind: 'search-results', html }, signal)
      if (answer === undefined) throw new SyntaxError('the page could not be read')
      return answer.results
    },
  }
}

function readInThread(
  task: PageTask,
  { timeoutMs, memoryMb }: Required<PageReaderDeps>,
  signal: AbortSignal,
): Promise<PageAnswer | undefined> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const worker = new Worker(new URL('./page-worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: memoryMb, stackSizeMb: 4 },
      // Nothing of the environment is for what others wrote, and none of it may be said on our standard output.
      env: {},
      execArgv: [...workerArguments],
      stdout: true,
      stderr: true,
    })
    const end = (answer: PageAnswer | undefined): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
      resolve(answer)
      void worker.terminate()
    }
    const stop = (): void => {
      reject(signal.reason)
      end(undefined)
    }
    const timer = setTimeout(() => end(undefined), timeoutMs)
    signal.addEventListener('abort', stop, { once: true })
    worker.on('message', (answer: PageAnswer) => end(answer))
    worker.on('error', () => end(undefined))
    worker.on('exit', () => end(undefined))
    worker.postMessage(task)
  })
}
