import { createServer } from 'node:http'
import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import { cutAt, startBadLine } from '../../test/support/bad-line.ts'
import { noOptimization, noStoredKeys, unlimitedAccounting } from '../../test/support/model-accounting.ts'
import { inTurn, type Line, type ScriptedModel, startScriptedModel } from '../../test/support/scripted-model.ts'
import { AppError } from '../contract/app-error.ts'
import { localOwner } from '../contract/principal.ts'
import type { ModelRequest } from '../domains/executions/model.ts'
import { systemClock } from '../kernel/clock.ts'
import { callProvider } from './call-provider.ts'
import { candidatesFor, createModels } from './create-models.ts'
import {
  type ModelAccounting,
  type ModelsSettings,
  type ProviderSettings,
  type ProviderType,
  providerTypes,
} from './ports.ts'
import { safeToolNames } from './tool-names.ts'

const paths: Readonly<Record<ProviderType, string>> = {
  openai: '/v1',
  anthropic: '/v1',
  gemini: '/v1beta',
  ollama: '',
  'openai-compatible': '/v1',
}

function provider(type: ProviderType, url: string, more: Partial<ProviderSettings> = {}): ProviderSettings {
  const model = { maxOutputTokens: 100, temperature: 0.5, inputCost: 2, outputCost: 4 }
  return {
    name: `${type}-1`,
    type,
    endpoint: `${url}${paths[type]}`,
    apiKey: 'k',
    isStreamed: true,
    models: [{ ...model, alias: 'default', model: 'm-1' }],
    ...more,
  }
}

const settings = (providers: readonly ProviderSettings[], more: Partial<ModelsSettings> = {}): ModelsSettings => ({
  providers,
  defaultProvider: null,
  fallbackProvider: null,
  retriesMax: 2,
  retryDelayMs: 1,
  overallTimeoutMs: 20_000,
  ...more,
})

const request = (more: Partial<ModelRequest> = {}): ModelRequest => ({
  alias: 'default',
  principal: localOwner,
  purpose: 'agent',
  system: 'Be brief.',
  messages: [{ role: 'user', text: 'hello' }],
  tools: [],
  temperature: null,
  maxOutputTokens: null,
  timeoutMs: 10_000,
  signal: new AbortController().signal,
  ...more,
})

async function scripted(...lines: readonly Line[]): Promise<ScriptedModel> {
  const model = await startScriptedModel(inTurn(...lines))
  onTestFinished(() => model.stop())
  return model
}

const modelsOf = (supplied: ModelsSettings, accounting = unlimitedAccounting()) =>
  createModels({
    settings: supplied,
    ask: callProvider,
    accounting,
    storedKeys: noStoredKeys,
    optimization: noOptimization,
    routing: async () => [],
    clock: systemClock,
  })
const failureOf = async (work: Promise<unknown>): Promise<AppError> => {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof AppError)) throw new Error(`not a failure of ours: ${String(error)}`)
  return error
}

const tools = ['fs.create_dir', 'fs.create.dir'].map((name) => ({
  name,
  description: `Makes a directory (${name}).`,
  inputSchema: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
}))

const ways = providerTypes.flatMap((type) => [
  { type, isStreamed: true, how: 'in a stream' },
  { type, isStreamed: false, how: 'at once' },
])

describe('a budget whose rest other requests have reserved', () => {
  const occupiedFor = (times: number, retryAfterMs: number) => {
    const accounting = unlimitedAccounting()
    let left = times
    return async () => ({
      begin: async (...args: Parameters<ModelAccounting['begin']>) => {
        if (left-- > 0) throw new AppError('ERR_RATE_LIMITED', 'Reserved.', { retry_after_ms: retryAfterMs })
        return (await accounting()).begin(...args)
      },
    })
  }

  it('is waited for, more often than a failure is tried again', async () => {
    const model = await scripted({ text: 'hi' })
    const models = modelsOf(settings([provider('openai', model.url)], { retriesMax: 0 }), occupiedFor(5, 1))
    expect(await models.generate(request())).toMatchObject({ text: 'hi', failures: [] })
  })

  it('is waited for no longer than a request may take', async () => {
    const model = await scripted({ text: 'hi' })
    const models = modelsOf(settings([provider('openai', model.url)]), occupiedFor(1, 20_000))
    expect((await failureOf(models.generate(request()))).code).toBe('ERR_RATE_LIMITED')
  })
})

