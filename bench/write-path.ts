/**
 * `node bench/write-path.ts [--quick] [--json]`: should the group commit run on the main thread or in a worker? The same loop
 * and the same transaction in both places, at several numbers of callers, on the disk as it is and with a slower fsync.
 * Each number is the median over rounds that take turns, the longest stall too, since other programs also stall the machine.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { median } from './interleave.ts'
import { buildSlowDisk } from './slow-fsync.ts'
import { formatTable, msText, rateText } from './table.ts'

type Cell = Readonly<{ perSecond: number; longestStallMs: number; p99StallMs: number }>
type Thread = 'main' | 'worker'

const slowerMs = 3
const callersTried = [1, 16, 64]
const quick = process.argv.includes('--quick')
const rounds = quick ? 1 : 5
const secondsPerCell = quick ? 0.6 : 1

const directory = await mkdtemp(join(tmpdir(), 'castellan-write-path-'))

const measure = async (thread: Thread, callers: number, environment: Record<string, string>): Promise<Cell> => {
  const home = await mkdtemp(join(directory, 'cell-'))
  const args = [join(import.meta.dirname, 'write-path', 'measure.ts'), thread, String(callers), join(home, 'ledger.db')]
  const { stdout } = await promisify(execFile)(process.execPath, [...args, String(secondsPerCell)], {
    env: { ...process.env, ...environment },
    timeout: 60_000,
  })
  return JSON.parse(stdout) as Cell
}

const middle = (cells: readonly Cell[]): Cell => ({
  perSecond: median(cells.map((cell) => cell.perSecond)),
  longestStallMs: median(cells.map((cell) => cell.longestStallMs)),
  p99StallMs: median(cells.map((cell) => cell.p99StallMs)),
})

try {
  const slow = await buildSlowDisk(directory, slowerMs)
  if (!slow.available) console.error(`the slow disk is skipped: ${slow.reason}`)
  const disks = [
    { disk: 'as it is', environment: {} },
    ...(slow.available ? [{ disk: `fsync +${slowerMs} ms`, environment: slow.environment }] : []),
  ]
  const results: { disk: string; callers: number; main: Cell; worker: Cell }[] = []
  for (const { disk, environment } of disks) {
    for (const callers of callersTried) {
      const cells: Record<Thread, Cell[]> = { main: [], worker: [] }
      for (let round = 0; round < rounds; round++) {
        const order: Thread[] = round % 2 === 0 ? ['main', 'worker'] : ['worker', 'main']
        for (const thread of order) cells[thread].push(await measure(thread, callers, environment))
      }
      results.push({ disk, callers, main: middle(cells.main), worker: middle(cells.worker) })
    }
  }
  if (process.argv.includes('--json')) {
    console.log(JSON.stringify(results, null, 2))
  } else {
    const stalls = (cell: Cell): string => `${msText(cell.p99StallMs)} / ${msText(cell.longestStallMs)}`
    const lines = results.map(({ disk, callers, main, worker }) => [
      disk,
      String(callers),
      rateText(main.perSecond),
      rateText(worker.perSecond),
      (worker.perSecond / main.perSecond).toFixed(2),
      stalls(main),
      stalls(worker),
    ])
    const header = [
      'disk',
      'callers',
      'main thread',
      'worker',
      'worker / main',
      'stall main p99 / longest',
      'stall worker p99 / longest',
    ]
    console.log(formatTable(header, lines))
  }
} finally {
  await rm(directory, { recursive: true, force: true })
}
