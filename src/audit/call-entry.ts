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
  outputDigest?: string
  outcome: CallOutcome
  code?: string
  durationMs: number
  decisions: readonly Decision[]
  effects: readonly EffectRecord[]
  /** Beside their digests: the arguments and the answer of a tool whose definition asks for them, or the facts of a request to a model. */
  content?: Readonly<{ input: unknown; output: unknown }>
}>

export const digest = (text: string): string => `sha256:${sha256Hex(text)}`

/** `digest` for texts in a row of which many are short and like the one before. */
export function createDigester(): (text: string) => string {
  let last = { text: '', digest: digest('') }
  return (text) => {
    if (text === last.text) return last.digest
    const made = digest(text)
    if (text.length <= REPEATED_CHARS_MAX) last = { text, digest: made }
    return made
  }
}

const REPEATED_CHARS_MAX = 1_024

/**
 * The log entry of one call. Its effects are inside, so an effect cannot be separated from its record. At most one effect is a
 * trail record.
 */
export function toLogEntry(call: CallEntry): NewLogEntry {
  const trail = call.effects.find((effect) => effect.subject !== undefined)
  return {
    atMs: call.atMs,
    record: memberText(call),
    taskNumber: trail?.subject === undefined ? null : Number(trail.subject.slice(trail.subject.indexOf(':') + 1)),
    recordHash: trail?.hash ?? null,
  }
}

/**
 * The log entries of calls that only read, in order, and as few as their size allows. A single read has an ordinary entry. In a
 * list, a call has only what differs from the call before it (`recorded-calls.ts` reads it). A call becomes text when it is added:
 * whole calls that wait would outlive the young generation, and to collect them there costs as much as all the rest of a record.
 */
export type ReadEntries = Readonly<{
  /** Throws for a call that has no canonical form, and is as it was. */
  add(call: CallEntry): void
  toLogEntries(): readonly NewLogEntry[]
}>

/** So many texts are joined into one, which keeps nothing else alive. */
const TEXTS_MAX = 32

export function createReadEntries(): ReadEntries {
  const finished: NewLogEntry[] = []
  let first: CallEntry | undefined
  let last: CallEntry | undefined
  let texts: string[] = []
  let chars = 0

  function finish(): void {
    if (first === undefined) return
    finished.push(first === last ? toLogEntry(first) : listEntry(first, texts.join()))
    first = undefined
    texts = []
    chars = 0
  }

  return {
    add(call) {
      let text = listedText(call, first === undefined ? undefined : last)
      if (first !== undefined && chars + text.length > limits.readsEntryCharsMax) {
        finish()
        text = listedText(call, undefined)
      }
      first ??= call
      last = call
      chars += text.length + 1
      if (texts.push(text) === TEXTS_MAX) texts = [texts.join()]
    },
    toLogEntries() {
      finish()
      return finished
    },
  }
}

function listEntry({ atMs, principal }: CallEntry, texts: string): NewLogEntry {
  const tenant = canonicalString(principal.tenant)
  const record = `{"at":"${isoTime(atMs)}","calls":[${texts}],"kind":"reads","tenant":${tenant},"v":2}`
  return { atMs, record, taskNumber: null, recordHash: null }
}

/**
 * The canonical JSON of a call, written member by member in sorted order, which is several times faster than sorting keys. Times,
 * outcomes and digests need no escaping.
 */
function memberText(call: CallEntry): string {
  const { code, content, decisions, effects, outputDigest, principal, via } = call
  let text = `{"at":"${isoTime(call.atMs)}","call_id":${canonicalString(call.callId)}`
  if (code !== undefined) text += `,"code":${canonicalString(code)}`
  if (content !== undefined) text += `,"content":${canonicalJson(content)}`
  if (decisions.length > 0) text += `,"decisions":${decisionsText(decisions)}`
  text += `,"door":${canonicalString(call.transport)},"duration_ms":${durationOf(call)}`
  if (effects.length > 0) text += `,"effects":[${effects.map(effectText).join()}]`
  text += `,"input":"${call.inputDigest}","kind":"call","outcome":"${call.outcome}"`
  if (outputDigest !== undefined) text += `,"output":"${outputDigest}"`
  text += `,"principal":${principalText(principal)},"tenant":${canonicalString(principal.tenant)}`
  text += `,"tool":${canonicalString(call.tool)},"v":1`
  if (via !== undefined) text += `,"via":${canonicalString(via)}`
  return `${text}}`
}

/**
 * A call in a list, without what the list says for all of its calls: only what differs from the call before it, and null for what
 * only that one has.
 */
function listedText(call: CallEntry, before: CallEntry | undefined): string {
  const { code, content, decisions, outputDigest, principal, via } = call
  let text = call.atMs === before?.atMs ? '{' : `{"at":"${isoTime(call.atMs)}",`
  text += `"call_id":${canonicalString(call.callId)}`
  if (code !== before?.code) text += `,"code":${code === undefined ? null : canonicalString(code)}`
  if (content !== undefined) text += `,"content":${canonicalJson(content)}`
  else if (before?.content !== undefined) text += ',"content":null'
  if (!isSameList(decisions, before?.decisions ?? []))
    text += `,"decisions":${decisions.length === 0 ? null : decisionsText(decisions)}`
  if (call.transport !== before?.transport) text += `,"door":${canonicalString(call.transport)}`
  text += `,"duration_ms":${durationOf(call)}`
  if (call.inputDigest !== before?.inputDigest) text += `,"input":"${call.inputDigest}"`
  if (call.outcome !== before?.outcome) text += `,"outcome":"${call.outcome}"`
  if (outputDigest !== before?.outputDigest)
    text += `,"output":${outputDigest === undefined ? null : `"${outputDigest}"`}`
  const by = principalText(principal)
  if (before === undefined || by !== principalText(before.principal)) text += `,"principal":${by}`
  if (call.tool !== before?.tool) text += `,"tool":${canonicalString(call.tool)}`
  if (via !== before?.via) text += `,"via":${via === undefined ? null : canonicalString(via)}`
  return `${text}}`
}

const durationOf = ({ durationMs }: CallEntry): number => Math.round(durationMs * 1000) / 1000

const isSameList = (some: readonly Decision[], others: readonly Decision[]): boolean =>
  some.length === others.length && some.every((one, index) => isSameDecision(one, others[index]!))

const isSameDecision = (one: Decision, other: Decision): boolean =>
  one.policy === other.policy &&
  one.reason === other.reason &&
  one.stage === other.stage &&
  one.tool === other.tool &&
  one.verdict === other.verdict

const decisionsText = (decisions: readonly Decision[]): string => `[${decisions.map(decisionText).join()}]`

/** A model names the tool that it wants, so the name may be one that has no canonical form. */
function decisionText({ policy, reason, stage, tool, verdict }: Decision): string {
  let text = ''
  if (policy !== undefined) text += `"policy":${canonicalString(policy)},`
  if (reason !== undefined) text += `"reason":${canonicalString(reason.toWellFormed())},`
  text += `"stage":${canonicalString(stage)},`
  if (tool !== undefined) text += `"tool":${canonicalString(tool.toWellFormed())},`
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
