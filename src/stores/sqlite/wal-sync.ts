import { closeSync, fdatasync, openSync } from 'node:fs'
import { AppError } from '../../contract/app-error.ts'
import type { Logger } from '../../kernel/logger.ts'

/**
 * Brings commits that nobody waits for to disk from the thread pool, so that the main thread does not wait for the disk.
 *
 * 1. Each sync covers the whole write-ahead log, so also every commit before the last one.
 * 2. One sync runs at a time. Commits that are made meanwhile are covered by the next one.
 */
export type WalSync = Readonly<{
  /** Call this after such a commit. */
  start(): void
  /** Resolves when every commit that was made so far is on disk; rejects if that failed. */
  synced(): Promise<void>
  problem(): string | undefined
  close(): Promise<void>
}>

type Sync = (file: number, callback: (error: Error | null) => void) => void

export function createWalSync(deps: { databasePath: string; logger: Logger; sync?: Sync }): WalSync {
  const sync = deps.sync ?? fdatasync
  let file: number | undefined
  let running: Promise<void> | undefined
  let next: Promise<void> | undefined
  let failure: Error | undefined

  /** The file exists after the first commit, and stays the same until the last connection is closed. */
  const openFile = (): number => openSync(`${deps.databasePath}-wal`, 'r')

  const syncOnce = (): Promise<void> =>
    new Promise((resolve) => {
      const settle = (error: Error | null): void => {
        if (error !== null) deps.logger.error('records could not be synced to disk', { cause: String(error) })
        failure = error ?? undefined
        running = undefined
        resolve()
      }
      try {
        file ??= openFile()
        sync(file, settle)
      } catch (error) {
        settle(error as Error)
      }
    })

  const run = (): Promise<void> => {
    next = undefined
    const started = syncOnce()
    running = started
    return started
  }

  /** A sync that began before a commit need not cover it. */
  const begin = (): Promise<void> => {
    if (running === undefined) return run()
    next ??= running.then(run)
    return next
  }

  return {
    start: () => void begin(),
    async synced() {
      await (next ?? running)
      if (failure !== undefined) throw notSynced(failure)
    },
    problem: () => (failure === undefined ? undefined : 'The last records could not be synced; see the server log.'),
    async close() {
      await (next ?? running)
      if (file !== undefined) closeSync(file)
      file = undefined
    },
  }
}

const notSynced = (cause: Error): AppError =>
  new AppError(
    'ERR_STORE_UNAVAILABLE',
    'The last entries of the log could not be synced to disk. Check the disk, then call again.',
    {},
    { cause },
  )
