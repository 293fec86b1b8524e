import { describe, expect, it } from 'vitest'
import { anthropicChat } from './anthropic-chat.ts'
import { geminiChat } from './gemini-chat.ts'
import type { Naming, Translation } from './translation.ts'

const naming: Naming = { id: 'chatcmpl-1', createdS: 7, model: 'p:m', includeUsage: true }
const PNG = 'data:image/png;base64,iVBORw0KGgo='
const weather = {
  type: 'function',
  function: { name: 'weather', description: 'Of a city.', parameters: { type: 'object', properties: { city: {} } } },
}
const called = (id: string, city: string, extra: object = {}) => ({
  id,
  type: 'function',
  function: { name: 'weather', arguments: JSON.stringify({ city }) },
  ...extra,
})
const conversation = {
  model: 'p:m',
  messages: [
    { role: 'system', content: 'Be brief.' },
    { role: 'developer', content: [{ type: 'text', text: 'Say degrees.' }] },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Where is this?' },
        { type: 'image_url', image_url: { url: PNG } },
        { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERi0=', filename: 'a.pdf' } },
      ],
    },
    { role: 'assistant', content: 'Two cities.', tool_calls: [called('c1', 'Rome'), called('c2', 'Oslo')] },
    { role: 'tool', tool_call_id: 'c1', content: '{"degrees":21}' },
    { role: 'tool', tool_call_id: 'c2', content: 'cold' },
    { role: 'user', content: 'And now?' },
  ],
  max_completion_tokens: 99,
  temperature: 0.5,
  top_p: 0.9,
  stop: 'END',
  tools: [weather],
  tool_choice: 'required',
  response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object' } } },
  stream: true,
  user: 'u1',
  n: 1,
}
const streamed = (translation: Translation, events: readonly object[]) => {
  const translator = translation.toEvents(naming)
  return [...events.flatMap((event) => translator.take(event)), ...translator.finish()]
}
const deltas = (chunks: readonly object[]) =>
  chunks.map((chunk) => {
    const { choices, usage } = chunk as { choices: { delta: object; finish_reason: string | null }[]; usage: unknown }
    return choices[0] === undefined ? { usage } : { ...choices[0].delta, end: choices[0].finish_reason }
  })

