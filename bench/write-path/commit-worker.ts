import { type MessagePort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { type LedgerJob, openLedgerStore } from './ledger-transaction.ts'

const { file, port, signal } = workerData as { file: string; port: MessagePort; signal: Int32Array }
const store = openLedgerStore(file)
let stopped = false
let seen = 0

while (!stopped) {
  Atomics.wait(signal, 0, seen)
  seen = Atomics.load(signal, 0)
  const jobs: LedgerJob[] = []
  for (let received = receiveMessageOnPort(port); received !== undefined; received = receiveMessageOnPort(port)) {
    if (received.message === 'stop') stopped = true
    else jobs.push(...(JSON.parse(received.message as string) as LedgerJob[]))
  }
  if (jobs.length > 0) port.postMessage(JSON.stringify(store.commit(jobs)))
}
store.close()
port.close()
