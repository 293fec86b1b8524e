import { systemClock } from '../kernel/clock.ts'
import { type ControlGroup, cannotFreeze, FREEZE_MS_MAX } from './cgroups.ts'
import { processesOf, signalProcess } from './processes.ts'

const SIGKILL = 9
const SIGSTOP = 19
const SIGCONT = 18

/**
 * Stops every process of a workspace where it is, so that a copy of its files is of one instant. With a control group
 * nobody inside notices; without, each is stopped by signal until none runs. Answers how to let them go on.
 */
export async function freezeProcesses(group: ControlGroup, initPid: number): Promise<() => Promise<void>> {
  if (await group.freeze()) return () => group.thaw()
  const stopped = new Set<number>()
  const thaw = async (): Promise<void> => {
    for (const pid of stopped) signalProcess(pid, SIGCONT)
  }
  const deadlineMs = systemClock.monotonicMs() + FREEZE_MS_MAX
  for (;;) {
    const running = processesOf(initPid).filter(({ state }) => !'TtZX'.includes(state))
    if (running.length === 0) return thaw
    if (systemClock.monotonicMs() > deadlineMs) {
      await thaw()
      throw cannotFreeze()
    }
    for (const { pid } of running) {
      stopped.add(pid)
      signalProcess(pid, SIGSTOP)
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Ends everything in a workspace but its first process, however fast it multiplies: what is frozen makes no more of itself. */
export async function killProcesses(group: ControlGroup, initPid: number): Promise<void> {
  const thaw = await freezeProcesses(group, initPid)
  for (const { pid } of processesOf(initPid)) signalProcess(pid, SIGKILL)
  await thaw()
}
