import { fieldsOf, textOf } from '../protocols/protocol.ts'
import type { Fields } from './ports.ts'

/** Deeper than any provider's part. */
const DEPTH_MAX = 10
/** Texts of a model or a program, which contain no parts of the provider. */
const freeMembers: ReadonlySet<string> = new Set(['input', 'args', 'arguments', 'response', 'tools'])
/** Documented stand-ins for a signature, which say nothing. */
const standIns: ReadonlySet<string> = new Set([
  'skip_thought_signature_validator',
  'context_engineering_is_the_way_to_go',
])

/**
 * Reasoning that only the provider can read: encrypted, redacted, or named by its id. A program sends it back unchanged, and nobody here
 * sees what it says. `isAnswer`: of a part that has both, the id counts too, because a program may send back either.
 */
export function opaqueParts(value: unknown, isAnswer = false): readonly string[] {
  const found: string[] = []
  look(value, found, isAnswer, 1)
  return found
}

function look(value: unknown, found: string[], isAnswer: boolean, depth: number): void {
  const fields = fieldsOf(value)
  if (fields === undefined || depth > DEPTH_MAX) return
  if (Array.isArray(fields)) {
    for (const item of fields) look(item, found, isAnswer, depth + 1)
    return
  }
  addOf(fields, found, isAnswer)
  for (const name in fields) {
    const inner = fields[name]
    if (typeof inner !== 'object' || (depth > 1 && freeMembers.has(name))) continue
    look(inner, found, isAnswer, depth + 1)
  }
}

function addOf(part: Fields, found: string[], isAnswer: boolean): void {
  const add = (said: unknown): void => {
    const text = textOf(said)
    if (text !== undefined && text !== '' && !standIns.has(text)) found.push(text)
  }
  const type = textOf(part['type']) ?? ''
  const isReasoning = type === 'reasoning' || type.startsWith('reasoning.')
  add(part['encrypted_content'])
  add(part['thoughtSignature'])
  add(part['thought_signature'])
  if (type === 'thinking' || isReasoning) add(part['signature'])
  if (type === 'redacted_thinking' || isReasoning) add(part['data'])
  if (type === 'reasoning' && (isAnswer || !textOf(part['encrypted_content']))) add(part['id'])
}

/** The signatures of Anthropic's thinking in a stream come in parts, each after the part before it. */
export function createSignatures(): (event: unknown) => string | undefined {
  const received = new Map<unknown, string>()
  return (event) => {
    const data = fieldsOf(event)
    const delta = fieldsOf(data?.['delta'])
    if (delta?.['type'] !== 'signature_delta') return undefined
    const index = data!['index']
    const signature = (received.get(index) ?? '') + (textOf(delta['signature']) ?? '')
    received.set(index, signature)
    return signature
  }
}
