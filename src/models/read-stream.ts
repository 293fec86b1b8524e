import type { FinishReason, LanguageModelUsage, TextStreamPart, ToolSet, TypedToolCall } from 'ai'
import { TryFailure } from './ports.ts'

type WholeAnswer = Readonly<{
  text: string
  toolCalls: readonly TypedToolCall<ToolSet>[]
  usage: LanguageModelUsage
  finishReason: FinishReason
}>

/** A stream's error, and whether a part of the answer had come before. */
export class StreamError extends Error {
  override name = 'StreamError'
  readonly hasStarted: boolean

  constructor(cause: unknown, hasStarted: boolean) {
    super('the stream reported an error', { cause })
    this.hasStarted = hasStarted
  }
}

/**
 * An answer from its parts, once the provider has said that it is complete. Until then nothing of it is returned: half a text
 * looks like a text, and half the arguments of a call can be valid.
 */
export async function readStream(stream: AsyncIterable<TextStreamPart<ToolSet>>): Promise<WholeAnswer> {
  let text = ''
  let hasStarted = false
  const toolCalls: TypedToolCall<ToolSet>[] = []
  let end: Extract<TextStreamPart<ToolSet>, { type: 'finish' }> | undefined
  for await (const part of stream) {
    if (part.type === 'error') throw new StreamError(part.error, hasStarted)
    hasStarted ||= part.type !== 'start' && part.type !== 'start-step'
    if (part.type === 'text-delta') text += part.text
    if (part.type === 'tool-call') toolCalls.push(part)
    if (part.type === 'finish') end = part
  }
  if (end === undefined || !isComplete(end)) throw new TryFailure('network', null, null)
  return { text, toolCalls, usage: end.totalUsage, finishReason: end.finishReason }
}

/** A stream that just stops also gets a reason, but not one that the provider wrote. */
const isComplete = ({ finishReason, rawFinishReason }: { finishReason: FinishReason; rawFinishReason?: unknown }) =>
  finishReason !== 'interrupted' &&
  finishReason !== 'error' &&
  (finishReason !== 'other' || rawFinishReason !== undefined)
