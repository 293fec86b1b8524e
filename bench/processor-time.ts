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

/**
 * Those that are there now and were not there then, and belong to the one with this number: what it started, and what was
 * started with the mark in its environment. Those whose command line begins with `except` are left out.
 */
export const processesSince = (
  then: ReadonlySet<number>,
  { pid: root, mark, except }: Readonly<{ pid: number; mark: string; except: string }>,
): readonly number[] => {
  const isOurs = (pid: number): boolean => {
    for (let next = pid; next > 1; next = parentOf(next)) if (next === root) return true
    return mark !== '' && textOf(pid, 'environ').includes(mark)
  }
  return [...processesNow()].filter(
    (pid) => !then.has(pid) && pid !== process.pid && isOurs(pid) && !textOf(pid, 'cmdline').startsWith(except),
  )
}

/** Of all of them together, their own and not their children's. */
export const processorTimeMs = (pids: readonly number[]): number => pids.reduce((sum, pid) => sum + timeOf(pid), 0)

function textOf(pid: number, file: 'cmdline' | 'environ' | 'stat'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}

const parentOf = (pid: number): number =>
  Number(
    textOf(pid, 'stat')
      .replace(/^.*\) /s, '')
      .split(' ')[1] ?? 0,
  )

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
