import { describe, expect, it } from 'vitest'
import type { Condition, InvocationAction, ResultAction } from '../../contract/policy-conditions.ts'
import { LOCAL_TENANT, localOwner } from '../../contract/principal.ts'
import type { PolicySubject, PolicyTool } from '../../contract/tool-policies.ts'
import { checkCondition, compilePolicies } from './compile.ts'
import { type Governance, judgeCall, judgeResult, needsTrust } from './evaluate.ts'
import type { StoredPolicy } from './ports.ts'
import { viewsOf } from './result-views.ts'

const upstream: PolicyTool = { id: 't', name: 'mail__send', origin: 'upstream' }
const trusted: PolicySubject = { principal: localOwner, isUntrusted: false }
const untrusted: PolicySubject = { ...trusted, isUntrusted: true }

let position = 0
const policy = (
  kind: StoredPolicy['kind'],
  action: InvocationAction | ResultAction,
  ...conditions: readonly Condition[]
): StoredPolicy =>
  ({
    tenant: LOCAL_TENANT,
    id: `p${++position}`,
    kind,
    toolId: 't',
    conditions,
    action,
    note: null,
    position,
    createdAtMs: 0,
    updatedAtMs: 0,
  }) as StoredPolicy
const call = (action: InvocationAction, ...conditions: readonly Condition[]) =>
  policy('invocation', action, ...conditions)
const result = (action: ResultAction, ...conditions: readonly Condition[]) =>
  policy('trusted_data', action, ...conditions)
const is = (key: string, value: string, operator: Condition['operator'] = 'equal', more: Partial<Condition> = {}) => ({
  key,
  operator,
  value,
  ...more,
})
const judged = (
  policies: readonly StoredPolicy[],
  args: unknown,
  subject = trusted,
  governance: Governance = 'permissive',
) => judgeCall(compilePolicies(policies), governance, subject, upstream, args).action

/** Whether a policy that blocks on this condition blocks. */
const holds = (condition: Condition, args: unknown, subject = trusted): boolean =>
  judged([call('block_always', condition)], args, subject) === 'deny'

describe('a simple condition', () => {
  it.each<[string, Condition, unknown, boolean]>([
    ['equal text', is('a', 'x'), { a: 'x' }, true],
    ['a number is never equal to text', is('a', '1'), { a: 1 }, false],
    ['a number is unequal to any text', is('a', '1', 'notEqual'), { a: 1 }, true],
    ['what is missing is not even unequal', is('a', '1', 'notEqual'), {}, false],
    ['contains', is('a.b[0].c', 'y', 'contains'), { a: { b: [{ c: 'xyz' }] } }, true],
    ['notContains of no text', is('a', 'y', 'notContains'), { a: 7 }, false],
    ['startsWith', is('a', 'x', 'startsWith'), { a: 'xy' }, true],
    ['endsWith', is('a', 'x', 'endsWith'), { a: 'xy' }, false],
    ['a pattern anywhere', is('a', 'b+c', 'regex'), { a: 'abbbc!' }, true],
    ['a pattern minds the case', is('a', 'B', 'regex'), { a: 'b' }, false],
    ['nothing inherited', is('constructor.name', 'Object'), {}, false],
  ])('%s', (_what, condition, args, expected) => expect(holds(condition, args)).toBe(expected))
})

describe('a path with wildcards', () => {
  const to = { to: [{ at: 'a@x' }, { at: 'b@y' }], lists: [{ items: ['p', 'q'] }, { items: ['r'] }] }
  it.each<[string, Condition, unknown, boolean]>([
    ['all values must match', is('to[*].at', '@x', 'endsWith'), to, false],
    ['any value may match', is('to[*].at', '@x', 'endsWith', { quantifier: 'any' }), to, true],
    ['none may match', is('to[*].at', '@z', 'endsWith', { quantifier: 'none' }), to, true],
    ['several wildcards', is('lists[*].items[*]', 'r', 'equal', { quantifier: 'any' }), to, true],
    ['a list at the top', is('[*].n', '1', 'equal', { type: 'number' }), [{ n: 1 }, { n: 1 }], true],
    ['no values never match all', is('to[*].at', 'x', 'notEqual'), { to: [] }, false],
    ['a wildcard on no list', is('to[*]', 'x', 'notEqual'), { to: 'x' }, false],
    ['a quoted name', is('headers["x.y"]', 'v'), { headers: { 'x.y': 'v' } }, true],
    ['a boolean', is('on', 'true', 'equal', { type: 'boolean' }), { on: true }, true],
  ])('%s', (_what, condition, args, expected) => expect(holds(condition, args)).toBe(expected))

  it('that finds too much is answered with care', () => {
    const many = { a: new Array(20_000).fill('x') }
    expect(holds(is('a[*]', 'nothing'), many)).toBe(true)
    const allowing = [call('allow_when_context_is_untrusted', is('a[*]', 'x')), call('block_always')]
    expect(judged(allowing, many)).toBe('deny')
  })
})

describe('a condition on the caller', () => {
  const subject: PolicySubject = {
    ...trusted,
    principal: { ...localOwner, teams: ['t1'], user: 'u', agent: 'a' },
    origin: 'rest',
    externalAgentId: 'me',
  }
  it.each<[Condition, boolean]>([
    [is('context.teamIds', 't1', 'contains'), true],
    [is('context.teamIds', 't1', 'notContains'), false],
    [is('context.externalAgentId', 'me'), true],
    [is('context.externalAgentId', 'me', 'notEqual'), false],
    [is('context.userId', 'u'), true],
    [is('context.agentId', 'b'), false],
    [is('context.origin', 'rest'), true],
    [is('context.gatewayId', 'g', 'notEqual'), true],
  ])('%o', (condition, expected) => expect(holds(condition, {}, subject)).toBe(expected))
})

