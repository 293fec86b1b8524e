import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import { localOwner } from '../contract/principal.ts'
import type { ReadTx } from '../contract/tx.ts'
import { generateKey, openCheckpoint, parseSignerKey } from './checkpoint.ts'
import { createLogGuard } from './log-guard.ts'

const peak = createHash('sha256').update('entry').digest()
const signer = parseSignerKey(generateKey('test-log').signerKey)
const logger = { debug() {}, info() {}, warn() {}, error() {} }

/** A log with one entry, whose commit reaches the disk when the test says so. */
function guarded(synced: () => Promise<void>) {
  const notes: string[] = []
  const guard = createLogGuard({
    read: {} as ReadTx,
    synced,
    log: { head: async () => ({ size: 1, peaks: peak }) },
    rootAt: async () => peak,
    checkpoints: {
      read: async () => notes.at(-1),
      write: async (_, note) => void notes.push(note),
      setAside: async () => '',
      tenants: async () => [],
    },
    anchors: { find: async () => undefined, note: async () => {} },
    logId: 'test',
    signer,
    logger,
  })
  return { guard, notes }
}

it('signs nothing and stores no checkpoint before the log is on disk', async () => {
  const disk = Promise.withResolvers<void>()
  const { guard, notes } = guarded(() => disk.promise)
  let signed: string | undefined
  const signing = guard.sign(localOwner.tenant, { size: 1, root: peak }).then((note) => {
    signed = note
  })
  await new Promise((resolve) => setImmediate(resolve))
  expect([notes, signed]).toEqual([[], undefined])
  disk.resolve()
  await signing
  expect(notes).toHaveLength(1)
  expect(openCheckpoint(signed!, signer.verifierKey)).toMatchObject({ size: 1 })
})

it('refuses to sign if the disk fails', async () => {
  const { guard, notes } = guarded(() => Promise.reject(new Error('EIO')))
  await expect(guard.sign(localOwner.tenant, { size: 1, root: peak })).rejects.toThrow('EIO')
  expect(notes).toEqual([])
  expect(guard.halted()).toEqual([])
})
