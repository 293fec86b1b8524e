import { describe, expect, it } from 'vitest'
import type { AppError } from '../../contract/app-error.ts'
import type { Call, Progress } from '../../contract/call.ts'
import type { CallingClient } from '../../contract/calling-client.ts'
import { LOCAL_TENANT, localOwner } from '../../contract/principal.ts'
import type { UpstreamTool, UpstreamTools } from '../../contract/upstream-tools.ts'
import { createArgumentChecks } from './argument-checks.ts'
import type { ToolContext } from './define-tool.ts'
import { upstreamCatalogTool } from './upstream-tool.ts'
import { validateArguments } from './validate-arguments.ts'

/** A tool of another server in the catalogue: what clients are shown of it, and how its arguments are checked. */
const weather: UpstreamTool = {
  id: '00000000-0000-4000-8000-00000000000a',
  definition: 'd',
  tenant: LOCAL_TENANT,
  catalogId: 'c',
  serverName: 'weather',
  name: 'weather__forecast',
  aliases: [],
  description: 'Tells the weather.',
  inputSchema: {
    type: 'object',
    properties: {
      city: { type: 'string', minLength: 2 },
      days: { type: 'integer', maximum: 10 },
      unit: { enum: ['C', 'F'] },
      note: { type: ['string', 'null'] },
    },
    required: ['city'],
  },
  annotations: { readOnlyHint: true },
}
const upstreams = { call: () => Promise.reject(new Error('not called')) }
const toolOf = (tool: UpstreamTool) =>
  upstreamCatalogTool({ upstreams, checks: createArgumentChecks() }, tool, tool.name, { mode: 'dynamic' })

async function refusalOf(tool: UpstreamTool, args: unknown): Promise<AppError | undefined> {
  const made = toolOf(tool)
  try {
    validateArguments(made, (await made.load()).input, args)
    return undefined
  } catch (error) {
    return error as AppError
  }
}

describe('a tool of another server', () => {
  it('is listed with its own texts and schema, and with every hint', () => {
    const { listed } = toolOf(weather)
    expect(listed).toMatchObject({
      name: 'weather__forecast',
      title: 'weather__forecast',
      inputSchema: weather.inputSchema,
    })
    expect(listed.annotations).toEqual({
      title: 'weather__forecast',
      readOnlyHint: true,
      destructiveHint: true,
      idempotentHint: false,
      openWorldHint: true,
    })
  })

  it('takes what its schema takes, and says of the rest which field breaks which rule', async () => {
    expect(await refusalOf(weather, { city: 'Rome', days: 3, more: { is: 'passed on' } })).toBeUndefined()
    expect(await refusalOf(weather, {})).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'city' } })
    expect(await refusalOf(weather, { city: 'R' })).toMatchObject({ details: { field: 'city' } })
    const refusal = await refusalOf(weather, { city: 'Rome', days: 11, unit: 'K' })
    expect(refusal!.details['issues']).toMatchObject([{ field: 'days' }, { field: 'unit' }])
  })

  it('takes null for a field that cannot be null as left out, and passes on a null that means something', async () => {
    const made = toolOf(weather)
    const { input } = validateArguments(made, (await made.load()).input, { city: 'Rome', days: null, note: null })
    expect(input).toEqual({ city: 'Rome', note: null })
  })

  it('refuses an unknown field where its schema does, with the nearest name', async () => {
    const closed = { ...weather, inputSchema: { ...weather.inputSchema, additionalProperties: false } }
    expect(await refusalOf(closed, { city: 'Rome', dayz: 1 })).toMatchObject({ details: { nearest: 'days' } })
  })

  it('whose schema cannot be compiled checks names alone', async () => {
    const nested = (depth: number): object => (depth === 0 ? {} : { allOf: Array(8).fill(nested(depth - 1)) })
    const hostile = { ...weather, inputSchema: { ...weather.inputSchema, ...nested(5) } }
    expect(await refusalOf(hostile, { city: 7 })).toBeUndefined()
    expect(await refusalOf(hostile, {})).toMatchObject({ details: { field: 'city' } })
  })
})

describe('a call of it', () => {
  const called = async (answer: 'an answer' | 'a failure' | 'a question') => {
    const told: string[] = []
    const heard = Promise.withResolvers<boolean>()
    const client = { ask: async () => void told.push('a question') } as unknown as CallingClient
    const call = {
      hears: () => heard.promise,
      progress: ({ message }: Progress) => void told.push(message!),
      client: client as Call['client'],
    }
    const talking: Pick<UpstreamTools, 'call'> = {
      async call(_target, _args, { onProgress, client: asked }) {
        onProgress!({ progress: 1, message: 'words' })
        if (answer === 'a question') await asked!.ask({}, new AbortController().signal)
        if (answer === 'a failure') throw new Error('it failed')
        return { content: [] }
      },
    }
    const { name } = weather
    const tool = upstreamCatalogTool({ upstreams: talking, checks: createArgumentChecks() }, weather, name, {
      mode: 'dynamic',
    })
    const context = { call, principal: localOwner } as unknown as ToolContext
    const ending = Promise.resolve((await tool.load()).run({}, context)).then(
      () => told.push('an answer'),
      () => told.push('a failure'),
    )
    await new Promise((resolve) => setImmediate(resolve))
    expect(told).toEqual([])
    heard.resolve(true)
    await ending
    return told
  }

  it('passes on what the server said before its answer, its failure or its question', async () => {
    expect(await called('an answer')).toEqual(['words', 'an answer'])
    expect(await called('a failure')).toEqual(['words', 'a failure'])
    expect(await called('a question')).toEqual(['words', 'a question', 'an answer'])
  })
})

describe('compiled schemas', () => {
  it('are few: the one that was used longest ago is compiled again', async () => {
    const checks = createArgumentChecks(2)
    const schemas = [1, 2, 3].map((minimum) => ({ type: 'object', minProperties: minimum }))
    const first = await checks(schemas[0]!)
    const second = await checks(schemas[1]!)
    expect(await checks(schemas[0]!)).toBe(first)
    await checks(schemas[2]!)
    expect(await checks(schemas[0]!)).toBe(first)
    expect(await checks(schemas[1]!)).not.toBe(second)
  })
})
