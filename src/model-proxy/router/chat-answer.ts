import { errorOf } from '../protocols/openai.ts'
import type { Fields, Naming } from './translation.ts'

/** Answers in OpenAI's chat format, whole and as the parts of a stream, for any provider. */
export type ChatUsage = Readonly<{ input: number; output: number; cacheRead: number; reasoning: number }>

const usageFields = ({ input, output, cacheRead, reasoning }: ChatUsage) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
  prompt_tokens_details: { cached_tokens: cacheRead },
  completion_tokens_details: { reasoning_tokens: reasoning },
})

export type AnsweredCall = Readonly<{ id: string; name: string; arguments: string; extra?: Fields }>

const callFields = ({ id, name, arguments: text, extra }: AnsweredCall) => ({
  id,
  type: 'function',
  function: { name, arguments: text },
  ...(extra !== undefined && { extra_content: extra }),
})

export function completion(
  { id, createdS, model }: Naming,
  text: string | null,
  calls: readonly AnsweredCall[],
  finishReason: string,
  usage: ChatUsage,
): object {
  const message = {
    role: 'assistant',
    content: text,
    refusal: null,
    ...(calls.length > 0 && { tool_calls: calls.map(callFields) }),
  }
  return {
    id,
    object: 'chat.completion',
    created: createdS,
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason }],
    usage: usageFields(usage),
  }
}

/** The parts of a stream, in order: a role first, then texts and calls, then the finish reason, then the usage if requested. */
export function createChunks({ id, createdS, model, includeUsage }: Naming) {
  const base = { id, object: 'chat.completion.chunk', created: createdS, model }
  let hasStarted = false
  let calls = 0
  const chunk = (delta: object, finishReason: string | null = null): object => {
    const first = hasStarted ? {} : { role: 'assistant', content: '' }
    hasStarted = true
    return {
      ...base,
      choices: [{ index: 0, delta: { ...first, ...delta }, logprobs: null, finish_reason: finishReason }],
      ...(includeUsage && { usage: null }),
    }
  }
  return {
    text: (text: string): object => chunk({ content: text }),
    /** Also returns the index of the call, which later parts of its arguments have. */
    call(call: AnsweredCall): Readonly<{ chunk: object; index: number }> {
      const index = calls++
      return { index, chunk: chunk({ tool_calls: [{ index, ...callFields(call) }] }) }
    },
    callArguments: (index: number, text: string): object =>
      chunk({ tool_calls: [{ index, function: { arguments: text } }] }),
    hasCalls: (): boolean => calls > 0,
    end(finishReason: string, usage: ChatUsage): object[] {
      const last = chunk({}, finishReason)
      return includeUsage ? [last, { ...base, choices: [], usage: usageFields(usage) }] : [last]
    },
  }
}

/** A failure in the middle of a stream. */
export const failedChunk = (message: string | undefined): object =>
  errorOf(500, message ?? 'The provider failed.', null)
