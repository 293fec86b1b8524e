import type { EffectRecord } from '../../contract/call.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import type { RawAnswer } from '../../contract/raw-answer.ts'
import { failedAnswer } from './failed-answer.ts'
import type { Spelling } from './spelling.ts'
import type { Invocation } from './stages.ts'
import { isStatedError } from './stated-failure.ts'
import type { ToolAnswer, ToolFailure } from './tool-host.ts'

/** What the tool of a call answered. */
export type Handled = Readonly<{
  /** The whole answer: its size is bounded, and the log has its digest. */
  json: string
  text?: string
  raw?: RawAnswer
  effects: readonly EffectRecord[]
}>

export function toAnswer(invocation: Invocation, handled: Handled, spelling: Spelling): ToolAnswer {
  if (invocation.blocked !== undefined) return toFailureAnswer(invocation, invocation.blocked)
  const warnings = invocation.caller.safeNames ? spelling.texts(invocation.warnings) : invocation.warnings
  if (handled.raw !== undefined) return toRawAnswer(invocation.tool!.name, handled.raw, handled.json, warnings)
  const stated = isStatedError(invocation.tool!.definition, invocation.output) ? ({ statesError: true } as const) : {}
  if (warnings.length === 0 && handled.text === undefined) {
    return { json: handled.json, output: invocation.output, isError: false, ...stated }
  }
  const content = [
    { type: 'text', text: handled.text ?? handled.json },
    ...warnings.map((warning) => ({ type: 'text', text: `Warning: ${warning}` })),
  ]
  const said = warnings.length === 0 ? {} : { warnings: [...warnings] }
  return { json: handled.json, output: invocation.output, isError: false, content, ...said, ...stated }
}

export const TOOL_FAILED = 'ERR_TOOL_FAILED' as const satisfies ErrorCode

const CONTENT_FIRST = '{"content":'

/** Content and structured content stay unchanged; a warning is a separate block after them. */
function toRawAnswer(tool: string, raw: RawAnswer, rawJson: string, warnings: readonly string[]): ToolAnswer {
  const { content, structuredContent, _meta: meta } = raw
  if (warnings.length === 0 && rawJson.startsWith(CONTENT_FIRST) && Object.keys(raw).length === 1) {
    const contentJson = rawJson.slice(CONTENT_FIRST.length, -1)
    return { json: rawJson, output: raw, isError: false, content, contentJson, structured: false }
  }
  const told = warnings.map((warning) => ({ type: 'text', text: `Warning: ${warning}` }))
  const shared = {
    content: [...content, ...told],
    ...(structuredContent === undefined ? ({ structured: false } as const) : {}),
    ...(meta === undefined ? {} : { meta }),
  }
  if (raw.isError !== true) {
    const output = structuredContent ?? { content }
    return { json: JSON.stringify(output), output, isError: false, ...shared }
  }
  const message = `'${tool}' answered with a failure. Its message is in the details.`
  const failure = { code: TOOL_FAILED, message, details: { answer: structuredContent ?? content } }
  const json = JSON.stringify(structuredContent ?? { error: failure })
  return { json, isError: true, failure, ...shared }
}

/** The output schema of another server does not admit our envelope, so there is no structured content. */
export function toFailureAnswer({ tool, via }: Invocation, failure: ToolFailure): ToolAnswer {
  const isUnknownTool = failure.code === 'ERR_UNKNOWN_TOOL' && tool === undefined && via === undefined
  return {
    ...failedAnswer(failure),
    ...(isUnknownTool ? { isUnknownTool } : {}),
    ...(tool?.definition.raw === true ? { structured: false } : {}),
  }
}
