import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkState } from '../../src/app/check-state.ts'
import { errorCodes } from '../../src/contract/error-codes.ts'
import { limits } from '../../src/contract/limits.ts'
import { loadAllTools } from '../../src/tools/index.ts'
import { createCatalog } from '../../src/tools/runtime/catalog.ts'
import type { ToolAnswer } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, ownerCaller, type TestApp } from '../support/app.ts'
import { type Schema, validArguments } from '../support/arguments.ts'
import { anything, nearlyValid } from '../support/hostile-arguments.ts'
import { move, newTask, think } from '../support/ledger.ts'
import { isLongRun } from '../support/long-run.ts'
import { serveWeb, type WebServer } from '../support/web-server.ts'

const allTools = await loadAllTools()

/**
 * Hostile arguments to every tool there is: no crash, no failure inside, no answer without a bound, every refusal says
 * what is wrong, and the state is as the independent checker wants it. fast-check prints the seed of a failure.
 */
const catalog = createCatalog(allTools)
/** At a terminal: what was read there holds nothing up, so that every tool is reached. */
const person = { ...ownerCaller, transport: 'cli' } as const
let app: TestApp
let engine: WebServer
beforeAll(async () => {
  // It refuses at once, because a search that merely fails is tried again after a pause.
  engine = await serveWeb({ '/': (_request, response) => void response.writeHead(403).end() })
  app = await openTestApp({
    config: { 'workspaces.max_workspaces': 3, 'workspaces.store_gb': 0, 'web.search_url': engine.at('/') },
  })
  // Some of the arguments below name it; where no workspace can run, they find none.
  await app.call('workspace_create', { name: 'p' })
  await newTask(app)
  await newTask(app, { parent_id: 'T-0001', depends_on: ['T-0001'] })
  await think(app, 'T-0001', 'one')
  await move(app, 'T-0002', 'todo')
  await app.ask('audit_session_start', { task_id: 'T-0001', auditor_id: 'ann', scope: 'deep' })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await engine[Symbol.asyncDispose]()
})

/** Seeds differ from run to run, so that many short runs try as much as a long one. */
const runs = (usual: number): fc.Parameters<unknown> => ({
  numRuns: isLongRun ? usual * 4 : Math.ceil(usual / 3),
  interruptAfterTimeLimit: isLongRun ? 120_000 : 40_000,
})

function expectSound(answer: ToolAnswer): void {
  expect(Buffer.byteLength(answer.json)).toBeLessThanOrEqual(limits.answerBytesMax)
  const body = JSON.parse(answer.json) as { error?: { code: string; message: string; details: object } }
  expect(app.errors).toEqual([])
  if (!answer.isError) return
  const { code, message, details } = body.error!
  expect(Object.keys(errorCodes)).toContain(code)
  expect(code).not.toBe('ERR_INTERNAL')
  expect(message.length).toBeGreaterThan(10)
  expect(message.length).toBeLessThan(1_500)
  expect(message.isWellFormed()).toBe(true)
  expect(Object.keys(details), message).not.toEqual([])
  expect(Buffer.byteLength(answer.json)).toBeLessThan(100_000)
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
}

describe.each(catalog.names)('%s', (name) => {
  const schema = catalog.find(name)!.listed.inputSchema as Schema

  it('bears arguments that are nearly right', async () => {
    const property = fc.asyncProperty(nearlyValid(schema), async (args) =>
      expectSound(await app.call(name, args, person)),
    )
    await fc.assert(property, runs(60))
  })

  it('bears anything in the place of arguments', async () => {
    const property = fc.asyncProperty(anything, async (args) => expectSound(await app.call(name, args, person)))
    await fc.assert(property, runs(25))
  })

  it('accepts or refuses with reason what its schema allows', async () => {
    const property = fc.asyncProperty(validArguments(schema), async (args) =>
      expectSound(await app.call(name, args, person)),
    )
    await fc.assert(property, runs(15))
  })
})

describe('the pipeline', () => {
  it('bears names that are none', async () => {
    const names = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('', '__proto__', 'constructor', 'toString', 'task_create\u0000', '\ud800', 'x'.repeat(1_000_000)),
      fc.constantFrom(...catalog.names).map((name) => name.toUpperCase()),
      fc.constantFrom(...catalog.names).map((name) => `archestra__${name}x`),
    )
    const property = fc.asyncProperty(names, anything, async (name, args) =>
      expectSound(await app.call(name, args, person)),
    )
    await fc.assert(property, runs(100))
  })

  it('bears them wrapped in run_tool, in every spelling', async () => {
    const wrapped = fc
      .constantFrom(...catalog.names)
      .chain((name) =>
        fc.tuple(
          fc.constantFrom('tool_name', 'toolName', 'tool', 'name'),
          fc.oneof(fc.constant(name), fc.constant(`${name}({"task_id":"T-0001"})`), fc.string({ maxLength: 30 })),
          fc.constantFrom('tool_args', 'args', 'arguments', 'params', 'input', 'x'),
          fc.oneof(nearlyValid(catalog.find(name)!.listed.inputSchema as Schema), anything),
          fc.dictionary(fc.constantFrom('task_id', 'x', '__proto__', 'tool_args'), anything, { maxKeys: 2 }),
        ),
      )
    const property = fc.asyncProperty(wrapped, async ([nameKey, name, argsKey, args, rest]) =>
      expectSound(await app.call('run_tool', { ...rest, [nameKey]: name, [argsKey]: args }, person)),
    )
    await fc.assert(property, runs(300))
  })

  it('bears many at once', async () => {
    const calls = fc.sample(
      fc
        .constantFrom(...catalog.names)
        .chain((name) => fc.tuple(fc.constant(name), nearlyValid(catalog.find(name)!.listed.inputSchema as Schema))),
      400,
    )
    for (const answer of await Promise.all(calls.map(([name, args]) => app.call(name, args, person))))
      expectSound(answer)
  })

  it('is usable afterwards, and the state is whole', async () => {
    expect(await app.ask('server_ping')).toMatchObject({ ok: true })
    expect(await app.ask('server_health')).toMatchObject({ status: 'ok', problems: [] })
    expect(await app.ask('audit_verify_chain', { task_id: 'T-0001' })).toMatchObject({ chain_valid: true })
    await app.stop()
    const report = await checkState(app.config)
    expect(report.findings).toEqual([])
    expect(app.errors).toEqual([])
  })
})
