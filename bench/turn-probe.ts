/**
 * Loaded into a server before the server itself (`--import`): tells on a socket how much processor time its main thread has used
 * since it was last asked, and how much of it in the longest turn of the event loop. Others wait as long as a turn takes; on a
 * machine that others use too, processor time says that and the clock does not.
 */
import { createServer } from 'node:net'
import { isMainThread } from 'node:worker_threads'

const path = process.env['BENCH_TURN_PROBE']

/** Programs that the server starts inherit how it was started. */
if (path !== undefined && isMainThread && process.argv[2] === 'serve') {
  const spentMs = (): number => {
    const { user, system } = process.threadCpuUsage()
    return (user + system) / 1_000
  }
  let beganMs = spentMs()
  let turnMs = beganMs
  let longestMs = 0
  const turn = (): void => {
    const nowMs = spentMs()
    longestMs = Math.max(longestMs, nowMs - turnMs)
    turnMs = nowMs
    setImmediate(turn)
  }
  createServer((socket) => {
    socket.on('data', () => {
      socket.write(`${JSON.stringify({ spentMs: spentMs() - beganMs, longestMs })}\n`)
      beganMs = spentMs()
      longestMs = 0
    })
    socket.once('data', turn)
    socket.on('error', () => {})
  }).listen(path)
}
