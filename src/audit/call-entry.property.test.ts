import fc from 'fast-check'
import { expect, it } from 'vitest'
import { localOwner, tenantId } from '../contract/principal.ts'
import { canonicalJson, type Json } from '../kernel/canonical-json.ts'
import { type CallEntry, toLogEntry } from './call-entry.ts'

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
    door: text,
    tool: text,
    via: optional(text),
    outputDigest: optional(fc.constant('sha256:00')),
    outcome: fc.constantFrom('ok', 'refused', 'failed', 'cancelled'),
    code: optional(text),
    durationMs: fc.double({ min: 0, max: 1e7, noNaN: true }),
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
      expect(parsed['principal']).toMatchObject({ actor: entry.principal.actor, role: 'admin', tier: 'operator' })
      expect(parsed['duration_ms']).toBeCloseTo(entry.durationMs, 2)
    }),
  )
})
