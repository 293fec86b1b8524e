import { expect } from 'vitest'
import type { CastellanClient } from '../support/castellan-client.ts'
import { descendants, isProcess, supervisorPid } from '../support/workspace-truth.ts'

export type Victim = 'server' | 'supervisor' | 'both' | 'launcher'

/** Ready to kill at once: looking for the victim only then gives the calls under way the time to end. */
export function aim(
  client: CastellanClient,
  dataDir: string,
  victim: Victim,
): Readonly<{ shoot(): void; gone(): Promise<void> }> {
  const pid = supervisorPid(dataDir)
  const below = descendants(pid)
  const launcher = below.find(({ command }) => command.includes('launcher.pl'))
  if (launcher === undefined) throw new Error('The supervisor has no launcher')
  const all = [pid, ...below.map((one) => one.pid)]
  return {
    shoot() {
      if (victim === 'server' || victim === 'both') client.kill('SIGKILL')
      if (victim === 'supervisor' || victim === 'both') process.kill(pid, 'SIGKILL')
      if (victim === 'launcher') process.kill(launcher.pid, 'SIGKILL')
    },
    gone: () => (victim === 'server' ? Promise.resolve() : supervisorEnded(all)),
  }
}

/** Everything of a supervisor that was killed is gone, as soon as the kernel has done its work. */
async function supervisorEnded(processes: readonly number[]): Promise<void> {
  await expect.poll(() => processes.filter(isProcess), { interval: 5 }).toEqual([])
}
