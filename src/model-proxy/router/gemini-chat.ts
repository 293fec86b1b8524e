import { countOf, fieldsOf, textOf } from '../protocols/protocol.ts'
import { type AnsweredCall, type ChatUsage, completion, createChunks, failedChunk } from './chat-answer.ts'
import {
  answerSchemaOf,
  type ChatMessage,
  invalid,
  mediaOf,
  partsOf,
  plainText,
  readChat,
  stopsOf,
  tokensMaxOf,
  toolCallsOf,
  toolChoiceOf,
  unknownRole,
} from './chat-request.ts'
import type { Fields, Naming, Translation } from './translation.ts'

const understood = { provider: 'Google', own: ['seed', 'frequency_penalty', 'presence_penalty'] }

export const geminiChat: Translation = {
  toRequest(chat, model) {
    // A tool result needs the name of the tool, which OpenAI's format lacks: it is that of the call.
    const callNames = new Map<string, string>()
    const { system, turns, tools } = readChat(chat, understood, (message) => partsIn(message, callNames))
    const body = {
      ...(system !== undefined && { systemInstruction: { parts: [{ text: system }] } }),
      contents: turns.map(({ isAssistant, content }) => {
        return { role: isAssistant ? 'model' : 'user', parts: content }
      }),
      ...(tools.length > 0 && {
        tools: [
          {
            functionDeclarations: tools.map(({ name, description, parameters }) => {
              return { name, description, parametersJsonSchema: parameters }
            }),
          },
        ],
        ...choiceOf(chat),
      }),
      ...generationConfigOf(chat),
    }
    const isStream = chat['stream'] === true
    const path = `v1beta/models/${encodeURIComponent(model)}:${isStream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`
    return { endpoint: { operation: 'generate', method: 'POST', path, model, isStream }, body }
  },

  toAnswer(answer, naming) {
    const { texts, calls, finishReason } = read(answer, naming, 0)
    const reason = finishReasonOf(answer, finishReason, calls.length > 0)
    return completion(naming, texts.length === 0 ? null : texts.join(''), calls, reason, usageOf(answer))
  },

  toEvents(naming) {
    const chunks = createChunks(naming)
    let count = 0
    let last: unknown
    let reason: unknown
    return {
      take(event) {
        const { texts, calls, finishReason } = read(event, naming, count)
        count += calls.length
        reason = finishReason ?? reason
        last = event
        const message = geminiChat.toErrorMessage(event)
        if (message !== undefined) return [failedChunk(message)]
        return [...texts.map(chunks.text), ...calls.map((call) => chunks.call(call).chunk)]
      },
      finish: () =>
        last === undefined ? [] : chunks.end(finishReasonOf(last, reason, chunks.hasCalls()), usageOf(last)),
    }
  },

  toErrorMessage(answer) {
    const first = Array.isArray(answer) ? answer[0] : answer
    return textOf(fieldsOf(fieldsOf(first)?.['error'])?.['message'])
  },
}

function partsIn(message: ChatMessage, names: Map<string, string>): readonly Fields[] {
  const { role, fields, field } = message
  const content = `${field}.content`
  switch (role) {
    case 'user':
      return partsOf(fields['content'], content).map((part, index) => mediaPart(part, `${content}[${index}]`))
    case 'assistant': {
      const text = plainText(fields['content'], content)
      const calls = toolCallsOf(message).map(({ id, name, input, extra }) => {
        names.set(id, name)
        const signature = textOf(fieldsOf(extra?.['google'])?.['thought_signature'])
        return {
          functionCall: { name, args: input },
          ...(signature !== undefined && { thoughtSignature: signature }),
        }
      })
      return [...(text === '' ? [] : [{ text }]), ...calls]
    }
    case 'tool': {
      const name = names.get(String(fields['tool_call_id']))
      if (name === undefined) throw invalid(`${field}.tool_call_id`, 'must be the id of a call in an earlier message')
      return [{ functionResponse: { name, response: responseOf(plainText(fields['content'], content)) } }]
    }
    default:
      throw unknownRole(message)
  }
}

/** An object as it is; everything else as the output. */
function responseOf(text: string): Fields {
  try {
    const value: unknown = JSON.parse(text)
    if (!Array.isArray(value)) return fieldsOf(value) ?? { output: text }
  } catch {
    // It is not JSON.
  }
  return { output: text }
}

