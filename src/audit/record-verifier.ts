import { isUtf8 } from 'node:buffer'
import { canonicalJson } from '../kernel/canonical-json.ts'
import { sha256Hex } from '../kernel/hash.ts'
import { isCanonicalText } from './canonical-record.ts'
import { createMemberSpans, type MemberSpans, scanCanonicalObject } from './canonical-scan.ts'
import { createEntryTimes } from './entry-times.ts'
import { checkThoughtAlone, createThoughtChains } from './thought-chain.ts'
import { fail } from './verify-problem.ts'

export type RecordVerifier = Readonly<{
  /**
   * Checks one entry, given as a zero byte followed by the record's bytes, in the order of the log.
   * Throws a VerifyFailure that names the first rule it breaks.
   */
  check(prefixed: Buffer, seq: number, line: number): void
  thoughtCount(): number
  thoughtTaskCount(): number
  /** Entries that ended before one ahead of them began: the proofs hold, but this is worth a warning. */
  timeReversals(): Readonly<{ count: number; firstSeq: number | undefined }>
}>

type Members = Readonly<Record<string, unknown>>

/** `alone`: earlier entries are not available, so links between entries are not checked. */
export function createRecordVerifier(tenant: string, { alone = false } = {}): RecordVerifier {
  const chains = createThoughtChains()
  const checkThought = alone ? checkThoughtAlone : chains.check
  const times = createEntryTimes()

  const checkEffect = (effect: unknown, position: number, seq: number, line: number): void => {
    const field = `effects[${position}]`
    if (!isMembers(effect) || typeof effect['kind'] !== 'string' || !isMembers(effect['body'])) {
      fail('effect-shape', `Entry ${seq}: ${field} must have a kind and a body.`, { line, seq, field })
    }
    const { kind, hash, body } = effect as { kind: string; hash: unknown; body: Members }
    if (kind !== 'thought_recorded') {
      if (hash !== undefined && !isBodyHash(hash, body)) {
        fail('effect-hash', `Entry ${seq}: ${field}.hash is not the hash of its body.`, {
          line,
          seq,
          field: `${field}.hash`,
          expected: sha256Hex(canonicalJson(body)),
          actual: hash,
        })
      }
      return
    }
    const problem = checkThought(body)
    if (problem !== undefined) {
      const { rule, expected, actual } = problem
      const location = { line, seq, field: `${field}.body.${problem.field}`, expected, actual }
      fail(rule, `Entry ${seq}: ${location.field} should be ${JSON.stringify(expected)}.`, location)
    }
    if (hash !== body['hash']) {
      fail('effect-hash', `Entry ${seq}: ${field}.hash is not the hash of its thought.`, {
        line,
        seq,
        field: `${field}.hash`,
        expected: body['hash'],
        actual: hash,
      })
    }
  }

  const spans = createMemberSpans(['at', 'effects', 'kind', 'tenant', 'v', 'calls'])
  const tenantText = Buffer.from(JSON.stringify(tenant), 'utf8')

  return {
    check(prefixed, seq, line) {
      if (!isUtf8(prefixed)) fail('record-encoding', `Entry ${seq} is not UTF-8 text.`, { line, seq })
      const record = readQuickly(prefixed, spans, tenantText) ?? readFully(prefixed, tenant, seq, line)
      times.see(record.at, seq, () => JSON.parse(prefixed.toString('utf8', 1)))
      const { effects } = record
      if (effects === undefined) return
      for (let index = 0; index < effects.length; index++) checkEffect(effects[index], index, seq, line)
    },
    thoughtCount: chains.thoughtCount,
    thoughtTaskCount: chains.taskCount,
    timeReversals: times.reversals,
  }
}

type CheckedRecord = Readonly<{ at: string; effects: readonly unknown[] | undefined }>

