import type { RawAnswer } from '../../contract/raw-answer.ts'
import type { PolicyTool, ResultVerdict } from '../../contract/tool-policies.ts'

/** The text that the quarantined model reads: text content unchanged, everything else as JSON. */
export function resultText(output: unknown): string {
  const { content, structuredContent } = (output ?? {}) as Partial<RawAnswer>
  if (!Array.isArray(content)) return JSON.stringify(output) ?? ''
  const texts = content.map((block) => (typeof block['text'] === 'string' ? block['text'] : JSON.stringify(block)))
  return [...texts, ...(structuredContent === undefined ? [] : [JSON.stringify(structuredContent)])].join('\n')
}

/** What the caller gets in place of the result. */
export const blocked = ({ name }: PolicyTool, { policy, reason }: ResultVerdict) => ({
  code: 'ERR_POLICY_DENIED' as const,
  message: `'${name}' was called, and its result was blocked by a policy. Reason: ${reason}. Do not repeat the call.`,
  details: { tool: name, reason, ...(policy !== undefined && { policy }), blocked: 'result' },
})
