/**
 * A stall of the server's event loop cannot be seen from outside, but a ping that waits behind it can: the longest
 * server_ping while task_create keeps the write path busy, on a normal and on a slow disk.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { type Bench, openContender, type Section, warmUp } from '../bench-context.ts'
import { pingBody, taskCreateBody } from '../calls.ts'
import { type Connection, drive, type Measurement } from '../client.ts'
import { standIn } from '../launch.ts'
import { msText, rateText } from '../table.ts'

type Pings = Readonly<{ longestMs: number; p99Ms: number; creates: Measurement }>

const pingWhileCreating = async (connection: Connection, inFlight: number, timeMaxMs: number): Promise<Pings> => {
  let busy = true
  const creating = drive(connection, {
    inFlight,
    callsMax: Number.POSITIVE_INFINITY,
    timeMaxMs,
    body: taskCreateBody,
  }).finally(() => {
    busy = false
  })
  const latencies: number[] = []
  while (busy) {
    const one = await drive(connection, { inFlight: 1, callsMax: 1, timeMaxMs: 60_000, body: pingBody })
    latencies.push(one.longestMs)
    await pause(1)
  }
  latencies.sort((a, b) => a - b)
  return {
    longestMs: latencies.at(-1) ?? Number.NaN,
    p99Ms: latencies[Math.floor(latencies.length * 0.99)] ?? Number.NaN,
    creates: await creating,
  }
}

const measure = async (bench: Bench, label: string, environment: Record<string, string>): Promise<void> => {
  const open: Connection[] = []
  try {
    for (const contender of [bench.subject, standIn]) open.push(await openContender(bench, contender, environment))
    for (const connection of open) await warmUp(connection, { inFlight: 16, body: taskCreateBody }, bench.quick)
    const [ours, peer] = open
    if (ours === undefined || peer === undefined) return
    for (const inFlight of [1, 16, 64]) {
      const timeMaxMs = bench.quick ? 400 : 2_000
      const peerPings = await pingWhileCreating(peer, inFlight, timeMaxMs)
      const ourPings = await pingWhileCreating(ours, inFlight, timeMaxMs)
      bench.report({
        what: `longest server_ping beside task_create${label}`,
        inFlight,
        ours: msText(ourPings.longestMs),
        peer: `stand-in ${msText(peerPings.longestMs)}`,
        ratio: ourPings.longestMs / peerPings.longestMs,
        target: null,
        note: `p99 ${msText(ourPings.p99Ms)} / ${msText(peerPings.p99Ms)}; creates ${rateText(ourPings.creates.perSecond)} / ${rateText(peerPings.creates.perSecond)}`,
      })
    }
  } finally {
    await Promise.all(open.map((connection) => connection.close()))
  }
}

export const pingUnderLoad: Section = {
  name: 'ping-under-load',
  timeNeededMs: (quick) => (quick ? 12_000 : 40_000),
  async run(bench) {
    await measure(bench, '', {})
    if (bench.slowDisk.available) await measure(bench, ', fsync +3 ms', bench.slowDisk.environment)
  },
}