/** The common case, several times faster than parsing. Gives up on everything else, including everything wrong. */
function readQuickly(prefixed: Buffer, spans: MemberSpans, tenantText: Buffer): CheckedRecord | undefined {
  if (!scanCanonicalObject(prefixed, 1, spans)) return undefined
  const { starts, ends } = spans
  const [at, effects, kind, tenant, version] = [starts[0]!, starts[1]!, starts[2]!, starts[3]!, starts[4]!]
  const [atEnd, effectsEnd, tenantEnd, versionEnd] = [ends[0]!, ends[1]!, ends[3]!, ends[4]!]
  if (prefixed[at] !== 0x22 || prefixed[kind] !== 0x22 || tenant < 0) return undefined
  if (tenantText.compare(prefixed, tenant, tenantEnd) !== 0) return undefined
  // The full check decides what an entry for several calls must be.
  const isReads = readsText.compare(prefixed, kind, ends[2]!) === 0
  const isKnown = prefixed[version] === 0x31 || (isReads && prefixed[version] === 0x32)
  if (!isKnown || versionEnd !== version + 1) return undefined
  if (isReads !== starts[5]! >= 0 || (isReads && !isListOfReads(prefixed, spans))) return undefined
  const time = prefixed.toString('latin1', at + 1, atEnd - 1)
  if (effects < 0) return { at: time, effects: undefined }
  if (prefixed[effects] !== 0x5b) return undefined
  return { at: time, effects: JSON.parse(prefixed.toString('utf8', effects, effectsEnd)) }
}

const readsText = Buffer.from('"reads"', 'latin1')

/** A list that begins with an object, and no effects. */
function isListOfReads(prefixed: Buffer, { starts }: MemberSpans): boolean {
  const [effects, calls] = [starts[1]!, starts[5]!]
  return effects < 0 && prefixed[calls] === 0x5b && prefixed[calls + 1] === 0x7b
}

/** Says exactly what is wrong, and handles what the quick check does not support. */
function readFully(prefixed: Buffer, tenant: string, seq: number, line: number): CheckedRecord {
  const record = parseRecord(prefixed, seq, line)
  checkShape(record, seq, line)
  if (record['tenant'] !== tenant) {
    fail('record-tenant', `Entry ${seq} names a different tenant than its log.`, {
      line,
      seq,
      field: 'tenant',
      expected: tenant,
      actual: record['tenant'],
    })
  }
  return { at: record['at'] as string, effects: record['effects'] as readonly unknown[] | undefined }
}

function parseRecord(prefixed: Buffer, seq: number, line: number): unknown {
  const text = prefixed.toString('utf8', 1)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return fail('record-json', `Entry ${seq} is not JSON.`, { line, seq })
  }
  if (!isCanonicalText(text, value)) {
    fail('record-canonical', `Entry ${seq} is not in canonical form (RFC 8785), so it was rewritten.`, { line, seq })
  }
  return value
}

function checkShape(record: unknown, seq: number, line: number): asserts record is Members {
  if (!isMembers(record)) return fail('record-shape', `Entry ${seq} is not an object.`, { line, seq })
  const versions = record['kind'] === 'reads' ? [1, 2] : [1]
  if (!versions.includes(record['v'] as number)) {
    const message = `Entry ${seq} has record version ${JSON.stringify(record['v'])}; this verifier knows ${versions.join(' and ')}.`
    fail('record-shape', message, { line, seq, field: 'v', expected: versions, actual: record['v'] })
  }
  for (const field of ['kind', 'tenant', 'at']) {
    if (typeof record[field] !== 'string') {
      fail('record-shape', `Entry ${seq}: ${field} must be a string.`, { line, seq, field, actual: record[field] })
    }
  }
  if (record['effects'] !== undefined && !Array.isArray(record['effects'])) {
    fail('record-shape', `Entry ${seq}: effects must be a list.`, { line, seq, field: 'effects' })
  }
  if (record['kind'] !== 'reads' && record['calls'] === undefined) return
  const { kind, calls, effects } = record
  if (kind !== 'reads' || !Array.isArray(calls) || !isMembers(calls[0]) || effects !== undefined) {
    const message = `Entry ${seq}: a record of several calls must have the kind reads, a list of calls and no effects.`
    fail('record-shape', message, { line, seq, field: 'calls' })
  }
}

/** The record is canonical, so plain serialisation is canonical too, except for keys that look like array indexes. */
const isBodyHash = (hash: unknown, body: Members): boolean =>
  sha256Hex(JSON.stringify(body)) === hash || sha256Hex(canonicalJson(body)) === hash

const isMembers = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