describe('a chat with a model of Anthropic', () => {
  it('is asked for in its own words', () => {
    const { endpoint, body } = anthropicChat.toRequest(conversation, 'claude-x')
    expect(endpoint).toEqual({ operation: 'messages', method: 'POST', path: 'messages' })
    expect(body).toEqual({
      model: 'claude-x',
      max_tokens: 99,
      system: 'Be brief.\n\nSay degrees.',
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Where is this?' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
            {
              type: 'document',
              source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' },
              title: 'a.pdf',
            },
          ],
        },
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'Two cities.' },
            { type: 'tool_use', id: 'c1', name: 'weather', input: { city: 'Rome' } },
            { type: 'tool_use', id: 'c2', name: 'weather', input: { city: 'Oslo' } },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: '{"degrees":21}' }] },
            { type: 'tool_result', tool_use_id: 'c2', content: [{ type: 'text', text: 'cold' }] },
            { type: 'text', text: 'And now?' },
          ],
        },
      ],
      tools: [{ name: 'weather', description: 'Of a city.', input_schema: weather.function.parameters }],
      tool_choice: { type: 'any' },
      temperature: 0.5,
      top_p: 0.9,
      stop_sequences: ['END'],
      output_config: { format: { type: 'json_schema', schema: { type: 'object' } } },
      stream: true,
    })
  })

  it('is answered in those of OpenAI', () => {
    const answer = {
      content: [
        { type: 'thinking', thinking: 'hm' },
        { type: 'text', text: 'I look.' },
        { type: 'tool_use', id: 't1', name: 'weather', input: { city: 'Rome' } },
      ],
      stop_reason: 'tool_use',
      usage: { input_tokens: 10, cache_read_input_tokens: 5, cache_creation_input_tokens: 2, output_tokens: 7 },
    }
    expect(anthropicChat.toAnswer(answer, naming)).toMatchObject({
      id: 'chatcmpl-1',
      object: 'chat.completion',
      model: 'p:m',
      choices: [{ message: { content: 'I look.', tool_calls: [called('t1', 'Rome')] }, finish_reason: 'tool_calls' }],
      usage: { prompt_tokens: 17, completion_tokens: 7, total_tokens: 24, prompt_tokens_details: { cached_tokens: 5 } },
    })
  })

  it('is streamed in those of OpenAI', () => {
    const chunks = streamed(anthropicChat, [
      { type: 'message_start', message: { usage: { input_tokens: 10, output_tokens: 1 } } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'ping' },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'I ' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'look.' } },
      { type: 'content_block_stop', index: 0 },
      {
        type: 'content_block_start',
        index: 1,
        content_block: { type: 'tool_use', id: 't1', name: 'weather', input: {} },
      },
      { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '{"city"' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: ':"Rome"}' } },
      { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 9 } },
      { type: 'message_stop' },
    ])
    expect(deltas(chunks)).toEqual([
      { role: 'assistant', content: 'I ', end: null },
      { content: 'look.', end: null },
      {
        tool_calls: [{ index: 0, id: 't1', type: 'function', function: { name: 'weather', arguments: '' } }],
        end: null,
      },
      { tool_calls: [{ index: 0, function: { arguments: '{"city"' } }], end: null },
      { tool_calls: [{ index: 0, function: { arguments: ':"Rome"}' } }], end: null },
      { end: 'tool_calls' },
      { usage: expect.objectContaining({ prompt_tokens: 10, completion_tokens: 9, total_tokens: 19 }) },
    ])
  })
})

