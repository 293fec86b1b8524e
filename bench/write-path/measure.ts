/**
 * One cell of the experiment, in a process of its own: `measure.ts main|worker CALLERS DATABASE SECONDS` prints JSON.
 * Each caller parses a request, writes, and serialises an answer, so the main thread has the work that a server has.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { mainThreadWriter, workerWriter } from './writers.ts'

const [thread, callersText, file = '', secondsText] = process.argv.slice(2)
const callers = Number(callersText)
const measuredMs = Number(secondsText) * 1000
const warmUpMs = measuredMs / 4
const samplingMs = 1

const requestText = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: {
    name: 'task_create',
    arguments: { title: 'Wire up the handler', description: 'Accept, validate, store. '.repeat(5) },
  },
})

const writer = thread === 'worker' ? workerWriter(file) : mainThreadWriter(file)
const delay = monitorEventLoopDelay({ resolution: samplingMs })
let done = 0
let answered = 0
let active = callers
let started = performance.now()
let over = false

const report = (): void => {
  over = true
  const elapsedMs = performance.now() - started
  delay.disable()
  // The histogram counts from tick to tick, so the sampling interval itself is not part of a stall.
  const stall = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - samplingMs)
  console.log(
    JSON.stringify({
      perSecond: (done / elapsedMs) * 1000,
      longestStallMs: stall(delay.max),
      p99StallMs: stall(delay.percentile(99)),
    }),
  )
}

const caller = (): void => {
  const { params } = JSON.parse(requestText) as { params: { arguments: { title: string; description: string } } }
  writer.submit(params.arguments, () => {
    done += 1
    answered += JSON.stringify({ jsonrpc: '2.0', id: done, result: { structuredContent: params.arguments } }).length
    if (!over) return void setImmediate(caller)
    active -= 1
    if (active === 0) setImmediate(() => void writer.close())
  })
}

for (let n = 0; n < callers; n++) caller()
setTimeout(() => {
  done = 0
  started = performance.now()
  delay.enable()
}, warmUpMs)
setTimeout(() => {
  if (answered === 0) throw new Error('nothing was written')
  report()
}, warmUpMs + measuredMs)
