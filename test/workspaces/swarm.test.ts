import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { limits } from '../../src/contract/limits.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import type { Answer, TestApp } from '../support/app.ts'
import { destroyAll, info, namesFor, openWorkspaceApp, rowsFor, sh } from '../support/workspaces.ts'

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp({ config: { 'workspaces.quota.workspaces': 3 } })
})
afterEach(() => destroyAll(app))
afterAll(() => app[Symbol.asyncDispose]())

type TaskResult = Answer & { name: string; queued_ms: number; elapsed_ms: number; stdout: string }
type Swarm = Answer & { tasks: TaskResult[]; workers: Answer[]; summary: Answer; merge: Answer | null }
const golden = { golden_workspace: 'gold', snapshot_name: 'golden' }
const swarm = (args: object, caller?: ToolCaller) => app.ask<Swarm>('swarm_run', { ...golden, ...args }, caller)
const refusal = (args: object, caller?: ToolCaller) => app.refusal('swarm_run', { ...golden, ...args }, caller)
const task = (name: string, command: string, more: object = {}) => ({ name, command, ...more })

const prepare = (setup: readonly string[] = [], caller?: ToolCaller) =>
  app.ask('workspace_prepare', { name: 'gold', setup_commands: setup }, caller)

/** Ends when the test lets it: the file appears from outside. */
const waiting = 'until [ -e /go ]; do sleep 0.05; done; echo went'
const letGo = (name: string) => app.ask('file_write', { workspace_id: name, path: '/go', content: '' })
const workerOf = async (taskName: string): Promise<string> =>
  (await namesFor(app)).find((name) => name.startsWith('swarm-') && name.endsWith(`-${taskName}`))!

