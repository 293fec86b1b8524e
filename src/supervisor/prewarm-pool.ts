import type { Resources } from '../domains/workspaces/backend.ts'
import type { Logger } from '../kernel/logger.ts'
import type { ControlGroup, ControlGroups } from './cgroups.ts'
import type { IdRange, IdRanges } from './id-ranges.ts'
import type { HoldOrder, InitProcesses } from './init-processes.ts'
import type { EnteredCommand } from './perl-process.ts'

/** Control groups, ids, and who waits with them to become the first process of a workspace. */
export type PrewarmedSlot = Readonly<{
  group: ControlGroup
  range: IdRange
  hold(order: HoldOrder): Promise<EnteredCommand>
  /** When nothing came of it, or the workspace has ended. */
  release(): Promise<void>
}>

/**
 * One control group is prepared ahead, because a process joins a group only after the kernel has waited for every processor, which
 * takes as long as all the rest of a start; and because its namespaces are made by then. The next one joins while the first
 * is being used: then the kernel need not wait again for the commands that follow. The one in stock belongs to no workspace,
 * and ends with the supervisor.
 */
export type PrewarmPool = Readonly<{
  /** With these limits from the beginning. */
  take(resources: Resources, processesMax: number, hasFolders: boolean): Promise<PrewarmedSlot>
  /** Puts one in stock if there is none, without being waited for. */
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
  /** One that could not be prepared is no reason to refuse a start. */
  async function fromStock(): Promise<Stocked | undefined> {
    const taken = stock
    stock = undefined
    return await taken?.catch((error: unknown) => {
      logger.warn('no control group was prepared for the next workspace', { error: String(error) })
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
          // The one that waited may have ended; another has the same place, and fails as well if the order is to blame.
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
