import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { rightsOf } from '../../src/contract/permissions.ts'
import { localOwner, type Principal, tenantId } from '../../src/contract/principal.ts'
import { createPolicyEvaluator } from '../../src/domains/security-contexts/policy-evaluator.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { createCatalog } from '../../src/tools/runtime/catalog.ts'
import { type ArgumentRule, defineTool, type ToolDefinition } from '../../src/tools/runtime/define-tool.ts'
import { createGuard } from '../../src/tools/runtime/guard.ts'
import { createRateLimiter } from '../../src/tools/runtime/rate-limiter.ts'
import { createStages, type Invocation, type Mode, type StageName, stageNames } from '../../src/tools/runtime/stages.ts'
import { createToolViews } from '../../src/tools/runtime/tool-views.ts'
import { requirePlainJson, validateArguments } from '../../src/tools/runtime/validate-arguments.ts'
import { callerOf, movableClock } from '../support/app.ts'

/** Each stage on its own, over tools that are only definitions. */
const base = {
  toolset: 'ledger',
  title: 'A tool',
  description: 'Only a definition.',
  tier: 'user',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  output: z.strictObject({}),
  run: () => ({}),
} as const
const reader = defineTool({
  ...base,
  name: 'thing_read',
  permission: 'task:read',
  effect: 'read',
  input: z.strictObject({
    thing_id: z.string().min(1).max(8),
    kind: z.enum(['red', 'yellow']).optional(),
    count: z.int().min(1).max(9).default(3),
    gone: z.string().nullable().optional(),
  }),
}) as ToolDefinition
const lister = defineTool({
  ...base,
  name: 'thing_list',
  permission: null,
  effect: 'read',
  input: z.strictObject({ limit: z.int().optional(), label: z.string().optional() }),
}) as ToolDefinition
const writer = defineTool({
  ...base,
  name: 'thing_write',
  permission: 'task:update',
  tier: 'operator',
  effect: 'update',
  input: z.strictObject({}),
}) as ToolDefinition
const passer = defineTool({
  ...base,
  name: 'thing_run',
  permission: null,
  effect: 'external',
  input: z.strictObject({}),
  redirect: (args: unknown) => ({ name: (args as { to: string }).to, args: { limit: 1 }, warnings: ['moved'] }),
}) as ToolDefinition
const definitions = [reader, lister, writer, passer]
const catalog = createCatalog({ ledger: definitions })
const definitionOf = (name: string): ToolDefinition => definitions.find((one) => one.name === name)!

const member: Principal = {
  ...localOwner,
  kind: 'key',
  ...rightsOf('member'),
  tier: 'user',
  tenant: tenantId('t'),
  actor: 'm',
}

function stagesIn(mode: Mode = 'FULL') {
  const limits = { default: { perMinute: 60, burst: 2 } }
  return createStages({
    views: createToolViews({ catalog, clock: systemClock }),
    mode,
    rateLimiter: createRateLimiter({ clock: movableClock(), enabled: true, limits }),
    limitOwner: false,
    guard: createGuard({ policies: createPolicyEvaluator({ clock: systemClock }) }),
  })
}
const stageOf = (name: StageName, stages = stagesIn()) =>
  [...stages.before, ...stages.after].find((stage) => stage.name === name)!

const invocationOf = (name: string, args: unknown = {}, principal: Principal = member): Invocation => ({
  callId: 'c',
  caller: callerOf(principal),
  requestedName: name,
  options: {},
  startedMs: 0,
  nowMs: 0,
  signal: new AbortController().signal,
  args,
  tool: catalog.find(name),
  code: undefined,
  rules: catalog.find(name)?.definition,
  via: undefined,
  input: undefined,
  output: undefined,
  inputDigest: 'unread',
  warnings: [],
  decisions: [],
  taints: [],
  approval: undefined,
  asks: undefined,
  readFrom: new Set(),
  wroteTo: new Set(),
  entered: new Set(),
  blocked: undefined,
  release: undefined,
  done: undefined,
  submittedEntry: undefined,
})
const codeOf = (work: () => unknown): string | undefined => {
  try {
    work()
    return undefined
  } catch (error) {
    return (error as { code?: string }).code
  }
}

