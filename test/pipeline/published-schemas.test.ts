import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { loadAllTools } from '../../src/tools/index.ts'
import { createCatalog } from '../../src/tools/runtime/catalog.ts'
import { defineTool } from '../../src/tools/runtime/define-tool.ts'
import { ANSWERS_FILE_VARIABLE, answerFault, toldFault, watchedEnvironment } from '../support/answer-check.ts'

const allTools = await loadAllTools()

/** That listed schemas admit every failure, and that the check which is on in all tests can fail. */
const catalog = createCatalog(allTools)
const envelope = JSON.stringify({ error: { code: 'ERR_INTERNAL', message: 'It failed.', details: { reference: 'c' } } })

const toolWith = (output: z.ZodType) =>
  createCatalog({
    ledger: [
      defineTool({
        name: 'sample',
        toolset: 'ledger',
        title: 'A tool',
        description: 'A tool for this test.',
        permission: null,
        tier: 'user',
        effect: 'read',
        idempotent: true,
        rate: 'default',
        skipJudge: true,
        input: z.strictObject({}),
        output,
        run: () => ({}),
      }),
    ],
  }).tools[0]

const faultOf = (output: z.ZodType, json: unknown) =>
  answerFault({ tool: toolWith(output), answer: { json: JSON.stringify(json), output: json, isError: false } })

describe('a listed output schema', () => {
  it.each(catalog.names)('of %s admits the error envelope', (name) => {
    const tool = catalog.find(name)
    expect(answerFault({ tool, answer: { json: envelope, isError: true } })).toBeUndefined()
  })

  it.each([
    ['null or an object', z.strictObject({ code: z.string() }).nullable(), [null, { code: 'x' }], ['text', 7]],
    ['a text', z.string(), ['text'], [null, 7]],
    ['a text or nothing', z.string().describe('Why not.').optional(), ['text', undefined], [7]],
  ])('with an error of its own that is %s admits it beside the envelope', (_what, error, good, bad) => {
    const output = z.strictObject({ done: z.boolean(), error })
    for (const value of good) expect(faultOf(output, { done: true, error: value })).toBeUndefined()
    for (const value of bad) expect(faultOf(output, { done: true, error: value })).toContain('sample: /error')
    expect(faultOf(output, JSON.parse(envelope))).toBeUndefined()
  })

  it('is held against the warnings that MCP puts into the answer', () => {
    const tool = toolWith(z.strictObject({ warnings: z.array(z.int()) }))
    const answer = { json: '{"warnings":[1]}', output: { warnings: [1] }, isError: false }
    expect(answerFault({ tool, answer })).toBeUndefined()
    expect(answerFault({ tool, answer: { ...answer, warnings: ['Beware.'] } })).toContain('/warnings/1 must be integer')
  })

  it('is held against the answers of programs that tests start', () => {
    const file = join(mkdtempSync(join(tmpdir(), 'castellan-told-')), 'answers')
    writeFileSync(file, '')
    const schema = { type: 'object', properties: { done: { type: 'boolean' } }, required: ['done'] }
    const program = `
      const { channel } = require('node:diagnostics_channel')
      const tool = { name: 'sample', definition: {}, listed: { outputSchema: ${JSON.stringify(schema)} } }
      for (const json of ['{"done":true}', '{}', '{"done":1}']) {
        channel('castellan:tool-answer').publish({ tool, answer: { json, isError: false } })
      }
      channel('castellan:tool-answer').publish({ tool: undefined, answer: { json: '{}', isError: true } })`
    execFileSync(process.execPath, ['-e', program], {
      env: { ...process.env, ...watchedEnvironment(), [ANSWERS_FILE_VARIABLE]: file },
    })
    const told = readFileSync(file, 'utf8').trimEnd().split('\n').map(toldFault)
    rmSync(dirname(file), { recursive: true })
    expect(told).toEqual([
      undefined,
      "sample: / must have required property 'done': {}",
      'sample: /done must be boolean: {"done":1}',
    ])
  })

  it('refuses an answer without what is required', () => {
    expect(faultOf(z.strictObject({ done: z.boolean() }), {})).toContain("must have required property 'done'")
    expect(faultOf(z.strictObject({ done: z.boolean() }), { done: 'yes' })).toContain('/done must be boolean')
  })
})
