import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { teamsOf } from '../support/teams.ts'
import { openWorkspaceApp, sh } from '../support/workspaces.ts'

let app: TestApp
const { create, assign, results, receive, status, refused, act } = teamsOf(() => app)
beforeAll(async () => {
  app = await openWorkspaceApp()
  await create('crew', ['ann', 'bob'])
})
afterAll(() => app[Symbol.asyncDispose]())
const inAnn = (command: string) => sh(app, 'crew-ann', command)

describe('a task', () => {
  it('is run where it was assigned to, and its result has the documented shape', async () => {
    const task = {
      task_id: 'task-001',
      command: 'echo "$RUST_LOG $(pwd) $(hostname)"; echo oops >&2',
      env: { RUST_LOG: 'debug' },
    }
    const { message_id, ...sent } = await assign('crew', 'ann', task)
    expect(sent).toEqual({
      action: 'message',
      status: 'delivered',
      from: 'coordinator',
      to: 'ann',
      recipients: ['ann'],
      message_type: 'task_assignment',
    })
    expect(await results('crew', 'ann', 1)).toEqual([
      {
        task_id: 'task-001',
        success: true,
        exit_code: 0,
        stdout: 'debug /workspace crew-ann\n',
        stderr: 'oops\n',
        elapsed_secs: 0,
        source_message_id: message_id,
      },
    ])
    expect(await receive('crew', 'ann')).toEqual({
      action: 'receive',
      agent: 'ann',
      messages: [],
      count: 0,
      daemon_results: [],
      daemon_pending_tasks: 0,
      remaining_messages: 0,
      remaining_results: 0,
    })
  })

  it('reports the exit code, or the signal as a shell would', async () => {
    await assign('crew', 'ann', { task_id: 'exit', command: 'exit 3' })
    await assign('crew', 'ann', { task_id: 'signal', command: 'kill -TERM $$' })
    const ended = await results('crew', 'ann', 2)
    expect(ended.map(({ task_id, success, exit_code }) => [task_id, success, exit_code]).sort()).toEqual([
      ['exit', false, 3],
      ['signal', false, 143],
    ])
  })

  it('is ended when its time is up, with what it printed and all its children', async () => {
    await assign('crew', 'ann', { task_id: 't', command: 'echo begun; sleep 700 & sleep 700', timeout_secs: 1 })
    const [ended] = await results('crew', 'ann', 1)
    expect(ended).toMatchObject({ success: false, exit_code: 137, stdout: 'begun\n', elapsed_secs: 1 })
    expect(ended!.stderr).toBe('[ended after 1 s, its timeout_secs]\n')
    expect((await inAnn('ps -e -o args= | grep -c "[s]leep 700"')).stdout).toBe('0\n')
  })

  it('that cannot be run says so', async () => {
    await assign('crew', 'ann', { task_id: 't', command: 'true', workdir: '/nowhere' })
    const [ended] = await results('crew', 'ann', 1)
    expect(ended).toMatchObject({ task_id: 't', success: false, exit_code: -1, stdout: '', elapsed_secs: 0 })
    expect(ended!.stderr).toContain('/nowhere')
  })

  it('sees what set_env keeps, and its own variables win', async () => {
    await app.ask('set_env', { workspace_id: 'crew-ann', vars: { KEPT: 'kept', MINE: 'kept' } })
    await assign('crew', 'ann', {
      task_id: 't',
      command: 'echo $KEPT $MINE; pwd',
      env: { MINE: 'own' },
      workdir: '/tmp',
    })
    expect((await results('crew', 'ann', 1))[0]!.stdout).toBe('kept own\n/tmp\n')
  })

  it('that prints much keeps the beginning and the end, whole characters, and says what is missing', async () => {
    const command =
      'i=0; while [ $i -lt 30000 ]; do echo "zeile ü $i"; i=$((i+1)); done; head -c 9500000 /dev/zero >&2; echo end >&2'
    await assign('crew', 'ann', { task_id: 't', command })
    const [{ stdout, stderr } = { stdout: '', stderr: '' }] = await results('crew', 'ann', 1)
    expect(stdout).toMatch(/^zeile ü 0\n/)
    expect(stdout).toMatch(/\n\[\.\.\. \d+ bytes left out \.\.\.\]\n/)
    expect(stdout).toMatch(/zeile ü 29999\n$/)
    expect(stdout).not.toContain('\ufffd')
    expect(Buffer.byteLength(stdout)).toBeLessThan(66_000)
    expect(stderr).toMatch(/bytes left out \.\.\.\]\n\0*end\n$/)
    expect(stderr.startsWith('\n[...')).toBe(true)
  })

  it('leaves no job behind in the workspace', async () => {
    const jobs = async () =>
      (await app.ask<{ jobs: object[] }>('exec_background', { workspace_id: 'crew-ann', action: 'list' })).jobs
    await expect.poll(jobs).toEqual([])
  })
})