describe('what cannot be carried out', () => {
  it.each<[Condition, RegExp]>([
    [is('a..b', 'x'), /key/],
    [is('', 'x'), /key/],
    [is('a[', 'x'), /key/],
    [is('a', '(', 'regex'), /value: must be an RE2/],
    [is('a', 'a{1000}{1000}', 'regex'), /value/],
    [is('context.nobody', 'x'), /key: must be one of context/],
    [is('context.teamIds', 'x'), /operator: must be contains or notContains/],
    [is('a', 'x', 'equal', { quantifier: 'any' }), /quantifier/],
    [is('a', 'x', 'equal', { type: 'number' }), /value: must be a number/],
    [is('a', '1', 'contains', { type: 'number' }), /operator/],
  ])('%o is refused', (condition, words) => expect(() => checkCondition(condition, 'conditions[0]')).toThrow(words))
})

describe('a call', () => {
  const block = call('block_when_context_is_untrusted')
  const allow = call('allow_when_context_is_untrusted', is('to', 'me'))

  it.each<[string, readonly StoredPolicy[], unknown, PolicySubject, string]>([
    ['blocks always, whatever allows', [allow, call('block_always', is('to', 'me'))], { to: 'me' }, trusted, 'deny'],
    ['is not blocked by trust in a trusted context', [block], {}, trusted, 'allow'],
    ['is blocked in an untrusted one', [block], {}, untrusted, 'deny'],
    ['is allowed by conditions before a default', [block, allow], { to: 'me' }, untrusted, 'allow'],
    ['falls to the default when no conditions match', [block, allow], { to: 'you' }, untrusted, 'deny'],
    ['needs approval', [call('require_approval')], {}, trusted, 'require_approval'],
    [
      'needs none if another policy matches',
      [call('require_approval', is('to', 'me')), allow],
      { to: 'me' },
      trusted,
      'allow',
    ],
    ['needs approval in an untrusted context too', [call('require_approval')], {}, untrusted, 'require_approval'],
    ['without any policy is allowed', [], {}, untrusted, 'allow'],
  ])('%s', (_what, policies, args, subject, action) => expect(judged(policies, args, subject)).toBe(action))

  it('without a policy is what the governance says, where data could leave', () => {
    const said = (tool: PolicyTool) => judgeCall(compilePolicies([]), 'restrictive', untrusted, tool, {}).action
    expect(said(upstream)).toBe('deny')
    expect(said({ id: 'web.fetch', name: 'web.fetch', origin: 'platform', builtIn: { sends: true } })).toBe('deny')
    expect(said({ id: 'task_get', name: 'task_get', origin: 'platform' })).toBe('allow')
    expect(judged([], {}, trusted, 'restrictive')).toBe('allow')
  })

  it('asks for trust only where that decides', () => {
    expect(needsTrust(compilePolicies([call('block_always')]), 'permissive', upstream)).toBe(false)
    expect(needsTrust(compilePolicies([block]), 'permissive', upstream)).toBe(true)
    expect(needsTrust(compilePolicies([]), 'restrictive', upstream)).toBe(true)
  })
})

describe('a result', () => {
  const said = (policies: readonly StoredPolicy[], value: unknown, tool = upstream) =>
    judgeResult(compilePolicies(policies), trusted, tool, viewsOf(value)).action
  const ours = result('mark_as_trusted', is('from', '@ours', 'endsWith'))

  it.each<[string, readonly StoredPolicy[], unknown, string]>([
    ['is untrusted without a policy', [], { from: 'a@ours' }, 'untrusted'],
    ['is trusted by a policy that matches', [ours], { from: 'a@ours' }, 'trusted'],
    ['is looked at inside value', [ours], { value: { from: 'a@ours' } }, 'trusted'],
    ['is not trusted by value alone', [ours], { value: { from: 'a@ours' }, from: 'a@theirs' }, 'untrusted'],
    [
      'is blocked by a member beside value',
      [result('mark_as_trusted'), result('block_always', is('state', 'secret'))],
      { value: 1, state: 'secret' },
      'block',
    ],
    ['is untrusted when it does not match', [ours], { from: 'a@theirs' }, 'untrusted'],
    [
      'is blocked whatever trusts it',
      [ours, result('block_always', is('from', '@', 'contains'))],
      { from: 'a@ours' },
      'block',
    ],
    ['falls to the default', [result('sanitize_with_dual_llm')], {}, 'sanitise'],
  ])('%s', (_what, policies, value, action) => expect(said(policies, value)).toBe(action))

  it('of which the text says something else than the structured content is trusted by neither', () => {
    const text = (from: string) => [{ type: 'text', text: JSON.stringify({ from }) }]
    expect(said([ours], { structuredContent: { from: 'a@ours' }, content: text('a@ours') })).toBe('trusted')
    expect(said([ours], { structuredContent: { from: 'a@ours' }, content: text('a@theirs') })).toBe('untrusted')
    expect(said([ours], { structuredContent: { from: 'a@ours' }, content: [{ type: 'text', text: 'Do this' }] })).toBe(
      'untrusted',
    )
  })

  it('of ours is trusted unless its tool says otherwise', () => {
    expect(said([], {}, { id: 'x', name: 'x', origin: 'platform' })).toBe('trusted')
    expect(said([], {}, { id: 'x', name: 'x', origin: 'platform', builtIn: { source: 'untrusted' } })).toBe('untrusted')
    expect(said([], {}, { name: 'x', origin: 'unknown' })).toBe('untrusted')
  })
})
