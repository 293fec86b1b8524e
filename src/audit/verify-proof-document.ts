import { counted } from '../kernel/counted.ts'
import { type Checkpoint, originTenant } from './checkpoint.ts'
import { verifyConsistency, verifyInclusion } from './proof.ts'
import { createRecordVerifier } from './record-verifier.ts'
import { leafHash } from './tree.ts'
import type { VerifyOptions } from './verify-input.ts'
import { fail, openDocumentCheckpoint } from './verify-problem.ts'

export type InclusionVerified = Readonly<{
  kind: 'inclusion'
  origin: string
  tenant: string
  size: number
  root: string
  index: number
  record: string
}>

export type ConsistencyVerified = Readonly<{
  kind: 'consistency'
  origin: string
  oldSize: number
  oldRoot: string
  size: number
  root: string
}>

type Members = Readonly<Record<string, unknown>>

export function verifyProofDocument(document: Members, options: VerifyOptions): InclusionVerified {
  checkFields(document, { checkpoint: 'string', index: 'number', size: 'number', record: 'string' }, options)
  const { index, size, record } = document as { index: number; size: number; record: string }
  const checkpoint = openDocumentCheckpoint(document['checkpoint'] as string, options.verifier, { field: 'checkpoint' })
  if (size !== checkpoint.size) {
    const message = 'The document and the signed checkpoint name different sizes.'
    fail('checkpoint-size', message, { field: 'size', expected: checkpoint.size, actual: size })
  }
  const tenant = originTenant(checkpoint.origin)
  if (tenant === undefined) {
    const message = 'The checkpoint is not one of a Castellan log.'
    fail('checkpoint-origin', message, { field: 'origin', actual: checkpoint.origin })
  }
  checkRecord(record, tenant, index)
  const claim = { index, size, leaf: leafHash(record), proof: proofHashes(document), root: checkpoint.root }
  if (!verifyInclusion(claim)) {
    fail('inclusion', `The proof does not show that the record is entry ${index} of the signed log.`, {
      seq: index,
      field: 'hashes',
    })
  }
  checkKnownCheckpoint(options, checkpoint)
  return {
    kind: 'inclusion',
    origin: checkpoint.origin,
    tenant,
    size,
    root: checkpoint.root.toString('hex'),
    index,
    record,
  }
}

export function verifyConsistencyDocument(document: Members, options: VerifyOptions): ConsistencyVerified {
  checkFields(document, { old: 'string', new: 'string' }, options)
  const oldCheckpoint = openDocumentCheckpoint(document['old'] as string, options.verifier, { field: 'old' })
  const newCheckpoint = openDocumentCheckpoint(document['new'] as string, options.verifier, { field: 'new' })
  if (oldCheckpoint.origin !== newCheckpoint.origin) {
    fail('checkpoint-origin', 'The two checkpoints are of different logs.', {
      field: 'new',
      expected: oldCheckpoint.origin,
      actual: newCheckpoint.origin,
    })
  }
  if (oldCheckpoint.size > newCheckpoint.size) {
    const message = `The newer checkpoint covers ${counted(newCheckpoint.size, 'entry', 'entries')}, fewer than the older one. The end of the log was cut off.`
    fail('checkpoint-size', message, { field: 'new', expected: oldCheckpoint.size, actual: newCheckpoint.size })
  }
  const claim = {
    oldSize: oldCheckpoint.size,
    newSize: newCheckpoint.size,
    oldRoot: oldCheckpoint.root,
    newRoot: newCheckpoint.root,
    proof: proofHashes(document),
  }
  if (!verifyConsistency(claim)) {
    fail('consistency', 'The proof does not show that the newer log begins with the older one.', { field: 'hashes' })
  }
  checkKnownCheckpoint(options, oldCheckpoint, newCheckpoint)
  return {
    kind: 'consistency',
    origin: newCheckpoint.origin,
    oldSize: oldCheckpoint.size,
    oldRoot: oldCheckpoint.root.toString('hex'),
    size: newCheckpoint.size,
    root: newCheckpoint.root.toString('hex'),
  }
}

function checkFields(document: Members, fields: Readonly<Record<string, string>>, options: VerifyOptions): void {
  for (const [field, type] of Object.entries({ key: 'string', ...fields })) {
    if (typeof document[field] !== type) {
      fail('header', `The document's ${field} must be a ${type}.`, { field, actual: document[field] })
    }
  }
  if (document['key'] !== options.key) {
    const message = 'The document names a different key than the one given for verification.'
    fail('wrong-key', message, { field: 'key', expected: options.key, actual: document['key'] })
  }
}

function proofHashes(document: Members): Buffer[] {
  const hashes = document['hashes']
  if (!Array.isArray(hashes)) return fail('header', "The document's hashes must be a list.", { field: 'hashes' })
  return hashes.map((hash: unknown, position) => {
    const field = `hashes[${position}]`
    if (typeof hash !== 'string' || !/^[0-9a-f]{64}$/.test(hash)) {
      fail('header', `The document's ${field} must be 64 lower-case hex digits.`, { field, actual: hash })
    }
    return Buffer.from(hash as string, 'hex')
  })
}

/** A single record has no neighbours, so its position in a thought chain cannot be verified; its form and hashes are. */
function checkRecord(record: string, tenant: string, index: number): void {
  createRecordVerifier(tenant, { alone: true }).check(Buffer.from(`\0${record}`, 'utf8'), index, 1)
}

/** A saved checkpoint can be compared only with a checkpoint of the same size; other sizes need a consistency proof. */
function checkKnownCheckpoint(options: VerifyOptions, ...checkpoints: readonly Checkpoint[]): void {
  if (options.knownCheckpoint === undefined) return
  const location = { field: 'known checkpoint' }
  const known = openDocumentCheckpoint(options.knownCheckpoint, options.verifier, location)
  const same = checkpoints.find(({ origin, size }) => origin === known.origin && size === known.size)
  if (same === undefined) {
    const message = 'The document does not cover the known checkpoint. Get a consistency proof that begins there.'
    fail('known-checkpoint', message, { ...location, expected: known.size, actual: checkpoints.map((c) => c.size) })
  }
  if (!same.root.equals(known.root)) {
    fail(
      'known-checkpoint',
      `The log of size ${known.size} does not match the known checkpoint. History was rewritten.`,
      {
        ...location,
        expected: known.root.toString('hex'),
        actual: same.root.toString('hex'),
      },
    )
  }
}
