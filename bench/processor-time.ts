import { readdirSync, readFileSync } from 'node:fs'

/** What Linux counts processor time in. */
const tickMs = 10

/** The processes that there are now. */
export const processesNow = (): ReadonlySet<number> =>
  new Set(
    readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 0),
  )

/** Those that are there now and were not there then, except those whose command line begins with the text. */
export const processesSince = (then: ReadonlySet<number>, except: string): readonly number[] =>
  [...processesNow()].filter((pid) => !then.has(pid) && pid !== process.pid && !commandLine(pid).startsWith(except))

/** Of all of them together, their own and not their children's. */
export const processorTimeMs = (pids: readonly number[]): number => pids.reduce((sum, pid) => sum + timeOf(pid), 0)

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

function timeOf(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return (Number(fields[11]) + Number(fields[12])) * tickMs
  } catch {
    return 0
  }
}
