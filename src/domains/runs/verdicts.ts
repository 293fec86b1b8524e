import type { Json } from '../../kernel/canonical-json.ts'
import type { Signal, Verdict } from './consensus.ts'

/** Whether a verdict meets the thresholds, which are inclusive. */
export function isPassed(
  { score, confidence }: Pick<Verdict, 'score' | 'confidence'>,
  rule: Readonly<{ minScore: number; minConfidence?: number }>,
): boolean {
  return score >= rule.minScore && confidence >= (rule.minConfidence ?? 0)
}

/** The content of the first code fence if there is one, otherwise the whole text. */
export function withoutBoundary(text: string): string {
  const open = /^[ \t]*```[^\n`]*\n/m.exec(text)
  if (open === null) return text.trim()
  const rest = text.slice(open.index + open[0].length)
  const close = /^[ \t]*```[ \t]*$/m.exec(rest)
  return (close === null ? rest : rest.slice(0, close.index)).trim()
}

export function parseJsonOutput(text: string): Readonly<{ value: Json }> | undefined {
  try {
    return { value: JSON.parse(withoutBoundary(text)) as Json }
  } catch {
    return undefined
  }
}

/** The verdict in a judge's answer; undefined if it has none. It must contain score and confidence, both from 0 to 1. */
export function readVerdict(text: string): Verdict | undefined {
  const value = parseJsonOutput(text)?.value
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const { score, confidence, reasoning = '', signals = [] } = value as Record<string, unknown>
  if (!isUnit(score) || !isUnit(confidence) || typeof reasoning !== 'string') return undefined
  return { score, confidence, reasoning, signals: Array.isArray(signals) ? signals.flatMap(toSignal) : [] }
}

const isUnit = (value: unknown): value is number => typeof value === 'number' && value >= 0 && value <= 1

function toSignal(value: unknown): Signal[] {
  if (typeof value !== 'object' || value === null) return []
  const { category, score, message } = value as Record<string, unknown>
  if (typeof category !== 'string' || !isUnit(score)) return []
  return [{ category, score, message: typeof message === 'string' ? message : '' }]
}
