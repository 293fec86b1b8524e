import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createWalSync } from './wal-sync.ts'

let directory: string
let databasePath: string
let started: ((error: Error | null) => void)[]
let errors: string[]
const logger = { debug() {}, info() {}, warn() {}, error: (message: string) => void errors.push(message) }
const heldSync = () =>
  createWalSync({ databasePath, logger, sync: (_, callback) => void started.push((error) => callback(error)) })

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'castellan-wal-sync-'))
  databasePath = join(directory, 'castellan.db')
  writeFileSync(`${databasePath}-wal`, 'frames')
  started = []
  errors = []
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

const isSettled = async (work: Promise<unknown>): Promise<boolean> =>
  await Promise.race([
    work.then(
      () => true,
      () => true,
    ),
    new Promise<boolean>((resolve) => setImmediate(() => resolve(false))),
  ])

it('covers a commit with a sync that began after it, one at a time', async () => {
  const walSync = heldSync()
  walSync.start()
  const first = walSync.synced()
  walSync.start()
  walSync.start()
  const second = walSync.synced()
  expect(started).toHaveLength(1)
  started[0]!(null)
  await first
  expect(await isSettled(second)).toBe(false)
  expect(started).toHaveLength(2)
  started[1]!(null)
  await second
  await walSync.close()
})

it('says at once that nothing waits for the disk', async () => {
  const walSync = heldSync()
  expect(await isSettled(walSync.synced())).toBe(true)
  await walSync.close()
})

it('reports a failed sync until one succeeds', async () => {
  const walSync = heldSync()
  walSync.start()
  const synced = walSync.synced()
  started[0]!(new Error('EIO'))
  await expect(synced).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' })
  expect(walSync.problem()).toContain('could not be synced')
  expect(errors).toHaveLength(1)
  walSync.start()
  started[1]!(null)
  await walSync.synced()
  expect(walSync.problem()).toBeUndefined()
  await walSync.close()
})

it('reports a log that is not there', async () => {
  rmSync(`${databasePath}-wal`)
  const walSync = createWalSync({ databasePath, logger })
  walSync.start()
  await expect(walSync.synced()).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' })
  await walSync.close()
})

it('syncs the real file, and closing waits for that', async () => {
  const walSync = createWalSync({ databasePath, logger })
  walSync.start()
  await walSync.close()
  await walSync.synced()
  expect(errors).toEqual([])
})