describe('the stages', () => {
  it('are those that health reports, in that order, around the handler', () => {
    const stages = stagesIn()
    const inOrder = [...stages.before, { name: 'handler' }, ...stages.after].map(({ name }) => name)
    expect(inOrder).toEqual(stageNames.slice(0, inOrder.length))
    expect(stageNames.slice(inOrder.length)).toEqual(['audit'])
  })

  it('find-tool finds by name, hands on, and names the nearest', () => {
    const { run } = stageOf('find-tool')
    const found = { ...invocationOf('thing_read'), tool: undefined }
    run(found)
    expect(found.tool).toBe(catalog.find('thing_read'))
    const passed = { ...invocationOf('thing_run', { to: 'thing_list' }), tool: undefined }
    run(passed)
    expect(passed).toMatchObject({ via: 'thing_run', args: { limit: 1 }, warnings: ['moved'] })
    expect(passed.tool).toBe(catalog.find('thing_list'))
    expect(() => run(invocationOf('thing_raed'))).toThrow(/Did you mean 'thing_read'/)
  })

  it('mode refuses what the mode does not have', () => {
    const refused = (mode: Mode) =>
      catalog.names.filter((name) => codeOf(() => stageOf('mode', stagesIn(mode)).run(invocationOf(name))))
    expect(refused('FULL')).toEqual([])
    expect(refused('TEST')).toEqual([])
    expect(refused('READONLY')).toEqual(['thing_write'])
    expect(refused('MINIMAL')).toEqual(catalog.names)
  })

  it('permitted refuses by tier and by permission', () => {
    const { run } = stageOf('permitted')
    expect(codeOf(() => run(invocationOf('thing_read')))).toBeUndefined()
    expect(() => run(invocationOf('thing_write'))).toThrow(
      "needs the tier 'operator'; you have 'user'. Ask the operator for a key with that tier",
    )
    const operator: Principal = { ...member, tier: 'operator' }
    expect(codeOf(() => run(invocationOf('thing_write', {}, operator)))).toBeUndefined()
    const narrow: Principal = { ...operator, ...rightsOf('member', ['task:read']) }
    expect(() => run(invocationOf('thing_write', {}, narrow))).toThrow("needs the permission 'task:update'")
    expect(codeOf(() => run(invocationOf('thing_list', {}, narrow)))).toBeUndefined()
  })

  it('rate-limit counts for each principal, and not the owner', () => {
    const { run } = stageOf('rate-limit')
    const codes = Array.from({ length: 3 }, () => codeOf(() => run(invocationOf('thing_read'))))
    expect(codes).toEqual([undefined, undefined, 'ERR_RATE_LIMITED'])
    const elsewhere: Principal = { ...member, tenant: tenantId('u') }
    expect(codeOf(() => run(invocationOf('thing_read', {}, elsewhere)))).toBeUndefined()
    const owners = Array.from({ length: 9 }, () => codeOf(() => run(invocationOf('thing_read', {}, localOwner))))
    expect(owners).toEqual(Array.from({ length: 9 }, () => undefined))
  })

  it('validate-arguments reads the input, keeps its digest and fills in defaults', () => {
    const invocation = invocationOf('thing_read', { thing_id: 'a', kind: null })
    stageOf('validate-arguments').run(invocation)
    expect(invocation.input).toEqual({ thing_id: 'a', count: 3 })
    expect(invocation.inputDigest).toMatch(/^sha256:[0-9a-f]{64}$/)
  })

  it('usage-limit and invocation-policy let the tools of the platform pass', () => {
    for (const name of ['usage-limit', 'invocation-policy'] as const) {
      const invocation = invocationOf('thing_write')
      expect(stageOf(name).run(invocation)).toBeUndefined()
      expect(invocation).toEqual({ ...invocationOf('thing_write'), signal: invocation.signal })
    }
  })
})

