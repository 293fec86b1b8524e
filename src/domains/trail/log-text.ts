import type { RawLogEntry } from '../../audit/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { parseNumberedId } from '../tasks/rules.ts'

/**
 * What a verifier reads out of the canonical text of a log record, as far as possible without parsing it. Bytes are read
 * as Latin-1, which costs a copy and no decoding: where all is ASCII it is the text itself.
 */
type Effect = Readonly<{
  kind: string
  subject?: string
  hash?: string
  body: Readonly<Record<string, Json>>
}>

const SUBJECT = '"subject":"task:'
const EFFECTS = ',"effects":['
const BODY = '{"body":'

const bufferOf = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)

export const latin1Of = (bytes: Uint8Array): string => bufferOf(bytes).toString('latin1')

/**
 * The task of the trail record in an intact entry; undefined when it holds none. Nothing that a caller wrote can stand
 * after the subject of the record, and inside a text the quotes would be escaped.
 */
export function subjectOf(latin1: string): number | undefined {
  const at = latin1.lastIndexOf(SUBJECT)
  if (at === -1) return undefined
  const begin = at + SUBJECT.length
  return Number(latin1.slice(begin, latin1.indexOf('"', begin)))
}

/** Where the first effect of a record begins. What stands before it is ours: no caller can imitate it. */
export function firstEffectAt(latin1: string): number {
  const at = latin1.indexOf(EFFECTS)
  return at === -1 ? latin1.length : at + EFFECTS.length
}

/** The body of an entry's only effect, and its hash as written beside it; undefined when it is not of that form. */
export function onlyTaskEffect(latin1: string): { body: Buffer; hash: string; kind: string } | undefined {
  const bodyAt = firstEffectAt(latin1) + BODY.length
  const subjectAt = latin1.lastIndexOf(SUBJECT)
  const tailAt = subjectAt - TAIL_BEFORE_SUBJECT
  if (tailAt < bodyAt) return undefined
  const match = TAIL.exec(latin1.slice(tailAt, subjectAt + TAIL_AFTER_SUBJECT))
  if (match === null) return undefined
  return { body: Buffer.from(latin1.slice(bodyAt, tailAt), 'latin1'), hash: match[1]!, kind: match[2]! }
}

/** `,"hash":"<64 hex>","kind":"task_updated","subject":"task:12"}` and the end of the list. */
const TAIL = /^,"hash":"([0-9a-f]{64})","kind":"(task_created|task_updated)","subject":"task:[0-9]{1,15}"\}\]/
const TAIL_BEFORE_SUBJECT = ',"hash":"","kind":"task_created",'.length + 64
const TAIL_AFTER_SUBJECT = SUBJECT.length + 18

/** The trail record inside an entry; undefined when the text holds none, or none that can be read. */
export function trailEffect(entry: RawLogEntry): Effect | undefined {
  return effectsOf(entry.record).find((effect) => typeof effect.subject === 'string')
}

export function effectsOf(record: Uint8Array): readonly Effect[] {
  try {
    const parsed = JSON.parse(bufferOf(record).toString('utf8')) as { effects?: unknown }
    return Array.isArray(parsed.effects) ? parsed.effects.filter(isEffect) : []
  } catch {
    return []
  }
}

const isEffect = (value: unknown): value is Effect =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as { body?: unknown }).body === 'object' &&
  (value as { body?: unknown }).body !== null

/** The task that a trail record is about; -1 when what it says is no task. */
export function taskOf(effect: Effect): number {
  const id = effect.body['task_id']
  return typeof id === 'string' ? (parseNumberedId('T', id) ?? -1) : -1
}
