import type { ToolAnswer, ToolCaller } from '../tools/runtime/tool-host.ts'

/**
 * An answer as a client gets it: one text block, and the same as structured content. Warnings are in both, because many clients
 * show a model one block of an answer, and some only the structured content; every listed output schema admits them. The terminal
 * reads blocks, and prints warnings separately from the answer.
 */
export type DisplayedAnswer = Readonly<{
  json: string
  content: readonly Readonly<Record<string, unknown>>[] | undefined
  contentJson?: string | undefined
  meta?: Readonly<Record<string, unknown>>
}>

export function displayedAnswer(answer: ToolAnswer, transport: ToolCaller['transport']): DisplayedAnswer {
  const { json, output, content, contentJson, warnings, meta } = answer
  if (contentJson !== undefined) return { json, content, contentJson }
  if (meta !== undefined) return { json, content, meta }
  if (warnings === undefined || transport === 'cli') return { json, content }
  const said = withWarnings(output, warnings)
  const text = content?.[0]?.['text']
  if (typeof text !== 'string' || text === json) return { json: said, content: undefined }
  const lines = [text, ...warnings.map((warning) => `Warning: ${warning}`)]
  return { json: said, content: [{ type: 'text', text: lines.join('\n') }] }
}

function withWarnings(output: unknown, warnings: readonly string[]): string {
  const answer = output as { warnings?: unknown }
  const own = Array.isArray(answer.warnings) ? (answer.warnings as unknown[]) : []
  return JSON.stringify({ ...answer, warnings: [...new Set([...own, ...warnings])] })
}
