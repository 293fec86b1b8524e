import fc from 'fast-check'
import { expect, it } from 'vitest'
import { limits } from '../contract/limits.ts'
import { localOwner, tenantId } from '../contract/principal.ts'
import { canonicalJson, type Json } from '../kernel/canonical-json.ts'
import { type CallEntry, createDigester, createReadEntries, digest, toLogEntry } from './call-entry.ts'
import { recordedCalls } from './recorded-calls.ts'

const text = fc.string({ unit: 'grapheme' })
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
const body = fc.dictionary(text, fc.jsonValue() as fc.Arbitrary<Json>)

const entries: fc.Arbitrary<CallEntry> = fc
  .record({
    callId: text,
    atMs: fc.integer({ min: 0, max: 4e12 }),
    actor: text,
    tenant: text,
    keyId: optional(text),
    transport: text,
    tool: text,
    via: optional(text),
    outputDigest: optional(fc.constantFrom('sha256:00', 'sha256:01')),
    outcome: fc.constantFrom('ok', 'refused', 'failed', 'cancelled'),
    code: optional(text),
    durationMs: fc.double({ min: 0, max: 1e7, noNaN: true }),
    decisions: fc.array(
      fc.record(
        { stage: text, verdict: fc.constantFrom('allow', 'deny', 'untrusted'), tool: text, policy: text, reason: text },
        { requiredKeys: ['stage', 'verdict'] },
      ),
      { maxLength: 2 },
    ),
    effects: fc.array(fc.record({ kind: text, body, subject: optional(text), hash: optional(text) }), { maxLength: 2 }),
    content: optional(fc.record({ input: fc.jsonValue(), output: fc.jsonValue() })),
  })
  .map(({ actor, tenant, keyId, ...rest }) => {
    const principal = { ...localOwner, actor, tenant: tenantId(tenant), ...(keyId === undefined ? {} : { keyId }) }
    return { ...rest, principal, inputDigest: 'sha256:ff' } as unknown as CallEntry
  })

it('writes the canonical form of what it says, whatever is in it', () => {
  fc.assert(
    fc.property(entries, (entry) => {
      const { record } = toLogEntry(entry)
      const parsed = JSON.parse(record) as Record<string, unknown>
      expect(canonicalJson(parsed)).toBe(record)
      expect(parsed).toMatchObject({ call_id: entry.callId, tool: entry.tool, tenant: entry.principal.tenant, v: 1 })
      for (const [index, effect] of entry.effects.entries()) {
        const written = (parsed['effects'] as Record<string, unknown>[])[index]!
        expect(canonicalJson(written)).toBe(canonicalJson(effect))
      }
      expect(parsed['decisions'] ?? []).toEqual(entry.decisions)
      expect(parsed['principal']).toMatchObject({ actor: entry.principal.actor, role: 'admin', tier: 'operator' })
      expect(parsed['output']).toBe(entry.outputDigest)
      expect(parsed['duration_ms']).toBeCloseTo(entry.durationMs, 2)
    }),
  )
})

const readsOf = (calls: readonly CallEntry[]): CallEntry[] => {
  const principal = { ...localOwner, tenant: tenantId('one') }
  return calls.map((call) => ({ ...call, principal, effects: [] }))
}

function toReadEntries(reads: readonly CallEntry[]) {
  const made = createReadEntries()
  for (const read of reads) made.add(read)
  return made.toLogEntries()
}

type Parsed = Record<string, unknown> & { calls?: Record<string, unknown>[] }

const sharable = [
  ...(['atMs', 'code', 'content', 'decisions', 'inputDigest', 'outcome', 'outputDigest', 'principal', 'tool'] as const),
  ...(['transport', 'via'] as const),
]

/** Reads that have some members of the read before them. */
const likeReads = fc
  .array(fc.tuple(entries, fc.subarray(sharable), fc.nat(9)), { minLength: 1, maxLength: 5 })
  .map((drawn) => {
    let before: Partial<CallEntry> = {}
    return drawn.map(([entry, shared, number], index) => {
      const principal = { ...localOwner, tenant: tenantId('one'), keyId: `key${number}` }
      const own: CallEntry = { ...entry, inputDigest: `sha256:${number}`, principal, effects: [] }
      const read = {
        ...own,
        ...Object.fromEntries(shared.map((name) => [name, index === 0 ? own[name] : before[name]])),
      }
      before = read
      return read as CallEntry
    })
  })