describe.each(ways)('$type, $how,', ({ type, isStreamed }) => {
  it('answers with text, tokens and cost', async () => {
    const model = await scripted({ text: 'hi', tokens: { input: 70, output: 3 } })
    const answer = await modelsOf(settings([provider(type, model.url, { isStreamed })])).generate(request())
    expect(model.requests[0]!.isStream).toBe(isStreamed)
    expect(answer).toMatchObject({ text: 'hi', toolCalls: [], provider: `${type}-1`, model: 'm-1', failures: [] })
    expect(answer.usage).toMatchObject({ inputTokens: 70, outputTokens: 3 })
    expect(answer.usage.costUsd).toBeCloseTo((2 * 70 + 4 * 3) / 1e6, 12)
    expect(model.requests[0]!.text).toContain('Be brief.')
    expect(model.requests[0]!.text).toContain('hello')
  })

  it('calls tools by the names they really have, and is told what came of it', async () => {
    const { safeOf } = safeToolNames(tools.map(({ name }) => name))
    const model = await scripted(
      { toolCalls: tools.map(({ name }) => ({ name: safeOf(name), arguments: { path: name } })) },
      { text: 'done' },
    )
    const models = modelsOf(settings([provider(type, model.url, { isStreamed })]))
    const first = await models.generate(request({ tools }))
    expect(first.toolCalls.map(({ name, arguments: args }) => [name, args])).toEqual([
      ['fs.create_dir', { path: 'fs.create_dir' }],
      ['fs.create.dir', { path: 'fs.create.dir' }],
    ])
    const { text, toolCalls } = first
    const second = await models.generate(
      request({
        tools,
        messages: [
          { role: 'user', text: 'hello' },
          { role: 'assistant', text, toolCalls },
          ...toolCalls.map(({ id, name }, index) => ({
            role: 'tool' as const,
            callId: id,
            name,
            text: `result ${index}`,
            isError: index === 1,
          })),
        ],
      }),
    )
    expect(second.text).toBe('done')
    expect(model.requests[1]!.text).toContain('result 0')
    expect(model.requests[1]!.text).toContain('result 1')
  })

  it.each([
    [401, 'authentication', 'ERR_MODEL_REFUSED', 1],
    [404, 'model_not_found', 'ERR_MODEL_REFUSED', 1],
    [400, 'invalid_input', 'ERR_MODEL_REFUSED', 1],
    [503, 'service_unavailable', 'ERR_MODEL_FAILED', 3],
    [429, 'rate_limit', 'ERR_MODEL_FAILED', 3],
  ])('a refusal with %i is of the class %s', async (status, error_class, code, tries) => {
    const model = await scripted({ status, retryAfter: 0 })
    const only = provider(type, model.url, { isStreamed })
    const failure = await failureOf(modelsOf(settings([only])).generate(request()))
    expect(failure.code).toBe(code)
    expect(failure.details).toMatchObject({ error_class })
    expect(model.requests).toHaveLength(tries)
  })

  it('is whole or a failure of the network, wherever it is cut', async () => {
    const path = 'a path that comes in several parts '.repeat(4)
    const toolCalls = ['fs_create_dir', 'fs_create_dir'].map((name) => ({ name, arguments: { path } }))
    const model = await scripted({ text: 'I shall make two directories.', toolCalls })
    let fate = cutAt(1, 'ended')
    const url = await startBadLine(model.url, () => fate)
    const models = modelsOf(settings([provider(type, url, { isStreamed })], { retriesMax: 0 }))
    const outcome = () =>
      models.generate(request({ tools: tools.slice(0, 1) })).then(
        ({ text, toolCalls: calls }) => ({ text, calls: calls.map((call) => call.arguments) }),
        (error: AppError) => error.details['error_class'],
      )
    const whole = { text: 'I shall make two directories.', calls: [{ path }, { path }] }
    expect(await outcome()).toEqual(whole)
    const seen = new Set<string>()
    const share = fc.integer({ min: 1, max: 999 }).map((part) => part / 1000)
    await fc.assert(
      fc.asyncProperty(share, fc.constantFrom('broken', 'ended'), async (cut, then) => {
        fate = cutAt(cut, then)
        const came = await outcome()
        seen.add(typeof came === 'string' ? came : 'whole')
        if (typeof came !== 'string') expect(came).toEqual(whole)
        else expect(isStreamed || then === 'broken' ? ['network'] : ['network', 'provider']).toContain(came)
      }),
      { numRuns: 40 },
    )
    expect(seen).toContain('network')
  })

  it('is given up at once in the middle of an answer', async () => {
    const model = await scripted({ text: 'This takes long. '.repeat(20) })
    const isHalfWay = Promise.withResolvers<void>()
    const url = await startBadLine(model.url, () => (answer, response) => {
      response.write(answer.subarray(0, answer.length / 2), () => isHalfWay.resolve())
    })
    const models = modelsOf(settings([provider(type, url, { isStreamed })], { retriesMax: 0 }))
    const caller = new AbortController()
    const asked = failureOf(models.generate(request({ signal: caller.signal })))
    await isHalfWay.promise
    caller.abort(new AppError('ERR_CANCELLED', 'stop'))
    expect((await asked).code).toBe('ERR_CANCELLED')
    const late = await failureOf(models.generate(request({ timeoutMs: 50 })))
    expect(late.details).toMatchObject({ error_class: 'timeout' })
  })
})

