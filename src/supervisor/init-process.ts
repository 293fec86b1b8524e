import { AppError } from '../contract/app-error.ts'
import { systemClock } from '../kernel/clock.ts'
import type { HoldOrder } from './init-processes.ts'
import type { PrewarmedSlot } from './prewarm-pool.ts'
import { type ProcessEntry, processesOf, signalProcess } from './processes.ts'

/** The process that keeps a workspace's namespaces; when it ends, the kernel ends everything in them. */
export type InitProcess = Readonly<{
  /** The first process inside, as the supervisor sees it. */
  initPid: number
  ended: Promise<void>
  /** Ends what runs, gently first. */
  stop(graceMs: number): Promise<void>
}>

const POLL_MS = 10
/** In the words of perl/mounts.pl. */
const NO_MOUNT = /^the folder .* to mount is not there/

/** `prepare` makes what the order needs. */
export async function startInitProcess(slot: PrewarmedSlot, prepare: () => Promise<HoldOrder>): Promise<InitProcess> {
  try {
    const { pid, ended } = await slot.hold(await prepare())
    return initProcessOf(
      pid,
      ended.then(() => undefined),
    )
  } catch (cause) {
    // It says already what to do.
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

/** What runs in a workspace, without what keeps it. */
export const commandsOf = (initPid: number): ProcessEntry[] => processesOf(initPid).filter(({ state }) => state !== 'Z')
