import type { EffectRecord } from '../contract/call.ts'
import type { Principal } from '../contract/principal.ts'
import { canonicalJson } from '../kernel/canonical-json.ts'
import { isoTime } from '../kernel/clock.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { NewLogEntry } from './ports.ts'

export type CallOutcome = 'ok' | 'refused' | 'failed' | 'cancelled'

export type CallEntry = Readonly<{
  callId: string
  atMs: number
  principal: Principal
  door: string
  tool: string
  /** The tool through which it was reached, when not called by its own name. */
  via?: string
  inputDigest: string
  outputDigest?: string
  outcome: CallOutcome
  code?: string
  durationMs: number
  effects: readonly EffectRecord[]
  /** Arguments and answer themselves, for tools whose definition asks for them. */
  content?: Readonly<{ input: unknown; output: unknown }>
}>

export const digest = (text: string): string => `sha256:${sha256Hex(text)}`

/**
 * The log entry of one call. A call leaves exactly one entry, and what it brought about is inside, so an effect and its
 * record cannot part. At most one of its effects is a trail record.
 */
export function toLogEntry(call: CallEntry): NewLogEntry {
  const { principal } = call
  const trail = call.effects.find((effect) => effect.subject !== undefined)
  const record = canonicalJson({
    v: 1,
    kind: 'call',
    call_id: call.callId,
    at: isoTime(call.atMs),
    tenant: principal.tenant,
    principal: {
      actor: principal.actor,
      kind: principal.kind,
      role: principal.role,
      tier: principal.tier,
      key_id: principal.keyId,
      agent: principal.agent,
      execution_id: principal.executionId,
    },
    door: call.door,
    tool: call.tool,
    via: call.via,
    input: call.inputDigest,
    output: call.outputDigest,
    outcome: call.outcome,
    code: call.code,
    duration_ms: Math.round(call.durationMs * 1000) / 1000,
    effects: call.effects.length === 0 ? undefined : call.effects,
    content: call.content,
  })
  return {
    atMs: call.atMs,
    record,
    taskNumber: trail?.subject === undefined ? null : Number(trail.subject.slice(trail.subject.indexOf(':') + 1)),
    recordHash: trail?.hash ?? null,
  }
}
