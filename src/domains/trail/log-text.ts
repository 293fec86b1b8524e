import type { LogEntry } from '../../audit/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { parseNumberedId } from '../tasks/rules.ts'

/** What a verifier reads out of the canonical text of a log record. */
export type Effect = Readonly<{
  kind: string
  subject?: string
  hash?: string
  body: Readonly<Record<string, Json>>
}>

const SUBJECT = '"subject":"task:'
const EFFECTS = ',"effects":[{"body":'

/**
 * The task of the trail record in an intact entry; undefined when it holds none. Nothing that a caller wrote can stand
 * after the subject of the record, and inside a text the quotes would be escaped.
 */
export function subjectOf(record: string): number | undefined {
  const at = record.lastIndexOf(SUBJECT)
  if (at === -1) return undefined
  const begin = at + SUBJECT.length
  return Number(record.slice(begin, record.indexOf('"', begin)))
}

/** Where the first effect begins. What stands before it is ours: no caller's text can look like it. */
export function firstEffectAt(record: string): number {
  const at = record.indexOf(EFFECTS)
  return at === -1 ? -1 : at + EFFECTS.length - '{"body":'.length
}

/** The text of the body of an entry's only effect, and its hash as written beside it; undefined when it is not so. */
export function onlyTaskEffect(record: string): { body: string; hash: string; kind: string } | undefined {
  const begin = firstEffectAt(record)
  const subjectAt = record.lastIndexOf(SUBJECT)
  if (begin === -1 || subjectAt < begin) return undefined
  const tail = record.slice(subjectAt - TAIL_BEFORE_SUBJECT, subjectAt + TAIL_AFTER_SUBJECT)
  const match = TAIL.exec(tail)
  if (match === null) return undefined
  const bodyEnd = subjectAt - TAIL_BEFORE_SUBJECT + match.index
  const body = record.slice(begin + '{"body":'.length, bodyEnd)
  return { body, hash: match[1]!, kind: match[2]! }
}

/** `,"hash":"<64 hex>","kind":"task_updated","subject":"task:12"}` and the end of the list. */
const TAIL = /,"hash":"([0-9a-f]{64})","kind":"(task_created|task_updated)","subject":"task:[0-9]{1,15}"\}\]/
const TAIL_BEFORE_SUBJECT = ',"hash":"","kind":"task_created",'.length + 64
const TAIL_AFTER_SUBJECT = SUBJECT.length + 18

/** The trail record inside an entry; undefined when the text holds none, or none that can be read. */
export function trailEffect(entry: LogEntry): Effect | undefined {
  return effectsOf(entry.record).find((effect) => typeof effect.subject === 'string')
}

export function effectsOf(record: string): readonly Effect[] {
  try {
    const parsed = JSON.parse(record) as { effects?: unknown }
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