describe('swarm_run', () => {
  it('runs each task in a fork of its own and answers in the order of the call', async () => {
    await prepare(['echo base > state'])
    const answer = await swarm({
      tasks: [
        task('slow', 'sleep 0.5; cat state; echo changed > state; pwd'),
        task('not good', 'cat state; echo oh >&2; exit 4', { workdir: '/workspace' }),
        task('killed', 'kill -9 $$'),
      ],
    })
    expect(answer.tasks).toMatchObject([
      { name: 'slow', success: true, exit_code: 0, stdout: 'base\n/workspace\n', timed_out: false, error: null },
      { name: 'not good', success: false, exit_code: 4, stdout: 'base\n', stderr: 'oh\n', signal: null },
      { name: 'killed', success: false, exit_code: 137, signal: 'SIGKILL' },
    ])
    expect(answer.tasks[0]?.['workspace_name']).toBe(`${answer['swarm_id']}-slow`)
    expect(answer.tasks[1]?.['workspace_name']).toBe(`${answer['swarm_id']}-not-good`)
    expect(answer.summary).toMatchObject({ total_tasks: 3, succeeded: 1, failed: 2, workers_destroyed: 3 })
    expect(answer).toMatchObject({ merge: null, workers: [] })
    expect(await namesFor(app)).toEqual(['gold'])
    expect((await sh(app, 'gold', 'cat /workspace/state')).stdout).toBe('base\n')
  })

  it('begins a task when its fork is up, has no more than max_parallel at work, and counts waiting apart', async () => {
    await prepare()
    const events: string[] = []
    const answer = await app.call(
      'swarm_run',
      {
        ...golden,
        max_parallel: 1,
        timeout_secs: 2,
        tasks: [task('a', 'sleep 60'), task('b', 'echo b'), task('c', 'echo c')],
      },
      undefined,
      { progress: ({ message = '' }) => /^[abc]: /.test(message) && events.push(message) },
    )
    expect(events).toEqual([
      'a: its fork is up',
      'a: ran out of time; 1 of 3 tasks ended',
      'b: its fork is up',
      'b: exit code 0; 2 of 3 tasks ended',
      'c: its fork is up',
      'c: exit code 0; 3 of 3 tasks ended',
    ])
    const { tasks, summary } = JSON.parse(answer.json) as Swarm
    expect(tasks).toMatchObject([{ timed_out: true, success: false }, { success: true }, { success: true }])
    expect(summary).toMatchObject({ timed_out: 1, failed: 1 })
    // Longer in the queue than a task may run.
    for (const late of tasks.slice(1)) expect(late.queued_ms).toBeGreaterThan(2_000)
    for (const late of tasks.slice(1)) expect(late.elapsed_ms).toBeLessThan(late.queued_ms)
  })

  it('has as many at work at once as it may', async () => {
    await prepare()
    const running = swarm({ max_parallel: 2, tasks: ['a', 'b', 'c'].map((name) => task(name, waiting)) })
    await expect.poll(async () => (await rowsFor(app)).filter(({ state }) => state === 'running').length).toBe(3)
    expect(await workerOf('c')).toBeUndefined()
    await letGo(await workerOf('b'))
    await expect.poll(() => workerOf('c')).toBeDefined()
    expect(await workerOf('b')).toBeUndefined()
    await expect.poll(async () => (await rowsFor(app)).every(({ state }) => state === 'running')).toBe(true)
    for (const name of ['a', 'c']) await letGo(await workerOf(name))
    expect((await running).tasks.map(({ stdout }) => stdout)).toEqual(['went\n', 'went\n', 'went\n'])
  })

  it('gives the variables of the golden workspace, of the swarm and of the task, the last one winning', async () => {
    await app.ask('workspace_create', { name: 'gold' })
    await app.ask('set_env', { workspace_id: 'gold', vars: { A: 'golden', B: 'golden', C: 'golden' } })
    await prepare()
    const command = 'echo $A $B $C; cat $SHARED_CONTEXT'
    const answer = await swarm({
      env_vars: { B: 'swarm', C: 'swarm' },
      shared_context: 'know this\n',
      tasks: [task('one', command, { env: { C: 'task' } }), task('two', command)],
    })
    expect(answer.tasks.map(({ stdout }) => stdout)).toEqual([
      'golden swarm task\nknow this\n',
      'golden swarm swarm\nknow this\n',
    ])
  })

  it('keeps the workers when it shall, and they stay when the server begins anew', async () => {
    await prepare()
    const answer = await swarm({
      cleanup: false,
      allow_internet: true,
      tasks: [task('a', 'echo a > /a'), task('b', 'false')],
    })
    const names = answer.tasks.map((one) => one['workspace_name'])
    expect(answer.workers).toMatchObject([{ name: names[0], error: null }, { name: names[1] }])
    expect(answer.summary).toMatchObject({ workers_destroyed: 0 })
    expect((await info(app, String(names[0]))).network).toMatchObject({ allow_internet: true })
    app = await app.restart()
    expect((await namesFor(app)).toSorted()).toEqual(['gold', ...names].toSorted())
    expect((await sh(app, String(names[0]), 'cat /a')).stdout).toBe('a\n')
  })

  it('fits the output of all tasks into one answer', async () => {
    await prepare()
    const noise = `head -c 700000 /dev/zero | tr '\\0' '\\1'; head -c 700000 /dev/zero | tr '\\0' '\\2' >&2`
    const tasks = Array.from({ length: limits.workspaceBatchMax }, (_, index) => task(`t${index}`, noise))
    const answer = await swarm({ max_parallel: 5, tasks })
    expect(answer.summary).toMatchObject({ succeeded: limits.workspaceBatchMax })
    expect(answer.tasks[7]).toMatchObject({ truncated: true, stdout_bytes: 700_000, stderr_bytes: 700_000 })
  })

  it('begins at the root where there is no /workspace', async () => {
    await app.ask('workspace_create', { name: 'gold' })
    await sh(app, 'gold', 'rmdir /workspace')
    await app.ask('snapshot', { workspace_id: 'gold', action: 'create', name: 'bare' })
    const { tasks } = await swarm({ snapshot_name: 'bare', tasks: [task('one', 'pwd')] })
    expect(tasks).toMatchObject([{ stdout: '/\n' }])
  })

  it('is in the log with what became of each task', async () => {
    await prepare()
    const answer = await swarm({ tasks: [task('one', 'exit 7')] })
    expect((await app.log()).findLast(({ tool }) => tool === 'swarm_run')?.effects).toMatchObject([
      { kind: 'swarm_ran', body: { swarm_id: answer['swarm_id'], tasks: [{ name: 'one', exit_code: 7 }] } },
    ])
  })
})

