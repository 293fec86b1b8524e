import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { cancelled, removedMeanwhile } from './core.ts'
import type { Workspace } from './ports.ts'

/**
 * Concurrency control of workspaces within this process.
 *
 * 1. Operations that change a workspace (start, stop, snapshot, restore, network) run one after the other, in the order of
 *    their arrival.
 * 2. Commands and file accesses have shared access: an operation that ends the workspace ends them too, and they report that.
 * 3. A destroy does not wait. It rejects queued operations and aborts shared work; an operation in progress finds out when it
 *    records its outcome.
 */
export type WorkspaceLocks = Readonly<{
  exclusive<T>(at: Workspace, signal: AbortSignal, work: () => Promise<T>): Promise<T>
  /** The signal of the work is aborted by the caller's signal, and when the workspace is destroyed. */
  shared<T>(at: Workspace, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T>
  /** Marks the workspace as being destroyed. Concurrent calls share one destroy. */
  destroy(at: Workspace, work: () => Promise<void>): Promise<void>
  /** The workspace of that id is being created; nothing can wait for it yet. */
  making<T>(id: string, work: () => Promise<T>): Promise<T>
  /**
   * Whether this process is changing the workspace. A row that names this process otherwise was left by an operation whose last
   * write failed. With `hasLock`, the caller's own lock does not count.
   */
  isAtWork(id: string, hasLock: boolean): boolean
}>

type Waiter = Readonly<{ begin(): void; refuse(error: AppError): void }>
type Entry = {
  isTaken: boolean
  waiting: Waiter[]
  sharedCount: number
  readonly finalizer: AbortController
  destroying: Promise<void> | undefined
}

export function createWorkspaceLocks(): WorkspaceLocks {
  const entries = new Map<string, Entry>()
  const inTheMaking = new Set<string>()

  function entryOf(id: string): Entry {
    let entry = entries.get(id)
    if (entry === undefined) {
      entry = { isTaken: false, waiting: [], sharedCount: 0, finalizer: new AbortController(), destroying: undefined }
      entries.set(id, entry)
    }
    return entry
  }

  function dropIdle(id: string, entry: Entry): void {
    if (entry.isTaken || entry.waiting.length > 0 || entry.sharedCount > 0 || entry.destroying !== undefined) return
    if (entries.get(id) === entry) entries.delete(id)
  }

  async function takeTurn(at: Workspace, entry: Entry, signal: AbortSignal): Promise<void> {
    if (entry.finalizer.signal.aborted) throw removedMeanwhile(at)
    if (signal.aborted) throw cancelled()
    if (!entry.isTaken) {
      entry.isTaken = true
      return
    }
    if (entry.waiting.length >= limits.workspaceQueueMax) throw tooManyWait(at)
    await new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        entry.waiting = entry.waiting.filter((other) => other !== waiter)
        reject(cancelled())
      }
      const waiter: Waiter = {
        begin() {
          signal.removeEventListener('abort', leave)
          resolve()
        },
        refuse(error) {
          signal.removeEventListener('abort', leave)
          reject(error)
        },
      }
      signal.addEventListener('abort', leave, { once: true })
      entry.waiting.push(waiter)
    })
  }

  return {
    async exclusive(at, signal, work) {
      const entry = entryOf(at.id)
      await takeTurn(at, entry, signal)
      try {
        return await work()
      } finally {
        const next = entry.waiting.shift()
        if (next === undefined) entry.isTaken = false
        else next.begin()
        dropIdle(at.id, entry)
      }
    },

    async shared(at, signal, work) {
      const entry = entryOf(at.id)
      if (entry.finalizer.signal.aborted) throw removedMeanwhile(at)
      entry.sharedCount++
      try {
        return await work(AbortSignal.any([signal, entry.finalizer.signal]))
      } catch (error) {
        throw entry.finalizer.signal.aborted ? removedMeanwhile(at) : error
      } finally {
        entry.sharedCount--
        dropIdle(at.id, entry)
      }
    },

    async destroy(at, work) {
      const entry = entryOf(at.id)
      if (entry.destroying === undefined) {
        entry.finalizer.abort()
        for (const waiter of entry.waiting.splice(0)) waiter.refuse(removedMeanwhile(at))
        entry.destroying = work().finally(() => {
          entry.destroying = undefined
          // A failed destroy may be retried. Nothing else can use the entry, which never becomes usable again.
          entries.delete(at.id)
        })
      }
      await entry.destroying
    },

    async making(id, work) {
      inTheMaking.add(id)
      try {
        return await work()
      } finally {
        inTheMaking.delete(id)
      }
    },

    isAtWork(id, hasLock) {
      const entry = entries.get(id)
      return inTheMaking.has(id) || entry?.destroying !== undefined || (!hasLock && entry?.isTaken === true)
    },
  }
}

const tooManyWait = ({ id, name }: Workspace): AppError =>
  new AppError('ERR_BUSY', `Too many calls wait for the workspace '${name}'; call again when they are done`, {
    workspace_id: id,
    retry_after_ms: 1_000,
  })
