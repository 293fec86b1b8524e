import { AppError } from '../contract/app-error.ts'
import { systemClock } from '../kernel/clock.ts'
import type { HoldOrder } from './init-processes.ts'
import type { PrewarmedSlot } from './prewarm-pool.ts'
import { type ProcessEntry, processesOf, signalProcess } from './processes.ts'

/** The init process of a workspace. When it ends, the kernel kills every process in its pid namespace. */
export type InitProcess = Readonly<{
  /** The pid of init in the supervisor's pid namespace. */
  initPid: number
  ended: Promise<void>
  /** Ends all processes: SIGTERM first, SIGKILL after `graceMs`. */
  stop(graceMs: number): Promise<void>
}>

const POLL_MS = 10
/** The error text of perl/mounts.pl. */
const NO_MOUNT = /^the folder .* to mount is not there/

/** `prepare` makes everything that the order needs. */
export async function startInitProcess(slot: PrewarmedSlot, prepare: () => Promise<HoldOrder>): Promise<InitProcess> {
  try {
    const { pid, ended } = await slot.hold(await prepare())
    return initProcessOf(
      pid,
      ended.then(() => undefined),
    )
  } catch (cause) {
    // An AppError already says what to do.
    if (cause instanceof AppError) throw cause
    const reason = cause instanceof Error ? cause.message : String(cause)
    if (NO_MOUNT.test(reason))
      throw new AppError('ERR_FILE_NOT_FOUND', `mount: ${reason}`, { field: 'mount' }, { cause })
    throw new AppError('ERR_BACKEND_FAILED', `The workspace did not start: ${reason}.`, {}, { cause })
  }
}

const initProcessOf = (initPid: number, ended: Promise<void>): InitProcess => ({
  initPid,
  ended,
  async stop(graceMs) {
    for (const { pid } of commandsOf(initPid)) signalProcess(pid, 15)
    const deadline = systemClock.monotonicMs() + graceMs
    while (systemClock.monotonicMs() < deadline && commandsOf(initPid).length > 0) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
    signalProcess(initPid, 9)
    await ended
  },
})

/** The processes of a workspace without its init process and without zombies. */
export const commandsOf = (initPid: number): ProcessEntry[] => processesOf(initPid).filter(({ state }) => state !== 'Z')
