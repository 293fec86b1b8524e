import type { Resources } from '../domains/workspaces/backend.ts'
import type { Logger } from '../kernel/logger.ts'
import type { ControlGroup, ControlGroups } from './cgroups.ts'
import type { IdRange, IdRanges } from './id-ranges.ts'
import type { HoldOrder, InitProcesses } from './init-processes.ts'
import type { EnteredCommand } from './perl-process.ts'

/** A control group and an id range, with a process in them that waits to become the init process of a workspace. */
export type PrewarmedSlot = Readonly<{
  group: ControlGroup
  range: IdRange
  hold(order: HoldOrder): Promise<EnteredCommand>
  /** To be called if the workspace did not start, and after it has ended. */
  release(): Promise<void>
}>

/**
 * One slot is prepared ahead. Joining a cgroup waits for an RCU grace period, which takes as long as the rest of a start, and
 * creating namespaces takes time too. The next slot is prepared while the first is handed out, so the commands that follow do not
 * wait either. A slot in stock belongs to no workspace, and ends with the supervisor.
 */
export type PrewarmPool = Readonly<{
  /** The limits apply before the workspace's first process runs. */
  take(resources: Resources, processesMax: number, hasFolders: boolean): Promise<PrewarmedSlot>
  /** Prepares a slot in the background if there is none in stock. */
  restock(): void
}>

type Stocked = Readonly<{ group: ControlGroup; range: IdRange; pid: number }>
type PrewarmPoolDeps = Readonly<{
  initProcessMaker: InitProcesses
  controlGroups: ControlGroups
  idRanges: IdRanges
  logger: Logger
}>

export function createPrewarmPool({ initProcessMaker, controlGroups, idRanges, logger }: PrewarmPoolDeps): PrewarmPool {
  let nextNumber = 1
  let stock: Promise<Stocked> | undefined

  async function prepare(takeRange: () => Promise<IdRange> = idRanges.take): Promise<Stocked> {
    const group = await controlGroups.open(String(nextNumber++))
    const range = await takeRange()
    try {
      return { group, range, pid: await initProcessMaker.prewarm(group.joinPaths, range.maps) }
    } catch (error) {
      await range.release()
      await group.close()
      throw error
    }
  }
  /** A slot that could not be prepared is no reason to refuse a start. */
  async function fromStock(): Promise<Stocked | undefined> {
    const taken = stock
    stock = undefined
    return await taken?.catch((error: unknown) => {
      logger.warn('control group for the next workspace could not be prepared', { error: String(error) })
      return undefined
    })
  }
  function restock(): void {
    if (stock !== undefined) return
    stock = prepare()
    stock.catch(() => {})
  }
  function slotOf({ group, range, pid }: Stocked): PrewarmedSlot {
    let waiting = pid
    return {
      group,
      range,
      async hold(order) {
        const held = await initProcessMaker.hold(waiting, order).catch(async () => {
          // The waiting process may have died. A second one in the same cgroup is tried once; it fails as well if the order is at
          // fault.
          waiting = await initProcessMaker.prewarm(group.joinPaths, range.maps)
          return await initProcessMaker.hold(waiting, order)
        })
        restock()
        return held
      },
      async release() {
        await initProcessMaker.discard(waiting)
        await group.close()
        await range.release()
      },
    }
  }
  return {
    async take(resources, processesMax, hasFolders) {
      const stocked = hasFolders ? await prepare(async () => idRanges.shared) : await fromStock()
      const slot = slotOf(stocked ?? (await prepare()))
      try {
        slot.group.limit(resources, processesMax)
        return slot
      } catch (error) {
        await slot.release()
        throw error
      }
    },
    restock,
  }
}
