import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { thoughtHash } from '../../audit/thought-chain.ts'
import { canonicalJson, type Json } from '../../kernel/canonical-json.ts'
import { isoTime } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { formatTaskId } from '../tasks/rules.ts'
import { type Thought, thoughtTypes } from './ports.ts'
import { thoughtBody, thoughtTexts } from './thought-hash.ts'

const text = fc.string({ unit: 'grapheme' })
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null })
const hash = fc.stringMatching(/^[0-9a-f]{64}$/)

const thoughts: fc.Arbitrary<Thought> = fc.record({
  number: fc.integer({ min: 1, max: 10_000_000 }),
  taskNumber: fc.integer({ min: 1, max: 10_000_000 }),
  chainPosition: fc.integer({ min: 1 }),
  logSeq: fc.nat(),
  type: fc.constantFrom(...thoughtTypes),
  content: text,
  branch: optional(text),
  commitSha: optional(text),
  testsRun: optional(fc.array(text)),
  blockers: optional(fc.array(text)),
  metadata: optional(fc.dictionary(text, fc.jsonValue()) as fc.Arbitrary<Record<string, Json>>),
  hash,
  previousHash: optional(hash),
  recordedAtMs: fc.integer({ min: 0, max: 4_000_000_000_000 }),
  recordedBy: text,
})

describe('the texts of a thought', () => {
  it('are those that the log and the hash of the document are made from', () => {
    fc.assert(
      fc.property(thoughts, (thought) => {
        const { head, tail, hashed } = thoughtTexts(thought)
        const effect = {
          kind: 'thought_recorded',
          subject: `task:${thought.taskNumber}`,
          hash: thought.hash,
          body: thoughtBody(thought),
        }
        expect(`${head}Θ${tail}`).toBe(canonicalJson(effect))
        const fields = {
          task_id: formatTaskId(thought.taskNumber),
          type: thought.type,
          content: thought.content,
          previous_hash: thought.previousHash,
          recorded_at: isoTime(thought.recordedAtMs),
          recorded_by: thought.recordedBy,
        }
        expect(sha256Hex(hashed)).toBe(thoughtHash(fields))
      }),
    )
  })
})
