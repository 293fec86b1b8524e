import { expect, it } from 'vitest'
import { inputBound } from './input-bound.ts'
import { anthropic } from './protocols/anthropic.ts'
import { gemini } from './protocols/gemini.ts'
import { openai } from './protocols/openai.ts'
import type { Operation } from './protocols/protocol.ts'

const protocols = { chat: openai, responses: openai, embeddings: openai, messages: anthropic, generate: gemini }
const boundOf = (operation: keyof typeof protocols & Operation, body: object, isPublic = true) =>
  inputBound(
    {
      operation,
      model: 'm',
      body: body as Readonly<Record<string, unknown>>,
      bytes: Buffer.from(JSON.stringify(body)),
    },
    { isPublic, protocol: protocols[operation] },
  )
const data = 'A1/+'.repeat(250_000)
const user = (...content: object[]) => ({ messages: [{ role: 'user', content }] })

it.each([
  ['chat', user({ type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } }), 20_000],
  ['chat', user({ type: 'image_url', image_url: { url: 'https://example.org/a.png' } }), 20_000],
  ['messages', user({ type: 'image', source: { type: 'base64', media_type: 'image/png', data } }), 5_000],
  ['messages', user({ type: 'tool_result', tool_use_id: 't', content: [{ type: 'image', source: { data } }] }), 5_000],
  ['generate', { contents: [{ role: 'user', parts: [{ inlineData: { mimeType: 'image/png', data } }] }] }, 4_500],
  ['generate', { contents: [{ parts: [{ inline_data: { mime_type: 'audio/mp3', data } }] }] }, data.length / 16],
  [
    'responses',
    {
      input: [
        {
          type: 'computer_call_output',
          output: { type: 'computer_screenshot', image_url: `data:image/png;base64,${data}` },
        },
      ],
    },
    20_000,
  ],
] as const)('the most input counts what is not text by its kind, in %s: %#', (operation, body, tokens) => {
  const bound = boundOf(operation, body)
  expect(bound.isUnseen).toBe(false)
  expect(bound.tokens).toBeGreaterThanOrEqual(tokens)
  expect(bound.tokens).toBeLessThan(tokens + 200)
})

it.each([
  ['messages', user({ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'AAAA' } })],
  ['messages', user({ type: 'document', source: { type: 'file', file_id: 'file_1' } })],
  ['messages', { tools: [{ type: 'web_search_20250305', name: 'web_search' }], messages: [] }],
  [
    'messages',
    {
      messages: [
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              content: [{ type: 'document', source: { type: 'url', url: 'https://example.org' } }],
            },
          ],
        },
      ],
    },
  ],
  ['generate', { cached_content: 'cachedContents/1', contents: [] }],
  ['generate', { contents: [{ parts: [{ file_data: { file_uri: 'https://example.org/film' } }] }] }],
  ['generate', { contents: [{ parts: [{ inlineData: { mimeType: 'application/pdf', data: 'AAAA' } }] }] }],
  ['generate', { tools: [{ google_search: {} }], contents: [] }],
  ['chat', { messages: [{ role: 'assistant', audio: { id: 'audio_1' } }] }],
  ['chat', user({ type: 'image_url', image_url: { url: 'data:application/pdf;base64,AAAA' } })],
  ['responses', { input: [{ id: 'msg_1' }] }],
  ['responses', { input: [{ type: 'compaction', encrypted_content: 'x' }] }],
] as const)('the most input is not known if the request does not contain it, in %s: %#', (operation, body) => {
  expect(boundOf(operation, body).isUnseen).toBe(true)
})

it.each([
  [
    'messages',
    {
      messages: [
        {
          role: 'assistant',
          content: [{ type: 'tool_use', id: 't', name: 'fetch', input: { url: 'https://example.org' } }],
        },
      ],
    },
  ],
  ['messages', user({ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'text' } })],
  [
    'responses',
    {
      input: [
        {
          role: 'assistant',
          id: 'msg_1',
          content: [{ type: 'output_text', text: 'x', annotations: [{ url: 'https://example.org' }] }],
        },
      ],
    },
  ],
  ['responses', { input: [{ type: 'reasoning', id: 'rs_1', encrypted_content: 'x' }] }],
  ['generate', { contents: [{ parts: [{ functionCall: { name: 'f', args: { uri: 'https://example.org' } } }] }] }],
  [
    'chat',
    {
      messages: [],
      tools: [{ type: 'function', function: { name: 'f', parameters: { properties: { url: { type: 'string' } } } } }],
    },
  ],
] as const)('the most input is that of its text, whatever words that has, in %s: %#', (operation, body) => {
  expect(boundOf(operation, body).isUnseen).toBe(false)
})

it('the most input is not known of an image at an address if the server is not known', () => {
  const body = user({ type: 'image_url', image_url: { url: 'https://example.org/a' } })
  expect(boundOf('chat', body, false).isUnseen).toBe(true)
})

it('the most input has a token for each digit, for each byte of a rare character and for each number', () => {
  expect(boundOf('chat', user({ type: 'text', text: '1'.repeat(1_000) })).tokens).toBeGreaterThanOrEqual(1_000)
  expect(boundOf('chat', user({ type: 'text', text: '🫠'.repeat(1_000) })).tokens).toBeGreaterThanOrEqual(4_000)
  expect(boundOf('embeddings', { input: [Array.from({ length: 1_000 }, () => 1)] }).tokens).toBeGreaterThanOrEqual(
    1_000,
  )
})
