import { systemClock } from '../kernel/clock.ts'
import { type ControlGroup, cannotFreeze, FREEZE_MS_MAX } from './cgroups.ts'
import { processesOf, signalProcess } from './processes.ts'

const SIGKILL = 9
const SIGSTOP = 19
const SIGCONT = 18
const KILL_MS_MAX = 60_000
const KILL_POLL_MS = 20

/**
 * Stops every process of a workspace, so that a copy of its files is consistent. With a freezer cgroup no process notices;
 * without one, processes get SIGSTOP until none runs. Returns the function that resumes them.
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

/** Kills every process of a workspace except its init process. */
export async function killProcesses(group: ControlGroup, initPid: number): Promise<void> {
  const allowForks = group.refuseForks()
  if (allowForks === undefined) return await killFrozen(group, initPid)
  const deadlineMs = systemClock.monotonicMs() + KILL_MS_MAX
  try {
    for (;;) {
      const running = processesOf(initPid).filter(({ state }) => !'ZX'.includes(state))
      if (running.length === 0) return
      if (systemClock.monotonicMs() > deadlineMs) throw cannotFreeze()
      for (const { pid } of running) signalProcess(pid, SIGKILL)
      await new Promise((resolve) => setTimeout(resolve, KILL_POLL_MS))
    }
  } finally {
    allowForks()
  }
}

/**
 * Frozen processes cannot fork, so a fork bomb cannot outrun the kill. But every process must get the CPU before all are
 * frozen, and a group that has used up its CPU quota gets little.
 */
async function killFrozen(group: ControlGroup, initPid: number): Promise<void> {
  const thaw = await freezeProcesses(group, initPid)
  for (const { pid } of processesOf(initPid)) signalProcess(pid, SIGKILL)
  await thaw()
}