it('says of calls in one entry exactly what an entry of their own would say, in order', () => {
  fc.assert(
    fc.property(likeReads, (reads) => {
      const alone = reads.map((call) => JSON.parse(toLogEntry(call).record) as Parsed)
      const [entry, ...rest] = toReadEntries(reads)
      expect(rest).toEqual([])
      const parsed = JSON.parse(entry!.record) as Parsed
      expect(canonicalJson(parsed)).toBe(entry!.record)
      expect(entry).toMatchObject({ atMs: reads[0]!.atMs, taskNumber: null, recordHash: null })
      if (reads.length === 1) {
        expect(parsed).toEqual(alone[0])
        return
      }
      const { calls: listed, ...head } = parsed
      expect(head).toEqual({ at: alone[0]!['at'], kind: 'reads', tenant: 'one', v: 2 })
      expect(listed).toHaveLength(reads.length)
      expect(recordedCalls(entry!.record)).toEqual(alone)
    }),
  )
})

it('reads the first version of a list, in which each call says everything', () => {
  fc.assert(
    fc.property(likeReads, (reads) => {
      const alone = reads.map((call) => JSON.parse(toLogEntry(call).record) as Parsed)
      const calls = alone.map(({ kind: _kind, tenant: _tenant, v: _v, ...own }) => own)
      expect(recordedCalls(JSON.stringify({ calls, kind: 'reads', tenant: 'one', v: 1 }))).toEqual(alone)
    }),
  )
})

it('makes no entry longer than its bound, but for a call that is longer alone', () => {
  const lengths = fc.array(fc.integer({ min: 0, max: limits.readsEntryCharsMax * 1.5 }), { minLength: 1, maxLength: 8 })
  fc.assert(
    fc.property(lengths, fc.sample(entries, 1).map(fc.constant)[0]!, (found, sample) => {
      const reads = readsOf(
        found.map((length, index) => ({
          ...sample,
          callId: `c${index}`,
          content: { input: '', output: 'x'.repeat(length) },
        })),
      )
      const records = toReadEntries(reads).map(({ record }) => JSON.parse(record) as Parsed)
      const ids = records.flatMap((record) => record.calls?.map((call) => call['call_id']) ?? [record['call_id']])
      expect(ids).toEqual(reads.map((call) => call.callId))
      for (const record of records.filter(({ calls }) => calls !== undefined)) {
        expect(record.calls!.length).toBeGreaterThan(1)
        expect(JSON.stringify(record.calls).length - 2).toBeLessThanOrEqual(
          limits.readsEntryCharsMax + record.calls!.length,
        )
      }
    }),
    { numRuns: 30 },
  )
})

it('leaves out a call without canonical form, and says of the others all that there is', () => {
  fc.assert(
    fc.property(likeReads, fc.nat(5), (reads, at) => {
      const broken = { ...reads[0]!, content: { input: Number.NaN, output: null } }
      const made = createReadEntries()
      for (const [index, read] of reads.entries()) {
        if (index === at) expect(() => made.add(broken)).toThrow('no JSON form')
        made.add(read)
      }
      expect(made.toLogEntries()).toEqual(toReadEntries(reads))
    }),
  )
})

it('says of a decision about a name without canonical form what can be said', () => {
  const [call] = fc.sample(entries, 1)
  const decisions = [{ stage: 'policy', verdict: 'deny' as const, tool: 'send\ud800', reason: 'no\udfff' }]
  const { record } = toLogEntry({ ...call!, decisions })
  expect((JSON.parse(record) as Parsed)['decisions']).toEqual([
    { ...decisions[0], tool: 'send\ufffd', reason: 'no\ufffd' },
  ])
})

it('digests each text as if there were no other', () => {
  const digestOf = createDigester()
  const texts = fc.array(fc.constantFrom('', 'a', 'b', 'x'.repeat(5_000)), { maxLength: 20 })
  fc.assert(fc.property(texts, (some) => void expect(some.map((one) => digestOf(one))).toEqual(some.map(digest))))
})
