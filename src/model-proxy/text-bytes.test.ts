import { expect, it } from 'vitest'
import { textBytesOf } from './text-bytes.ts'

const bytesOf = (data: object): number => textBytesOf(Buffer.from(`event: x\ndata: ${JSON.stringify(data)}\n\n`))

it('counts what a model wrote, and nothing around it', () => {
  const chunk = { id: 'chatcmpl-0123456789', object: 'chat.completion.chunk', model: 'gpt-4o-2024-08-06', created: 1 }
  expect(bytesOf({ ...chunk, choices: [{ index: 0, delta: { content: 'Hello' }, finish_reason: null }] })).toBe(5)
  expect(bytesOf({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'né' } })).toBe(3)
  expect(bytesOf({ type: 'x', delta: { partial_json: '{"a": "b\\"' } })).toBe(15)
})

it('counts long values of every member, and a string that is not complete', () => {
  expect(bytesOf({ functionCall: { args: { id: 'x'.repeat(5_000) } } })).toBe(5_000)
  expect(textBytesOf(Buffer.from('data: {"text":"abc'))).toBe(3)
  expect(textBytesOf(Buffer.from('data: [DONE]\n\n'))).toBe(0)
})
