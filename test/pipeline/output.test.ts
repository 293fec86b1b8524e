import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { limits } from '../../src/contract/limits.ts'
import { createCatalog } from '../../src/tools/runtime/catalog.ts'
import { defineTool, type ToolDefinition } from '../../src/tools/runtime/define-tool.ts'
import { openTestApp, ownerCaller } from '../support/app.ts'
import { pipelineOf } from '../support/own-tools.ts'

/** What the pipeline does with a tool that does not keep its word. */
const SECRET = 'password-of-the-database'
const base = {
  toolset: 'ledger',
  title: 'A tool',
  description: 'A tool that does not keep its word.',
  permission: null,
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({}),
  output: z.strictObject({ text: z.string() }),
} as const

const wrongType = { ...base, name: 'wrong_type', run: () => ({ text: 7 as unknown as string }) }
const extraField = { ...base, name: 'extra_field', run: () => ({ text: 'a', more: SECRET }) }
const throwing = {
  ...base,
  name: 'throwing',
  run: () => {
    throw new Error(`connect failed: ${SECRET}`)
  },
}
const throwingNothing = {
  ...base,
  name: 'throwing_nothing',
  run: () => Promise.reject(undefined),
}
const writing = { ...base, name: 'writing_wrong', effect: 'update', run: () => ({ text: 7 as unknown as string }) }
const readingThatWrites = {
  ...base,
  name: 'reading_that_writes',
  run: (_input: object, { call }: { call: { write: unknown } }) => ({ text: String(call.write) }),
}
const huge = { ...base, name: 'huge', run: () => ({ text: 'x'.repeat(limits.answerBytesMax) }) }
const hugeInBytes = { ...base, name: 'huge_in_bytes', run: () => ({ text: '値'.repeat(limits.answerBytesMax / 2) }) }

const tools = [wrongType, extraField, throwing, throwingNothing, writing, readingThatWrites, huge, hugeInBytes]
const catalog = createCatalog({ ledger: tools.map((tool) => defineTool(tool as ToolDefinition)) })

describe('an answer that breaks its promise', () => {
  it.each(['wrong_type', 'extra_field', 'throwing', 'throwing_nothing', 'writing_wrong', 'reading_that_writes'])(
    '%s is a failure inside, with a reference and without a leak',
    async (name) => {
      await using app = await openTestApp()
      const { call, logged } = await pipelineOf(app, catalog)
      const answer = await call(ownerCaller, name, {})
      expect(answer.failure).toMatchObject({ code: 'ERR_INTERNAL', details: { reference: 'c_0' } })
      expect(answer.failure!.message).toContain('c_0')
      expect(JSON.stringify(answer)).not.toContain(SECRET)
      expect(logged.join()).toContain('c_0')
      const records = await app.log()
      expect(records).toHaveLength(1)
      expect(records[0]).toMatchObject({ tool: name, outcome: 'failed', code: 'ERR_INTERNAL', call_id: 'c_0' })
      expect(JSON.stringify(records)).not.toContain(SECRET)
    },
  )

  it.each(['huge', 'huge_in_bytes'])('%s is refused by its size', async (name) => {
    await using app = await openTestApp()
    const { call } = await pipelineOf(app, catalog)
    const answer = await call(ownerCaller, name, {})
    expect(answer.failure).toMatchObject({ code: 'ERR_TOO_LARGE', details: { size: expect.any(Number) } })
    expect(answer.json.length).toBeLessThan(1_000)
  })
})
