import { type Bench, openContender, roundsOf, type Section, warmUp } from '../bench-context.ts'
import { createTasks, taskCreateBody, thoughtRecordBody } from '../calls.ts'
import type { Connection } from '../client.ts'
import { comparisonNote, interleave, type Turn } from '../interleave.ts'
import { standIn } from '../launch.ts'
import { rateText } from '../table.ts'

type Write = Readonly<{ tool: string; body(connection: Connection): Promise<(n: number) => string> }>

const chains = 16
const writes = {
  task_create: { tool: 'task_create', body: async () => taskCreateBody },
  thought_record: {
    tool: 'thought_record',
    body: async (connection) => thoughtRecordBody(await createTasks(connection, chains)),
  },
} satisfies Record<string, Write>

const targets = [
  { inFlight: 1, atLeast: 0.9 },
  { inFlight: 16, atLeast: 2.5 },
  { inFlight: 64, atLeast: 4 },
]
const slowTargets = [{ inFlight: 16, atLeast: 6 }]

const measure = async (
  bench: Bench,
  write: Write,
  disk: { label: string; environment: Record<string, string> },
  rows: readonly { inFlight: number; atLeast: number }[],
): Promise<void> => {
  const open: Connection[] = []
  const turn = async (contender: typeof standIn): Promise<Turn> => {
    const connection = await openContender(bench, contender, disk.environment)
    open.push(connection)
    return { connection, body: await write.body(connection) }
  }
  try {
    const [ours, peer] = [await turn(bench.subject), await turn(standIn)]
    for (const { connection, body } of [ours, peer]) await warmUp(connection, { inFlight: 16, body }, bench.quick)
    for (const { inFlight, atLeast } of rows) {
      const [compared] = await interleave(ours, [peer], { inFlight, ...roundsOf(bench) })
      if (compared === undefined) continue
      bench.report({
        what: `${write.tool}${disk.label}`,
        inFlight,
        ours: rateText(compared.ours.perSecond),
        peer: `stand-in ${rateText(compared.peer.perSecond)}`,
        ratio: compared.ratio,
        target: { atLeast },
        note: comparisonNote(compared),
      })
    }
  } finally {
    await Promise.all(open.map((connection) => connection.close()))
  }
}

const section = (write: Write): Section => ({
  name: write.tool,
  timeNeededMs: (quick) => (quick ? 14_000 : 45_000),
  async run(bench) {
    await measure(bench, write, { label: '', environment: {} }, targets)
    const label = ', every fsync 3 ms slower'
    const { slowDisk } = bench
    if (slowDisk.available) return measure(bench, write, { label, environment: slowDisk.environment }, slowTargets)
    for (const { inFlight, atLeast } of slowTargets) {
      const note = `skipped: ${slowDisk.reason}`
      bench.report({ what: write.tool + label, inFlight, ours: '', peer: '', ratio: null, target: { atLeast }, note })
    }
  },
})

export const taskCreate = section(writes.task_create)
export const thoughtRecord = section(writes.thought_record)