describe('a chat with a model of Google', () => {
  it('is asked for in its own words', () => {
    const { endpoint, body } = geminiChat.toRequest({ ...conversation, seed: 3 }, 'gemini-x')
    expect(endpoint).toMatchObject({
      operation: 'generate',
      path: 'v1beta/models/gemini-x:streamGenerateContent?alt=sse',
      isStream: true,
    })
    expect(body).toEqual({
      systemInstruction: { parts: [{ text: 'Be brief.\n\nSay degrees.' }] },
      contents: [
        {
          role: 'user',
          parts: [
            { text: 'Where is this?' },
            { inlineData: { mimeType: 'image/png', data: 'iVBORw0KGgo=' } },
            { inlineData: { mimeType: 'application/pdf', data: 'JVBERi0=' } },
          ],
        },
        {
          role: 'model',
          parts: [
            { text: 'Two cities.' },
            { functionCall: { name: 'weather', args: { city: 'Rome' } } },
            { functionCall: { name: 'weather', args: { city: 'Oslo' } } },
          ],
        },
        {
          role: 'user',
          parts: [
            { functionResponse: { name: 'weather', response: { degrees: 21 } } },
            { functionResponse: { name: 'weather', response: { output: 'cold' } } },
            { text: 'And now?' },
          ],
        },
      ],
      tools: [
        {
          functionDeclarations: [
            { name: 'weather', description: 'Of a city.', parametersJsonSchema: weather.function.parameters },
          ],
        },
      ],
      toolConfig: { functionCallingConfig: { mode: 'ANY' } },
      generationConfig: {
        maxOutputTokens: 99,
        temperature: 0.5,
        topP: 0.9,
        seed: 3,
        stopSequences: ['END'],
        responseMimeType: 'application/json',
        responseJsonSchema: { type: 'object' },
      },
    })
  })

  it('is answered and streamed in those of OpenAI, with signatures that come back', () => {
    const signed = { functionCall: { name: 'weather', args: { city: 'Rome' } }, thoughtSignature: 'sig' }
    const usageMetadata = {
      promptTokenCount: 4,
      candidatesTokenCount: 5,
      thoughtsTokenCount: 6,
      cachedContentTokenCount: 1,
    }
    const parts = [{ text: 'hm', thought: true }, { text: 'I look.' }, signed]
    const answer = { candidates: [{ content: { parts }, finishReason: 'STOP' }], usageMetadata }
    const extra_content = { google: { thought_signature: 'sig' } }
    const call = called('call_1_0', 'Rome', { extra_content })
    const whole = geminiChat.toAnswer(answer, naming)
    expect(whole).toMatchObject({
      choices: [{ message: { content: 'I look.', tool_calls: [call] }, finish_reason: 'tool_calls' }],
      usage: { prompt_tokens: 4, completion_tokens: 11, completion_tokens_details: { reasoning_tokens: 6 } },
    })
    const events = [
      { candidates: [{ content: { parts: [{ text: 'I look.' }] } }] },
      { candidates: [{ content: { parts: [signed] }, finishReason: 'STOP' }], usageMetadata },
    ]
    expect(deltas(streamed(geminiChat, events))).toEqual([
      { role: 'assistant', content: 'I look.', end: null },
      { tool_calls: [{ index: 0, ...call }], end: null },
      { end: 'tool_calls' },
      { usage: expect.objectContaining({ total_tokens: 15 }) },
    ])
    const { message } = (whole as { choices: { message: object }[] }).choices[0]!
    const messages = [{ role: 'user', content: 'x' }, message, { role: 'tool', tool_call_id: 'call_1_0', content: '1' }]
    const { body } = geminiChat.toRequest({ messages }, 'g')
    expect(body['contents']).toMatchObject([{}, { parts: [{}, signed] }, { parts: [{ functionResponse: {} }] }])
  })

  it('says that an answer was blocked', () => {
    const answer = { promptFeedback: { blockReason: 'SAFETY' } }
    expect(geminiChat.toAnswer(answer, naming)).toMatchObject({ choices: [{ finish_reason: 'content_filter' }] })
  })
})

const ask = { messages: [{ role: 'user', content: 'x' }] }
describe.each([
  ['Anthropic', anthropicChat],
  ['Google', geminiChat],
] as const)('what a model of %s cannot be told', (_, translation) => {
  it.each([
    ['n', { n: 2 }],
    ['logprobs', { logprobs: true }],
    ['audio', { audio: { voice: 'x' } }],
    ['invented', { invented: 1 }],
    ['tools[0]', { tools: [{ type: 'web_search' }] }],
    ['tool_choice', { tools: [weather], tool_choice: 'maybe' }],
    ['response_format', { response_format: { type: 'grammar' } }],
    ['stop', { stop: 5 }],
    ['messages', { messages: [] }],
    ['messages[0].role', { messages: [{ role: 'function', content: 'x' }] }],
    ['messages[0].content[0]', { messages: [{ role: 'user', content: [{ type: 'input_audio' }] }] }],
    [
      'messages[0].content[0].image_url.url',
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'ftp://x' } }] }] },
    ],
    [
      'messages[0].tool_calls[0].function.arguments',
      { messages: [{ role: 'assistant', tool_calls: [{ id: 'a', function: { name: 'f', arguments: '[' } }] }] },
    ],
  ])('is refused by name: %s', (field, more) => {
    expect(() => translation.toRequest({ ...ask, ...more }, 'm')).toThrow(
      expect.objectContaining({ details: { field } }),
    )
  })

  it('does not include what changes nothing', () => {
    const more = {
      n: 1,
      store: false,
      parallel_tool_calls: true,
      logprobs: false,
      user: 'u',
      metadata: {},
      service_tier: 'auto',
      seed: null,
    }
    expect(() => translation.toRequest({ ...ask, ...more }, 'm')).not.toThrow()
  })
})
