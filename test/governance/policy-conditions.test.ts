import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { localOwner } from '../../src/contract/principal.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'

type Policy = Readonly<{ id: string }>
type Explained = Readonly<{ call: { action: string } }>

const cli: ToolCaller = { ...callerOf(localOwner), transport: 'cli' }
let app: TestApp
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
})

const invocation = async (args: object): Promise<Policy> =>
  (await app.ask<{ policy: Policy }>('create_tool_invocation_policy', { conditions: [], ...args }, cli)).policy
const drop = async ({ id }: Policy): Promise<void> => void (await app.ask('delete_tool_invocation_policy', { id }, cli))
const verdictOn = async (tool: string, args: object): Promise<string> =>
  (await app.ask<Explained>('policy_explain', { tool, arguments: args }, cli)).call.action
const ofCommands = (commands: unknown) => verdictOn('exec_parallel', { workspace_ids: ['w'], commands })

describe('a policy', () => {
  it('on a command sees each command of a list, and a single one as a list of one', async () => {
    const forbidden = { operator: 'contains', value: 'forbidden' }
    for (const condition of [
      { ...forbidden, key: 'commands' },
      { ...forbidden, key: 'commands[*]', quantifier: 'any' },
    ]) {
      const made = await invocation({ toolId: 'exec_parallel', conditions: [condition], action: 'block_always' })
      for (const commands of ['echo forbidden', ['echo forbidden'], ['true', 'echo forbidden']])
        expect(await ofCommands(commands), condition.key).toBe('deny')
      for (const commands of ['true', ['true', 'true']]) expect(await ofCommands(commands), condition.key).toBe('allow')
      const args = { workspace_ids: ['w'], commands: ['true', 'echo forbidden'] }
      expect(await app.refusal('exec_parallel', args)).toMatchObject({ code: 'ERR_POLICY_DENIED' })
      await drop(made)
    }
  })

  it('is saved only with an origin that calls can have', async () => {
    const on = (value: string, operator = 'equal') => ({
      ...{ toolId: 'task_list', action: 'block_always', conditions: [{ key: 'context.origin', operator, value }] },
    })
    for (const operator of ['equal', 'notEqual']) {
      const refused = await app.refusal('create_tool_invocation_policy', on('mcp', operator), cli)
      expect(refused).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'conditions[0].value' } })
      expect(refused.message).toMatch(/http, cli/)
    }
    const policy = await invocation(on('http'))
    const { conditions } = on('mcp')
    const changed = await app.refusal('update_tool_invocation_policy', { id: policy.id, conditions }, cli)
    expect(changed.details).toMatchObject({ field: 'conditions[0].value' })
    const simulated = await app.refusal('policy_simulate', { policies: [on('mcp')] }, cli)
    expect(simulated.details).toMatchObject({ field: 'conditions[0].value' })
    await drop(policy)
  })

  it('that allows one command allows no list with another', async () => {
    const made = [
      await invocation({ toolId: 'exec_parallel', action: 'block_always' }),
      await invocation({
        toolId: 'exec_parallel',
        action: 'allow_when_context_is_untrusted',
        conditions: [{ key: 'commands', operator: 'equal', value: 'date' }],
      }),
    ]
    expect([await ofCommands('date'), await ofCommands(['date', 'date'])]).toEqual(['allow', 'allow'])
    expect([await ofCommands(['date', 'id']), await ofCommands([])]).toEqual(['deny', 'deny'])
    for (const one of made) await drop(one)
  })
})

describe('a condition on a path', () => {
  const spellings = [
    '/workspace/./secret/b',
    '/workspace//secret/b',
    '/workspace/x/../secret/b',
    '//workspace/secret/b',
  ]
  const under = (value: string) => [{ key: 'path', operator: 'startsWith', value }]
  const writing = (path: string) => ({ workspace_id: 'w', path, content: '' })

  it('sees the file, however its path is spelled', async () => {
    const made = await invocation({
      toolId: 'file_write',
      conditions: under('/workspace/secret'),
      action: 'block_always',
    })
    for (const path of ['/workspace/secret/b', ...spellings])
      expect(await app.refusal('file_write', writing(path)), path).toMatchObject({ code: 'ERR_POLICY_DENIED' })
    expect(await verdictOn('file_write', writing('/workspace/public/b'))).toBe('allow')
    await drop(made)
  })

  it('sees a relative path as the one that it leads to, and the text as it came', async () => {
    for (const value of ['/workspace/secret', './secret']) {
      const made = await invocation({ toolId: 'fs.write', conditions: under(value), action: 'block_always' })
      expect(await verdictOn('fs.write', { path: './secret/b', content: '' }), value).toBe('deny')
      await drop(made)
    }
    const git = await invocation({ toolId: 'git_status', conditions: under('/workspace/a'), action: 'block_always' })
    expect(await verdictOn('git_status', { workspace_id: 'w', path: '/workspace/./a' })).toBe('deny')
    await drop(git)
  })

  it('allows no path that leads elsewhere', async () => {
    const made = [
      await invocation({ toolId: 'file_write', action: 'block_always' }),
      await invocation({
        toolId: 'file_write',
        conditions: under('/workspace/public/'),
        action: 'allow_when_context_is_untrusted',
      }),
    ]
    expect(await verdictOn('file_write', writing('/workspace/public/b'))).toBe('allow')
    expect(await verdictOn('file_write', writing('/workspace/public/../secret/b'))).toBe('deny')
    for (const one of made) await drop(one)
  })
})

describe('a policy that blocks by an argument', () => {
  it('warns of the calls that its conditions never match', async () => {
    const warned = async (toolId: string, condition: object, action = 'block_always'): Promise<string> => {
      const args = { toolId, conditions: [{ operator: 'contains', value: 'x', ...condition }], action }
      const { json, warnings = [] } = await app.call('create_tool_invocation_policy', args, cli)
      await drop((JSON.parse(json) as { policy: Policy }).policy)
      return warnings.filter((one) => one.startsWith('conditions[0]: ')).join()
    }
    const never = / never matches, and this policy does not hold it up\./
    const optional = await warned('exec', { key: 'workdir', operator: 'notEqual' })
    expect(optional).toMatch(/: a call without a value there never matches/)
    expect(optional).toMatch(/add a policy without conditions/)
    expect(await warned('exec', { key: 'workdir' }, 'allow_when_context_is_untrusted')).toBe('')
    expect(await warned('task_create', { key: 'project' })).toBe('')
    expect(await warned('exec_parallel', { key: 'commands' })).toBe('')
    expect(await warned('exec_parallel', { key: 'commands[*]', quantifier: 'any' })).toBe('')
    expect(await warned('exec_parallel', { key: 'commands[1]' })).toMatch(/: a call without a value there/)
    const unknown = await warned('client:send_mail', { key: 'to' })
    expect(unknown).toMatch(never)
    expect(unknown).toMatch(/with a number, .*with a list, or with an object, .*without a value/)
    expect(unknown).toMatch(/add a policy with \[\*\] after the key and the quantifier any\./)
    expect(await warned('client:send_mail', { key: 'to', operator: 'notEqual' })).toMatch(
      /: a call without a value there/,
    )
    expect(await warned('client:send_mail', { key: 'to[*]', quantifier: 'none' })).toBe('')
    const wildcard = await warned('client:send_mail', { key: 'to[*]', quantifier: 'any' })
    expect(wildcard).toMatch(/with a text/)
    expect(wildcard).not.toMatch(/after the key/)
  })
})
