import type { Resources } from '../domains/workspaces/backend.ts'
import type { Logger } from '../kernel/logger.ts'
import type { ControlGroup, ControlGroups } from './cgroups.ts'
import type { EnteredCommand, HoldRequest, Launcher } from './launcher.ts'

/** Control groups, and who waits in them to become the first process of a workspace. */
export type Seat = Readonly<{
  group: ControlGroup
  /** Starts bwrap in them. */
  hold(request: Omit<HoldRequest, 'seatPid' | 'cgroups'>): Promise<EnteredCommand>
  /** When nothing came of it; what was started must have ended. */
  giveBack(): Promise<void>
}>

/**
 * One seat is kept ready, because a process joins a group only after the kernel has waited for every processor, which
 * takes as long as all the rest of a start. The next one joins while the first is being used: then the kernel need not wait
 * again for the commands that follow. Where there are no control groups there is nothing to wait for and none is kept. The
 * one in stock belongs to no workspace, and ends with the supervisor.
 */
export type Seats = Readonly<{
  /** With these limits from the beginning. */
  take(resources: Resources, processesMax: number): Promise<Seat>
  /** Puts one in stock if there is none, without being waited for. */
  restock(): void
}>

type Stocked = Readonly<{ group: ControlGroup; pid: number | undefined }>
export type SeatsDeps = Readonly<{ launcher: Launcher; controlGroups: ControlGroups; logger: Logger }>

export function createSeats({ launcher, controlGroups, logger }: SeatsDeps): Seats {
  let nextNumber = 1
  let stock: Promise<Stocked> | undefined

  const openGroup = (): Promise<ControlGroup> => controlGroups.open(String(nextNumber++))
  async function prepare(): Promise<Stocked> {
    const group = await openGroup()
    try {
      return { group, pid: await launcher.takeSeat(group.joinPaths) }
    } catch (error) {
      await group.close()
      throw error
    }
  }
  /** One that could not be prepared is no reason to refuse a start. */
  async function fromStock(): Promise<Stocked | undefined> {
    const taken = stock
    stock = undefined
    return await taken?.catch((error: unknown) => {
      logger.warn('no place was kept ready for a workspace', { error: String(error) })
      return undefined
    })
  }
  function restock(): void {
    if (controlGroups.controllers.length === 0 || stock !== undefined) return
    stock = prepare()
    stock.catch(() => {})
  }
  function seatOf({ group, pid }: Stocked): Seat {
    return {
      group,
      async hold(request) {
        const held = await launcher.hold({ ...request, seatPid: pid, cgroups: group.joinPaths })
        restock()
        return held
      },
      async giveBack() {
        if (pid !== undefined) await launcher.leaveSeat(pid)
        await group.close()
      },
    }
  }
  return {
    async take(resources, processesMax) {
      const seat = seatOf((await fromStock()) ?? { group: await openGroup(), pid: undefined })
      try {
        seat.group.limit(resources, processesMax)
        return seat
      } catch (error) {
        await seat.giveBack()
        throw error
      }
    },
    restock,
  }
}