describe('arguments', () => {
  const check = (name: string, args: unknown, rule: ArgumentRule = 'strict') =>
    validateArguments(catalog.find(name)!, definitionOf(name).input, args, rule)
  const messageOf = (name: string, args: unknown, rule?: ArgumentRule): string => {
    try {
      check(name, args, rule)
      return ''
    } catch (error) {
      return (error as Error).message
    }
  }

  const refused: readonly [string, unknown, RegExp][] = [
    ['an unknown field', { thing_di: 'a' }, /Unknown field 'thing_di' for 'thing_read'\. Did you mean 'thing_id'\?/],
    [
      'an unknown field that is near to none',
      { thing_id: 'a', zzz: 1 },
      /'zzz'.*accepted: thing_id, kind, count, gone/,
    ],
    ['a missing field', {}, /Required field 'thing_id' is missing for 'thing_read'/],
    ['null for a required field', { thing_id: null }, /Required field 'thing_id' is missing/],
    ['a wrong type', { thing_id: 7 }, /'thing_id' must be a string/],
    ['too long a text', { thing_id: 'a'.repeat(9) }, /'thing_id' must be at most 8 characters/],
    ['too short a text', { thing_id: '' }, /'thing_id' must be at least 1 character\.$/],
    ['a word that is none', { thing_id: 'a', kind: 'yelow' }, /'kind' must be one of red, yellow/],
    ['a number out of range', { thing_id: 'a', count: 10 }, /'count' must be at most 9/],
    ['a number with a fraction', { thing_id: 'a', count: 1.5 }, /'count' must be an int/],
    ['several at once', { thing_id: 7, count: 10 }, /'thing_id' must be a string\. 'count' must be at most \d+\.$/],
    ['a list', [], /must be an object/],
    ['a text', 'thing', /must be an object/],
  ]
  it.each(refused)('refuse %s', (_what, args, message) => {
    expect(messageOf('thing_read', args)).toMatch(message)
  })

  it('have one fault of each field in the message', () => {
    const many = { thing_id: 7, kind: 'yelow', count: 10 }
    expect(messageOf('thing_read', many).match(/'\w+' must/g)).toEqual([
      "'thing_id' must",
      "'kind' must",
      "'count' must",
    ])
    expect(messageOf('thing_read', { thing_id: 'a', count: -1.5 }).match(/'count'/g)).toHaveLength(1)
  })

  it('name every fault in the details, and the nearest word', () => {
    try {
      check('thing_read', { thing_id: 7, kind: 'yelow' })
      expect.unreachable()
    } catch (error) {
      expect((error as { details: object }).details).toEqual({
        field: 'thing_id',
        constraint: 'must be a string',
        issues: [
          { field: 'thing_id', constraint: 'must be a string' },
          { field: 'kind', constraint: 'must be one of red, yellow', nearest: 'yellow' },
        ],
      })
    }
  })

  it('take null for an optional field as left out, unless null means something there', () => {
    expect(check('thing_read', { thing_id: 'a', kind: null, count: null, gone: null }).input).toEqual({
      thing_id: 'a',
      count: 3,
      gone: null,
    })
  })

  it('by the rule of AEGIS: unknown keys are ignored with a warning where nothing is required', () => {
    expect(check('thing_list', { limit: 1, colour: 'red', size: 2 }, 'aegis')).toEqual({
      input: { limit: 1 },
      warnings: ["Unknown field 'colour' was ignored.", "Unknown field 'size' was ignored."],
    })
    expect(messageOf('thing_list', { colour: 'red' })).toMatch(/Unknown field 'colour'/)
    expect(messageOf('thing_read', { thing_id: 'a', colour: 'red' }, 'aegis')).toMatch(/Unknown field 'colour'/)
  })

  it('by the rule of AEGIS: a required null is a missing argument, in the words of its document', () => {
    const words = "Invalid tool arguments: required field 'thing_id' is missing or null for tool 'thing_read'"
    expect(messageOf('thing_read', { thing_id: null }, 'aegis')).toBe(words)
    expect(messageOf('thing_read', {}, 'aegis')).toBe(words)
  })

  it('are bounded: no U+0000, no __proto__, no endless nesting', () => {
    expect(() => requirePlainJson({ a: { b: ['x\u0000'] } })).toThrow("'a.b.0' must not contain the character U+0000")
    expect(() => requirePlainJson({ a: { 'x\u0000': 1 } })).toThrow('U+0000')
    expect(() => requirePlainJson(JSON.parse('{"a":[{"__proto__":1}]}'))).toThrow("'a.0.__proto__' is a name that")
    expect(() => requirePlainJson(JSON.parse('{"__proto__":{}}'))).toThrow("'__proto__' is a name that")
    expect(() => requirePlainJson({ proto: '__proto__' })).not.toThrow()
    const nested = (levels: number): unknown => (levels === 0 ? 1 : { a: nested(levels - 1) })
    expect(() => requirePlainJson(nested(32))).not.toThrow()
    expect(() => requirePlainJson(nested(33))).toThrow('nested more than 32 levels deep')
    expect(() => requirePlainJson({ ['k'.repeat(1_000)]: '\u0000' })).toThrow(/^'k{61}…'/)
  })
})
