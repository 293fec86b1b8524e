import { readFileSync, readlinkSync } from 'node:fs'
import type { ProcessNames } from '../contract/task-directory.ts'
import type { Random } from '../kernel/random.ts'

/**
 * A unique name of this process: its pid, its start time as the kernel counts it, and random bytes. Another process can tell from
 * the name whether it still runs, even if the pid was reused.
 */
export const newBootId = (random: Random): string =>
  `${process.pid}-${startOf(process.pid) ?? '0'}-${random.bytes(6).toString('hex')}`

export function isBootAlive(bootId: string): boolean {
  const [pid, started] = bootId.split('-')
  return started !== undefined && /^\d{1,10}$/.test(pid!) && startOf(Number(pid)) === started
}

/** In ticks since boot; undefined if there is no such process. The program's name may contain anything. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? undefined : fields[19]
  } catch {
    return undefined
  }
}

/** Names that also say in which process namespace of which kernel they are valid. The end of a process elsewhere cannot be seen. */
export function processNames(random: Random): ProcessNames {
  const space = pidSpace()
  return {
    own: `${newBootId(random)}@${space ?? ''}`,
    hasEnded(name) {
      const [bootId, ofSpace] = name.split('@')
      return space !== undefined && ofSpace === space && !isBootAlive(bootId!)
    },
  }
}

function pidSpace(): string | undefined {
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()} ${readlinkSync('/proc/self/ns/pid')}`
  } catch {
    return undefined
  }
}
