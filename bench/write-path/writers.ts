/** The two places where a group commit can run. Both collect the jobs of one event-loop turn and share one fsync among them. */
import { MessageChannel, Worker } from 'node:worker_threads'
import { type LedgerJob, openLedgerStore } from './ledger-transaction.ts'

export type Writer = Readonly<{ submit(job: LedgerJob, done: () => void): void; close(): Promise<void> }>

export const mainThreadWriter = (file: string): Writer => {
  const store = openLedgerStore(file)
  let queue: { job: LedgerJob; done: () => void }[] = []
  const flush = (): void => {
    const batch = queue
    queue = []
    store.commit(batch.map((one) => one.job))
    for (const one of batch) one.done()
  }
  return {
    submit(job, done) {
      if (queue.length === 0) setImmediate(flush)
      queue.push({ job, done })
    },
    close: async () => store.close(),
  }
}

/**
 * One JSON string per turn in each direction. The worker sleeps in Atomics.wait on a counter of sent batches, and commits
 * whatever has arrived by the time it wakes.
 */
export const workerWriter = (file: string): Writer => {
  const { port1: port, port2: workerPort } = new MessageChannel()
  const signal = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(new URL('./commit-worker.ts', import.meta.url), {
    workerData: { file, port: workerPort, signal },
    transferList: [workerPort],
  })
  let unsent: LedgerJob[] = []
  const waiting: (() => void)[] = []
  const post = (text: string): void => {
    port.postMessage(text)
    Atomics.add(signal, 0, 1)
    Atomics.notify(signal, 0)
  }
  const flush = (): void => {
    const jobs = unsent
    unsent = []
    post(JSON.stringify(jobs))
  }
  port.on('message', (text: string) => {
    const answers = JSON.parse(text) as unknown[]
    for (const done of waiting.splice(0, answers.length)) done()
  })
  return {
    submit(job, done) {
      if (unsent.length === 0) setImmediate(flush)
      unsent.push(job)
      waiting.push(done)
    },
    async close() {
      const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
      post('stop')
      await ended
      port.close()
    },
  }
}