describe('a swarm that cannot do all', () => {
  it('is refused before any fork when its arguments, its snapshot or its rights are wrong', async () => {
    await prepare()
    const ok = task('a', 'true')
    const code = async (args: object, caller?: ToolCaller) => (await refusal(args, caller)).code
    expect(await code({ tasks: [] })).toBe('ERR_INVALID_INPUT')
    expect((await refusal({ tasks: [ok, ok] })).message).toMatch(/^tasks\.1\.name: 'a' occurs twice/)
    expect((await refusal({ tasks: [ok], env_vars: { PATH: 'x' } })).details).toMatchObject({ field: 'env_vars' })
    expect(await code({ tasks: [ok], snapshot_name: 'none' })).toBe('ERR_SNAPSHOT_NOT_FOUND')
    expect(await code({ tasks: [ok], golden_workspace: 'none' })).toBe('ERR_WORKSPACE_NOT_FOUND')
    expect(await code({ tasks: [ok] }, await app.keyCaller())).toBe('ERR_WORKSPACE_NOT_FOUND')
    expect(await code({ tasks: [ok] }, await app.keyCaller({ scopes: ['workspace:create'] }))).toBe(
      'ERR_PERMISSION_DENIED',
    )
    expect(await namesFor(app)).toEqual(['gold'])
  })

  it('goes on with those that could be forked, and fails only when none could', async () => {
    const ann = await app.keyCaller()
    await prepare([], ann)
    const tasks = ['a', 'b', 'c', 'd'].map((name) => task(name, waiting))
    const running = swarm({ max_parallel: 4, tasks }, ann)
    const workers = async () => (await rowsFor(app)).filter(({ name, state }) => name !== 'gold' && state === 'running')
    await expect.poll(async () => (await workers()).length).toBe(2)
    for (const { workspace_id } of await workers()) {
      await app.ask('file_write', { workspace_id, path: '/go', content: '' }, ann)
    }
    const answer = await running
    expect(answer.summary).toMatchObject({ succeeded: 2, failed: 2, workers_destroyed: 2 })
    const failed = answer.tasks.filter(({ success }) => success === false)
    expect(failed).toMatchObject([
      { workspace_id: null, exit_code: null, error: { code: 'ERR_QUOTA_EXCEEDED' } },
      { workspace_id: null, exit_code: null, error: { code: 'ERR_QUOTA_EXCEEDED' } },
    ])
    for (const name of ['x', 'y']) await app.ask('workspace_create', { name }, ann)
    expect(await refusal({ tasks }, ann)).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      message: expect.stringMatching(/^None of the 4 workers could be forked\. Your quota of workspaces/),
      details: { failures: [{ name: 'a', code: 'ERR_QUOTA_EXCEEDED' }, {}, {}, {}] },
    })
    expect((await namesFor(app, ann)).toSorted()).toEqual(['gold', 'x', 'y'])
  })

  it('needs no more room than its parallel tasks, because workers go when they are not needed', async () => {
    const ann = await app.keyCaller()
    await prepare([], ann)
    const tasks = ['a', 'b', 'c', 'd', 'e'].map((name) => task(name, 'true'))
    expect((await swarm({ max_parallel: 2, tasks }, ann)).summary).toMatchObject({ succeeded: 5 })
  })

  it('has a result also for a task whose worker was taken away', async () => {
    await prepare()
    const running = swarm({ tasks: [task('lost', 'sleep 60'), task('kept', waiting)] })
    await expect.poll(async () => (await rowsFor(app)).filter(({ state }) => state === 'running').length).toBe(3)
    await app.ask('workspace_destroy', { workspace_id: await workerOf('lost') })
    await letGo(await workerOf('kept'))
    expect((await running).tasks).toMatchObject([
      { name: 'lost', success: false, exit_code: null, error: { code: 'ERR_WORKSPACE_STATE' } },
      { name: 'kept', success: true },
    ])
    expect(await namesFor(app)).toEqual(['gold'])
  })

  it.each([true, false])('leaves nothing when it is cancelled, cleanup being %s', async (cleanup) => {
    await prepare()
    const cancel = new AbortController()
    const tasks = ['a', 'b', 'c', 'd'].map((name) => task(name, 'sleep 60'))
    const running = app.call('swarm_run', { ...golden, tasks, cleanup, max_parallel: 2 }, undefined, {
      signal: cancel.signal,
    })
    await expect.poll(async () => (await rowsFor(app)).filter(({ state }) => state === 'running').length).toBe(3)
    cancel.abort()
    expect((await running).failure?.code).toBe('ERR_CANCELLED')
    expect(await namesFor(app)).toEqual(['gold'])
  })
})