function mediaPart(part: Fields, field: string): Fields {
  if (part['type'] === 'text' && typeof part['text'] === 'string') return { text: part['text'] }
  const [name, key] = part['type'] === 'image_url' ? ['image_url', 'url'] : ['file', 'file_data']
  if (part['type'] !== 'image_url' && part['type'] !== 'file') throw invalid(field, 'must be text, an image or a file')
  const path = `${field}.${name}.${key}`
  const media = mediaOf(fieldsOf(part[name])?.[key], path)
  if ('url' in media) throw invalid(path, 'must be a base64 data URL for a model of Google')
  return { inlineData: { mimeType: media.mimeType, data: media.data } }
}

function choiceOf(chat: Fields): Fields {
  const choice = toolChoiceOf(chat)
  if (choice === undefined) return {}
  const modes = { auto: 'AUTO', none: 'NONE', required: 'ANY' } as const
  const functionCallingConfig =
    typeof choice === 'object' ? { mode: 'ANY', allowedFunctionNames: [choice.name] } : { mode: modes[choice] }
  return { toolConfig: { functionCallingConfig } }
}

function generationConfigOf(chat: Fields): Fields {
  const schema = answerSchemaOf(chat)
  const maxOutputTokens = tokensMaxOf(chat, undefined)
  const stopSequences = stopsOf(chat)
  const numbers = {
    maxOutputTokens,
    temperature: chat['temperature'],
    topP: chat['top_p'],
    seed: chat['seed'],
    frequencyPenalty: chat['frequency_penalty'],
    presencePenalty: chat['presence_penalty'],
  }
  const config = {
    ...Object.fromEntries(Object.entries(numbers).filter(([, value]) => typeof value === 'number')),
    ...(stopSequences !== undefined && { stopSequences }),
    ...(schema !== undefined && { responseMimeType: 'application/json' }),
    ...(schema !== undefined && schema !== 'json' && { responseJsonSchema: schema }),
  }
  return Object.keys(config).length === 0 ? {} : { generationConfig: config }
}

/** `before` calls were made in earlier events. Calls without an id get one of ours. */
function read(
  answer: unknown,
  { id }: Naming,
  before: number,
): Readonly<{ texts: readonly string[]; calls: readonly AnsweredCall[]; finishReason: unknown }> {
  const candidates = fieldsOf(answer)?.['candidates']
  const candidate = fieldsOf(Array.isArray(candidates) ? candidates[0] : undefined)
  const parts = fieldsOf(candidate?.['content'])?.['parts']
  const texts: string[] = []
  const calls: AnsweredCall[] = []
  for (const value of Array.isArray(parts) ? parts : []) {
    const part = fieldsOf(value) ?? {}
    const call = fieldsOf(part['functionCall'])
    if (call !== undefined)
      calls.push(callOf(call, part, `${id.replace(/^chatcmpl-/, 'call_')}_${before + calls.length}`))
    else if (typeof part['text'] === 'string' && part['thought'] !== true && part['text'] !== '')
      texts.push(part['text'])
  }
  return { texts, calls, finishReason: candidate?.['finishReason'] }
}

function callOf(call: Fields, part: Fields, fallbackId: string): AnsweredCall {
  const signature = textOf(part['thoughtSignature'])
  return {
    id: textOf(call['id']) ?? fallbackId,
    name: textOf(call['name']) ?? '',
    arguments: JSON.stringify(call['args'] ?? {}),
    ...(signature !== undefined && { extra: { google: { thought_signature: signature } } }),
  }
}

/** An answer without candidates was blocked, and has the reason beside them. */
function finishReasonOf(answer: unknown, reason: unknown, hasCalls: boolean): string {
  if (fieldsOf(fieldsOf(answer)?.['promptFeedback'])?.['blockReason'] !== undefined) return 'content_filter'
  if (reason === 'MAX_TOKENS') return 'length'
  if (reason === undefined || reason === null || reason === 'STOP' || reason === 'FINISH_REASON_UNSPECIFIED') {
    return hasCalls ? 'tool_calls' : 'stop'
  }
  return 'content_filter'
}

function usageOf(answer: unknown): ChatUsage {
  const usage = fieldsOf(fieldsOf(answer)?.['usageMetadata'])
  const reasoning = countOf(usage?.['thoughtsTokenCount'])
  return {
    input: countOf(usage?.['promptTokenCount']) + countOf(usage?.['toolUsePromptTokenCount']),
    output: countOf(usage?.['candidatesTokenCount']) + reasoning,
    cacheRead: countOf(usage?.['cachedContentTokenCount']),
    reasoning,
  }
}