describe('models', () => {
  it('are tried again after what passes', async () => {
    const model = await scripted({ status: 503 }, { status: 500 }, { text: 'at last' })
    const answer = await modelsOf(settings([provider('openai', model.url)])).generate(request())
    expect(answer.text).toBe('at last')
    expect(answer.failures.map(({ status }) => status)).toEqual([503, 500])
  })

  it('have a fallback', async () => {
    const broken = await scripted({ status: 503 })
    const sound = await scripted({ text: 'here' })
    const providers = [provider('openai', broken.url), provider('anthropic', sound.url)]
    const models = modelsOf(settings(providers, { fallbackProvider: 'anthropic-1', retriesMax: 1 }))
    const answer = await models.generate(request())
    expect([answer.text, answer.provider, answer.failures.length]).toEqual(['here', 'anthropic-1', 2])
  })

  it('that are not there are named, with what to set', async () => {
    const none = await failureOf(modelsOf(settings([])).generate(request()))
    expect(none.code).toBe('ERR_MODEL_UNAVAILABLE')
    expect(none.message).toContain('models.providers')
    expect(none.message).toContain('restart the server')
    const other = modelsOf(settings([provider('openai', 'http://127.0.0.1:1')]))
    expect((await failureOf(other.generate(request({ alias: 'smart' })))).message).toContain('Use one of default')
    expect(other.aliases()).toEqual(['default'])
  })

  it('that cannot be reached, or answer nonsense, are told apart', async () => {
    const unreachable = provider('openai', 'http://127.0.0.1:1')
    const network = await failureOf(modelsOf(settings([unreachable], { retriesMax: 0 })).generate(request()))
    expect(network.details).toMatchObject({ error_class: 'network' })
    const server = createServer((_, response) => response.end('{"choices": [{"mess'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as { port: number }
    const cut = modelsOf(settings([provider('openai', `http://127.0.0.1:${port}`)], { retriesMax: 0 }))
    expect(['provider', 'network']).toContain((await failureOf(cut.generate(request()))).details['error_class'])
  })

  it('that are too slow are given up, at once if the caller says so', async () => {
    const slow = await startScriptedModel(() => new Promise(() => {}))
    onTestFinished(() => slow.stop())
    const models = modelsOf(settings([provider('openai', slow.url)], { retriesMax: 0 }))
    const late = await failureOf(models.generate(request({ timeoutMs: 50 })))
    expect(late.details).toMatchObject({ error_class: 'timeout' })
    const caller = new AbortController()
    const asked = models.generate(request({ signal: caller.signal }))
    caller.abort(new AppError('ERR_CANCELLED', 'stop'))
    expect((await failureOf(asked)).code).toBe('ERR_CANCELLED')
  })

  it('come from the default provider first', () => {
    const two = [provider('openai', 'a'), provider('gemini', 'b')]
    const names = (more: Partial<ModelsSettings>) =>
      candidatesFor(settings(two, more), 'default').map((candidate) => candidate.provider.name)
    expect(names({})).toEqual(['openai-1'])
    expect(names({ defaultProvider: 'gemini-1' })).toEqual(['gemini-1'])
    expect(names({ fallbackProvider: 'openai-1' })).toEqual(['gemini-1', 'openai-1'])
    expect(candidatesFor(settings(two, { fallbackProvider: 'openai-1' }), 'defualt')).toEqual([])
  })
})

it('safe names are a table: none meets another, and each leads back', () => {
  const names = ['a.b_c', 'a_b.c', 'a.b.c', 'mcp:x/y', 'z'.repeat(80), `${'z'.repeat(80)}1`]
  const { safeOf, realOf } = safeToolNames(names)
  const safe = names.map(safeOf)
  expect(new Set(safe).size).toBe(names.length)
  for (const name of safe) expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/)
  expect(safe.map(realOf)).toEqual(names)
  expect(realOf('never_offered')).toBe('never_offered')
})
