import { counted } from '../kernel/counted.ts'
import { type Checkpoint, originTenant } from './checkpoint.ts'
import type { DocumentReader } from './document-reader.ts'
import { createRecordVerifier, type RecordVerifier } from './record-verifier.ts'
import { appendLeaf, emptyHead, hashLeafInput, rootOf, type TreeHead } from './tree.ts'
import type { VerifyOptions } from './verify-input.ts'
import { fail, openDocumentCheckpoint, VerifyFailure } from './verify-problem.ts'

type VerifyWarning = Readonly<{ rule: 'time-backwards'; message: string; count: number; seq: number }>

export type ExportVerified = Readonly<{
  kind: 'export'
  origin: string
  tenant: string
  size: number
  root: string
  records: number
  thoughts: number
  tasksWithThoughts: number
  bytesRead: number
  warnings: readonly VerifyWarning[]
}>

type Members = Readonly<Record<string, unknown>>

export async function verifyExport(
  header: Members,
  reader: DocumentReader,
  options: VerifyOptions,
): Promise<ExportVerified> {
  const { checkpoint, tenant } = checkHeader(header, options)
  const known = openKnownCheckpoint(options, checkpoint)
  const records = createRecordVerifier(tenant)
  const head = await readRecords({ reader, records, checkpoint, known, options })
  const root = rootOf(head.size, head.peaks)
  if (!root.equals(checkpoint.root)) {
    const trusted = known === undefined ? 0 : known.size
    fail(
      'root',
      `The entries do not match the signed checkpoint. An entry from ${trusted} to ${head.size - 1} was changed.`,
      {
        field: 'root',
        expected: checkpoint.root.toString('hex'),
        actual: root.toString('hex'),
      },
    )
  }
  return {
    kind: 'export',
    origin: checkpoint.origin,
    tenant,
    size: head.size,
    root: root.toString('hex'),
    records: head.size,
    thoughts: records.thoughtCount(),
    tasksWithThoughts: records.thoughtTaskCount(),
    bytesRead: reader.bytesRead(),
    warnings: warningsOf(records),
  }
}

function checkHeader(header: Members, { verifier, key }: VerifyOptions): { checkpoint: Checkpoint; tenant: string } {
  const line = 1
  for (const [field, type] of headerFields) {
    if (typeof header[field] !== type) {
      fail('header', `The header's ${field} must be a ${type}.`, { line, field, actual: header[field] })
    }
  }
  if (header['key'] !== key) {
    const message = 'The export names a different key than the one given for verification.'
    fail('wrong-key', message, { line, field: 'key', expected: key, actual: header['key'] })
  }
  const checkpoint = openDocumentCheckpoint(header['checkpoint'] as string, verifier, { line, field: 'checkpoint' })
  if (header['origin'] !== checkpoint.origin) {
    const message = 'The header and the signed checkpoint name different logs.'
    fail('checkpoint-origin', message, {
      line,
      field: 'origin',
      expected: checkpoint.origin,
      actual: header['origin'],
    })
  }
  if (header['size'] !== checkpoint.size) {
    const message = 'The header and the signed checkpoint name different sizes.'
    fail('checkpoint-size', message, { line, field: 'size', expected: checkpoint.size, actual: header['size'] })
  }
  const tenant = originTenant(checkpoint.origin)
  if (tenant === undefined || header['tenant'] !== tenant) {
    const message = 'The header and the signed checkpoint name different tenants.'
    fail('tenant', message, { line, field: 'tenant', expected: tenant, actual: header['tenant'] })
  }
  return { checkpoint, tenant }
}

const headerFields = [
  ['origin', 'string'],
  ['tenant', 'string'],
  ['size', 'number'],
  ['checkpoint', 'string'],
  ['key', 'string'],
] as const

function openKnownCheckpoint(options: VerifyOptions, checkpoint: Checkpoint): Checkpoint | undefined {
  if (options.knownCheckpoint === undefined) return undefined
  const known = openDocumentCheckpoint(options.knownCheckpoint, options.verifier, { field: 'known checkpoint' })
  if (known.origin !== checkpoint.origin) {
    const message = 'The known checkpoint and this export are of different logs.'
    fail('known-checkpoint', message, { field: 'origin', expected: known.origin, actual: checkpoint.origin })
  }
  if (known.size > checkpoint.size) {
    const message = `The known checkpoint covers ${counted(known.size, 'entry', 'entries')}, but the export has ${checkpoint.size}. The end of the log was cut off.`
    fail('known-checkpoint', message, { field: 'size', expected: known.size, actual: checkpoint.size })
  }
  return known
}

type RecordsInput = Readonly<{
  reader: DocumentReader
  records: RecordVerifier
  checkpoint: Checkpoint
  known: Checkpoint | undefined
  options: VerifyOptions
}>

async function readRecords({ reader, records, checkpoint, known, options }: RecordsInput): Promise<TreeHead> {
  const { scanner } = reader
  const { size } = checkpoint
  let head: TreeHead = emptyHead
  checkKnown(known, head)

  const covered = `The checkpoint covers ${counted(size, 'entry', 'entries')}`
  const take = (prefixed: Buffer): void => {
    const seq = head.size
    const line = seq + 2
    if (seq === size) {
      fail('extra-record', `${covered}, but line ${line} contains one more.`, { line, seq })
    }
    records.check(prefixed, seq, line)
    head = appendLeaf(head, hashLeafInput(prefixed)).head
    checkKnown(known, head)
  }

  do {
    for (let line = scanner.next(); line !== undefined; line = scanner.next()) take(line)
    options.onProgress?.({ bytesRead: reader.bytesRead(), records: head.size, size })
  } while (await reader.fill())
  const last = scanner.rest()
  if (last !== undefined) takeUnended(last, take, head.size)
  if (head.size < size) {
    fail('truncated', `${covered}, but the file ends after ${head.size}.`, {
      line: head.size + 2,
      seq: head.size,
      expected: size,
      actual: head.size,
    })
  }
  options.onProgress?.({ bytesRead: reader.bytesRead(), records: head.size, size })
  return head
}

/** A last line without a line feed is complete or truncated; a truncated line is not JSON. */
function takeUnended(line: Buffer, take: (line: Buffer) => void, seq: number): void {
  try {
    take(line)
  } catch (error) {
    const rule = error instanceof VerifyFailure ? error.problem.rule : undefined
    if (rule !== 'record-json' && rule !== 'record-encoding') throw error
    fail('truncated', `The file ends in the middle of entry ${seq}.`, { line: seq + 2, seq })
  }
}

function checkKnown(known: Checkpoint | undefined, head: TreeHead): void {
  if (known === undefined || known.size !== head.size) return
  const root = rootOf(head.size, head.peaks)
  if (root.equals(known.root)) return
  fail(
    'known-checkpoint',
    `The log does not match the known checkpoint of its first ${counted(known.size, 'entry', 'entries')}. History was rewritten.`,
    {
      field: 'root',
      expected: known.root.toString('hex'),
      actual: root.toString('hex'),
    },
  )
}

function warningsOf(records: RecordVerifier): VerifyWarning[] {
  const { count, firstSeq } = records.timeReversals()
  if (firstSeq === undefined) return []
  const message = `By their times, ${counted(count, 'entry', 'entries')} ended before an earlier entry began, first entry ${firstSeq}. The clock was set back, or the times are false.`
  return [{ rule: 'time-backwards', message, count, seq: firstSeq }]
}
