import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { type Bench, newDirectory, openContender, type Section } from '../bench-context.ts'
import { createTasks, pingBody, taskCreateBody, taskListBody, thoughtRecordBody } from '../calls.ts'
import { type Connection, callTool, drive, methodBody } from '../client.ts'
import { median } from '../interleave.ts'
import { castellanCommand, initializeParams, type Launch, openStdio, start } from '../launch.ts'
import { openStdioConnection } from '../stdio-connection.ts'
import { mebibytesText, msText } from '../table.ts'

const residentBytes = async (pid: number): Promise<number> => {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024
}

/** Resident size once a process has been left alone for a while: the median of several looks. */
const idleBytes = async (pid: number): Promise<number> => {
  const looks: number[] = []
  for (let n = 0; n < 8; n++) {
    await pause(150)
    looks.push(await residentBytes(pid))
  }
  return median(looks)
}

const bareNodeMs = async (): Promise<number> => {
  const started = performance.now()
  await once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'close')
  return performance.now() - started
}

/** From the start of a server until it has answered these, which are sent at once. */
const answeredMs = async (launch: Launch, bodies: readonly string[]): Promise<number> => {
  const started = performance.now()
  const connection = openStdioConnection(start(launch))
  const answered = bodies.map(
    (body) =>
      new Promise<void>((resolve, reject) => {
        connection.send(body, (answer) => (answer instanceof Error ? reject(answer) : resolve()))
      }),
  )
  await Promise.all(answered)
  const elapsed = performance.now() - started
  await connection.close()
  return elapsed
}
const initialize = methodBody('initialize', initializeParams)
const initializedMs = (launch: Launch): Promise<number> => answeredMs(launch, [initialize])

const reportStart = async (
  bench: Bench,
  what: string,
  directory: () => Promise<string>,
  target: number | null,
): Promise<void> => {
  const [ours, bare]: [number[], number[]] = [[], []]
  for (let n = 0; n < (bench.quick ? 4 : 9); n++) {
    bare.push(await bareNodeMs())
    ours.push(await initializedMs(bench.subject.stdio(await directory())))
  }
  bench.report({
    what,
    inFlight: null,
    ours: msText(median(ours)),
    peer: `node -e 0 ${msText(median(bare))}`,
    ratio: median(ours.map((ms, n) => ms / (bare[n] ?? Number.NaN))),
    target: target === null ? null : { atMost: target },
  })
}

const LIST_GOAL_MS = 300

/** Codex waits about a second for the list, on machines that are slower than this one. */
const reportList = async (bench: Bench, directory: string): Promise<void> => {
  const listed: number[] = []
  const bodies = [initialize, methodBody('tools/list', {})]
  for (let n = 0; n < (bench.quick ? 4 : 9); n++) {
    listed.push(await answeredMs(bench.subject.stdio(directory), bodies))
  }
  bench.report({
    what: 'start to tools/list answered, all tools',
    inFlight: null,
    ours: msText(median(listed)),
    peer: `goal ${LIST_GOAL_MS} ms`,
    ratio: median(listed) / LIST_GOAL_MS,
    target: { atMost: 1 },
  })
}

/** A command of the terminal, while a server has the state open. */
const reportCall = async (bench: Bench, directory: string): Promise<void> => {
  const owner = await openStdio(bench.subject.stdio(directory))
  try {
    await callTool(owner, 'server_ping', {})
    const [ours, bare]: [number[], number[]] = [[], []]
    const args = ['call', 'server_ping', '--json', '--data-dir', directory]
    for (let n = 0; n < (bench.quick ? 4 : 15); n++) {
      bare.push(await bareNodeMs())
      const started = performance.now()
      const [code] = await once(start({ name: 'call', command: castellanCommand, args }), 'close')
      if (code !== 0) throw new Error(`castellan call ended with ${code}`)
      ours.push(performance.now() - started)
    }
    bench.report({
      what: 'castellan call, a server running',
      inFlight: null,
      ours: msText(median(ours)),
      peer: `node -e 0 ${msText(median(bare))}`,
      ratio: median(ours.map((ms, n) => ms / (bare[n] ?? Number.NaN))),
      target: { atMost: 3 },
    })
  } finally {
    await owner.close()
  }
}

export const startUp: Section = {
  name: 'start',
  timeNeededMs: (quick) => (quick ? 9_000 : 20_000),
  async run(bench) {
    const used = await newDirectory(bench)
    await initializedMs(bench.subject.stdio(used))
    await reportStart(bench, 'start to initialize answered', async () => used, 6)
    await reportStart(bench, 'the same on an empty data directory', () => newDirectory(bench), null)
    await reportList(bench, used)
    await reportCall(bench, used)
  },
}

export const idleMemory: Section = {
  name: 'rss',
  timeNeededMs: () => 5_000,
  async run(bench) {
    const ours = await openContender(bench, bench.subject)
    const bare = start({ name: 'bare node', command: process.execPath, args: ['-e', 'setInterval(() => {}, 1e6)'] })
    try {
      const row = async (what: string, target: { atMost: number } | null): Promise<void> => {
        const [oursBytes, bareBytes] = await Promise.all([idleBytes(ours.pid), idleBytes(bare.pid ?? -1)])
        bench.report({
          what,
          inFlight: null,
          ours: mebibytesText(oursBytes),
          peer: `bare node ${mebibytesText(bareBytes)}`,
          ratio: oursBytes / bareBytes,
          target,
        })
      }
      // Lists are answered before the store is opened; a call needs it.
      await callTool(ours, 'server_ping', {})
      await row('resident memory, idle', { atMost: 2.5 })
      for (const tool of ['workspace_list', 'aegis.agent.list']) await callTool(ours, tool, {})
      await row('the same with workspaces and agents opened', null)
    } finally {
      bare.kill('SIGKILL')
      await ours.close()
    }
  },
}

/** Of ten calls: six pings, two creates, one thought, one list of fifty. */
const mixedBody = async (connection: Connection): Promise<(n: number) => string> => {
  const thought = thoughtRecordBody(await createTasks(connection, 16))
  return (n) => {
    const kind = n % 10
    if (kind < 6) return pingBody()
    if (kind < 8) return taskCreateBody(n)
    return kind === 8 ? thought(n) : taskListBody()
  }
}

export const memoryGrowth: Section = {
  name: 'memory',
  timeNeededMs: (quick) => (quick ? 12_000 : 75_000),
  async run(bench) {
    const total = bench.quick ? 10_000 : 100_000
    const ours = await openContender(bench, bench.subject)
    try {
      const body = await mixedBody(ours)
      const load = { inFlight: 16, timeMaxMs: bench.quick ? 2_000 : 15_000, body }
      const sizes: { calls: number; bytes: number }[] = []
      for (let calls = 0; sizes.length < 5; ) {
        calls += (await drive(ours, { ...load, callsMax: total / 5 })).calls
        sizes.push({ calls, bytes: await residentBytes(ours.pid) })
      }
      const [early, late] = [sizes[0], sizes[4]]
      if (early === undefined || late === undefined) return
      bench.report({
        what: 'resident memory over mixed calls (flat is 1)',
        inFlight: 16,
        ours: `${mebibytesText(late.bytes)} after ${late.calls}`,
        peer: `${mebibytesText(early.bytes)} after ${early.calls}`,
        ratio: late.bytes / early.bytes,
        target: bench.quick ? null : { atMost: 1.2 },
        note: `${bench.quick ? 'too few calls to judge; ' : ''}each fifth: ${sizes.map((size) => mebibytesText(size.bytes)).join(', ')}`,
      })
    } finally {
      await ours.close()
    }
  },
}
