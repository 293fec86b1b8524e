import { readFileSync } from 'node:fs'
import type { Random } from '../kernel/random.ts'

/**
 * Names this process for as long as anyone asks: its number, the moment it began as the kernel counts it, and chance.
 * Another process can tell from the name whether it still runs, also when the number has been given out again.
 */
export const newBootId = (random: Random): string =>
  `${process.pid}-${startOf(process.pid) ?? '0'}-${random.bytes(6).toString('hex')}`

export function isBootAlive(bootId: string): boolean {
  const [pid, started] = bootId.split('-')
  return started !== undefined && /^\d{1,10}$/.test(pid!) && startOf(Number(pid)) === started
}

/** In ticks since the machine began; undefined when there is no such process. The program's name may hold anything. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? undefined : fields[19]
  } catch {
    return undefined
  }
}