describe('tasks', () => {
  it('run four at once; the others wait in their order, and all are counted', async () => {
    const command = 'touch /started-$N; while [ ! -e /go ]; do sleep 0.05; done; echo $N >> /order'
    for (let n = 1; n <= 6; n++) await assign('crew', 'bob', { task_id: `t${n}`, command, env: { N: String(n) } })
    const inBob = (text: string) => sh(app, 'crew-bob', text)
    await expect.poll(async () => (await inBob('ls / | grep -c started')).stdout).toBe('4\n')
    expect((await receive('crew', 'bob')).daemon_pending_tasks).toBe(6)
    const { members } = await status('crew')
    expect(
      members.map(({ name, agent_status, running_tasks, queued_tasks }) => [
        name,
        agent_status,
        running_tasks,
        queued_tasks,
      ]),
    ).toEqual([
      ['ann', 'idle', 0, 0],
      ['bob', 'working', 4, 2],
    ])
    expect((await inBob('ls / | grep started')).stdout).toBe('started-1\nstarted-2\nstarted-3\nstarted-4\n')
    await inBob('touch /go')
    expect((await results('crew', 'bob', 6)).map(({ task_id }) => task_id).sort()).toEqual([
      ...['t1', 't2', 't3', 't4', 't5', 't6'],
    ])
  })

  it('are not among the messages and take none of their room', async () => {
    await assign('crew', 'ann', { task_id: 't', command: 'true' })
    await act('message', { name: 'crew', agent: 'bob', to: 'ann', content: 'hello' })
    const received = await receive('crew', 'ann', { limit: 1 })
    expect(received.messages.map(({ content }) => content)).toEqual(['hello'])
    if (received.daemon_results.length === 0) await results('crew', 'ann', 1)
  })

  it('go to all members with one message', async () => {
    const { message_id } = await assign('crew', '*', { task_id: 'all', command: 'hostname' })
    for (const agent of ['ann', 'bob']) {
      expect(await results('crew', agent, 1)).toMatchObject([
        { task_id: 'all', stdout: `crew-${agent}\n`, source_message_id: message_id },
      ])
    }
  })

  it.each([
    ['no JSON', 'make test', 'content'],
    ['no object', '["t"]', 'content'],
    ['no id', '{"command":"true"}', 'content.task_id'],
    ['no command', '{"task_id":"t"}', 'content.command'],
    ['another field', '{"task_id":"t","command":"true","cwd":"/"}', 'content.cwd'],
    ['a relative directory', '{"task_id":"t","command":"true","workdir":"src"}', 'content.workdir'],
    ['a variable that is none', '{"task_id":"t","command":"true","env":{"A":1}}', 'content.env'],
    ['a forbidden variable', '{"task_id":"t","command":"true","env":{"LD_PRELOAD":"x"}}', 'content.env'],
    ['half a second', '{"task_id":"t","command":"true","timeout_secs":0.5}', 'content.timeout_secs'],
    ['two days', '{"task_id":"t","command":"true","timeout_secs":172800}', 'content.timeout_secs'],
    ['a zero byte', '{"task_id":"t","command":"a\\u0000b"}', 'content.command'],
  ])('with %s are refused at once', async (_what, content, field) => {
    const args = { name: 'crew', agent: 'bob', to: 'ann', content, message_type: 'task_assignment' }
    expect(await refused('message', args)).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field } })
    expect((await receive('crew', 'ann')).daemon_pending_tasks).toBe(0)
  })

  it('cannot be assigned to the owner, nor by a caller who may not run commands', async () => {
    const content = '{"task_id":"t","command":"true"}'
    const task = { name: 'crew', agent: 'ann', content, message_type: 'task_assignment' }
    expect(await refused('message', { ...task, to: 'owner' })).toMatchObject({ details: { field: 'to' } })
    const key = await app.keyCaller({ role: 'admin', scopes: ['team:update', 'team:read', 'team:admin'] })
    expect(await teamsOf(() => app, key).refused('message', { ...task, to: 'bob' })).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
      details: { permission: 'workspace:exec' },
    })
  })

  it('wait for a workspace that is stopped; those that ran in it are over', async () => {
    await assign('crew', 'ann', { task_id: 'running', command: 'touch /is-running; sleep 600' })
    await expect.poll(async () => (await inAnn('ls /')).stdout).toContain('is-running')
    await app.ask('workspace_stop', { workspace_id: 'crew-ann' })
    await assign('crew', 'ann', { task_id: 'waiting', command: 'echo woken' })
    const [ended] = await results('crew', 'ann', 1)
    expect(ended).toMatchObject({ task_id: 'running', success: false })
    expect([137, 143], 'killed, or ended in order while the workspace stopped').toContain(ended!.exit_code)
    expect((await status('crew')).members[0]).toMatchObject({ agent_status: 'stopped', queued_tasks: 1 })
    await app.ask('workspace_start', { workspace_id: 'crew-ann' })
    expect(await results('crew', 'ann', 1)).toMatchObject([{ task_id: 'waiting', stdout: 'woken\n' }])
  })

  it('are bounded for each agent, with the results that nobody received', async () => {
    await create('full', ['one'])
    for (let n = 0; n < 100; n++) await assign('full', 'one', { task_id: `t${n}`, command: 'true' })
    const task = { name: 'full', agent: 'owner', to: 'one', content: '{"task_id":"t","command":"true"}' }
    const message_type = 'task_assignment'
    expect(await refused('message', { ...task, message_type })).toMatchObject({ code: 'ERR_INBOX_FULL' })
    expect((await results('full', 'one', 100)).map(({ task_id }) => task_id)).toHaveLength(100)
    await act('message', { ...task, message_type })
    await act('destroy', { name: 'full' })
  })

  it('of a workspace that was destroyed by itself end, and new ones are refused', async () => {
    await create('half', ['a', 'b'])
    await app.ask('workspace_stop', { workspace_id: 'half-a' })
    await assign('half', 'a', { task_id: 'lost', command: 'true' })
    await app.ask('workspace_destroy', { workspace_id: 'half-a' })
    expect(await results('half', 'a', 1)).toMatchObject([{ task_id: 'lost', exit_code: -1 }])
    const task = { name: 'half', agent: 'b', to: 'a', content: '{"task_id":"t","command":"true"}' }
    expect((await refused('message', { ...task, message_type: 'task_assignment' })).code).toBe(
      'ERR_WORKSPACE_NOT_FOUND',
    )
    expect((await status('half')).members[0]).toMatchObject({ workspace_state: 'gone', agent_status: 'failed' })
    await act('destroy', { name: 'half' })
  })

  it('go on while the server is away, and their results are there when it is back', async () => {
    await assign('crew', 'ann', { task_id: 'long', command: 'while [ ! -e /finish ]; do sleep 0.05; done; echo done' })
    await assign('crew', 'bob', { task_id: 'short', command: 'while [ ! -e /finish ]; do sleep 0.05; done; echo done' })
    await expect
      .poll(async () => (await status('crew')).members.map((member) => member['running_tasks']))
      .toEqual([1, 1])
    await app.ask('exec_background', { workspace_id: 'crew-bob', action: 'start', command: 'sleep 0.2; touch /finish' })
    app = await app.restart()
    expect((await receive('crew', 'ann')).daemon_pending_tasks).toBe(1)
    await inAnn('touch /finish')
    expect(await results('crew', 'ann', 1)).toMatchObject([{ task_id: 'long', success: true, stdout: 'done\n' }])
    expect(await results('crew', 'bob', 1)).toMatchObject([{ task_id: 'short', success: true, stdout: 'done\n' }])
  })
})
