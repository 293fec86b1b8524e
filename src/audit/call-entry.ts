import type { EffectRecord } from '../contract/call.ts'
import type { Decision } from '../contract/decision.ts'
import { limits } from '../contract/limits.ts'
import type { Principal } from '../contract/principal.ts'
import { canonicalJson, canonicalString } from '../kernel/canonical-json.ts'
import { isoTime } from '../kernel/clock.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { NewLogEntry } from './ports.ts'

export type CallOutcome = 'ok' | 'refused' | 'failed' | 'cancelled'

export type CallEntry = Readonly<{
  callId: string
  atMs: number
  principal: Principal
  transport: string
  tool: string
  /** The tool through which it was called, if not by its own name. */
  via?: string
  inputDigest: string
  /** The answer: its digest, or its text if that is short and need not be digested before the call is answered. */
  output?: OutputDigest
  outcome: CallOutcome
  code?: string
  durationMs: number
  decisions: readonly Decision[]
  effects: readonly EffectRecord[]
  /** Beside their digests: the arguments and the answer of a tool whose definition asks for them, or the facts of a request to a model. */
  content?: Readonly<{ input: unknown; output: unknown }>
}>

export type OutputDigest = Readonly<{ digest: string } | { text: string }>

/** Longer answers are digested at once, because records that wait to be written would keep them in memory. */
const DIGESTED_LATER_CHARS_MAX = 1_024

export const digestLater = (text: string): OutputDigest =>
  text.length > DIGESTED_LATER_CHARS_MAX ? { digest: digest(text) } : { text }

export const digest = (text: string): string => `sha256:${sha256Hex(text)}`

/**
 * The log entry of one call. Its effects are inside, so an effect cannot be separated from its record. At most one effect is a
 * trail record.
 */
export function toLogEntry(call: CallEntry): NewLogEntry {
  const trail = call.effects.find((effect) => effect.subject !== undefined)
  return {
    atMs: call.atMs,
    record: memberText(call, false),
    taskNumber: trail?.subject === undefined ? null : Number(trail.subject.slice(trail.subject.indexOf(':') + 1)),
    recordHash: trail?.hash ?? null,
  }
}

/** The log entries of calls that only read, in order, and as few as their size allows. A single read has an ordinary entry. */
export function toReadEntries(calls: readonly CallEntry[]): NewLogEntry[] {
  const entries: NewLogEntry[] = []
  let first = 0
  let text = ''
  for (const [index, call] of calls.entries()) {
    const next = memberText(call, true)
    if (text !== '' && text.length + next.length > limits.readsEntryCharsMax) {
      entries.push(readsEntry(calls, first, index, text))
      first = index
      text = ''
    }
    text += text === '' ? next : `,${next}`
  }
  if (text !== '') entries.push(readsEntry(calls, first, calls.length, text))
  return entries
}

function readsEntry(calls: readonly CallEntry[], from: number, to: number, text: string): NewLogEntry {
  const { atMs, principal } = calls[from]!
  if (to - from === 1) return toLogEntry(calls[from]!)
  const tenant = canonicalString(principal.tenant)
  const record = `{"at":"${isoTime(atMs)}","calls":[${text}],"kind":"reads","tenant":${tenant},"v":1}`
  return { atMs, record, taskNumber: null, recordHash: null }
}

/**
 * The canonical JSON of a call, written member by member in sorted order, which is several times faster than sorting keys. Times,
 * outcomes and digests need no escaping. Members that are the same for all calls of a list are written once, in the list.
 */
function memberText(call: CallEntry, isListed: boolean): string {
  const { code, content, decisions, effects, output, via } = call
  let text = `{"at":"${isoTime(call.atMs)}","call_id":${canonicalString(call.callId)}`
  if (code !== undefined) text += `,"code":${canonicalString(code)}`
  if (content !== undefined) text += `,"content":${canonicalJson(content)}`
  if (decisions.length > 0) text += `,"decisions":[${decisions.map(decisionText).join()}]`
  text += `,"door":${canonicalString(call.transport)},"duration_ms":${Math.round(call.durationMs * 1000) / 1000}`
  if (effects.length > 0) text += `,"effects":[${effects.map(effectText).join()}]`
  text += `,"input":"${call.inputDigest}"${isListed ? '' : ',"kind":"call"'},"outcome":"${call.outcome}"`
  if (output !== undefined) text += `,"output":"${'digest' in output ? output.digest : digest(output.text)}"`
  text += `,"principal":${principalText(call.principal)}`
  if (!isListed) text += `,"tenant":${canonicalString(call.principal.tenant)}`
  text += `,"tool":${canonicalString(call.tool)}${isListed ? '' : ',"v":1'}`
  if (via !== undefined) text += `,"via":${canonicalString(via)}`
  return `${text}}`
}

function decisionText({ policy, reason, stage, tool, verdict }: Decision): string {
  let text = ''
  if (policy !== undefined) text += `"policy":${canonicalString(policy)},`
  if (reason !== undefined) text += `"reason":${canonicalString(reason)},`
  text += `"stage":${canonicalString(stage)},`
  if (tool !== undefined) text += `"tool":${canonicalString(tool)},`
  return `{${text}"verdict":"${verdict}"}`
}

function effectText({ body, bodyText, hash, kind, subject }: EffectRecord): string {
  let text = `{"body":${bodyText ?? canonicalJson(body)}`
  if (hash !== undefined) text += `,"hash":${canonicalString(hash)}`
  text += `,"kind":${canonicalString(kind)}`
  if (subject !== undefined) text += `,"subject":${canonicalString(subject)}`
  return `${text}}`
}

const principalTexts = new WeakMap<Principal, string>()

/** Principals are created once per transport and are immutable, so their text is cached. */
function principalText(principal: Principal): string {
  let text = principalTexts.get(principal)
  if (text === undefined) {
    text = canonicalJson({
      actor: principal.actor,
      kind: principal.kind,
      role: principal.role,
      tier: principal.tier,
      key_id: principal.keyId,
      user: principal.user,
      agent: principal.agent,
      gateway: principal.gateway,
      conversation_id: principal.conversationId,
      execution_id: principal.executionId,
      seal_session: principal.sealSessionId,
      virtual_key: principal.virtualKeyId,
    })
    principalTexts.set(principal, text)
  }
  return text
}
