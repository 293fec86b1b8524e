import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Progress } from '../../src/contract/call.ts'
import { limits } from '../../src/contract/limits.ts'
import type { Answer, TestApp } from '../support/app.ts'
import { info, type Outcome, openWorkspaceApp, sh } from '../support/workspaces.ts'

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp()
  for (const name of ['w', 'x']) await app.ask('workspace_create', { name })
})
afterAll(() => app[Symbol.asyncDispose]())
const inW = (command: string, more: object = {}) => sh(app, 'w', command, more)

describe('exec', () => {
  it('answers exit code, both streams and how much they were', async () => {
    expect(await inW('echo out; echo err >&2; exit 3')).toMatchObject({
      exit_code: 3,
      signal: null,
      stdout: 'out\n',
      stderr: 'err\n',
      stdout_bytes: 4,
      stderr_bytes: 4,
      truncated: false,
      timed_out: false,
      limits_hit: [],
    })
  })

  it('finds itself by its own name, and has an author to commit as', async () => {
    const serve = "perl -MSocket -e 'print inet_ntoa(scalar gethostbyname(`hostname` =~ s/\\s//r))'"
    expect(await inW(`${serve}; getent hosts "$(hostname)" | wc -l`)).toMatchObject({ stdout: '127.0.1.11\n' })
    const commit = 'cd "$(mktemp -d)" && git init -q && git commit -q --allow-empty -m x && git log -1 --format=%ae'
    expect(await inW(commit)).toMatchObject({ stdout: 'castellan@localhost\n', exit_code: 0 })
    expect(await inW(`git config --global user.email me@example.org; ${commit}`)).toMatchObject({
      stdout: 'me@example.org\n',
    })
  })

  it('tells of what a limit ended, which could not say so itself', async () => {
    await app.ask('workspace_create', { name: 'small', memory_mb: 64 })
    const command = `perl -e '$x = "a" x (512 << 20)'`
    const answer = await app.call('exec', { workspace_id: 'small', command })
    expect(answer.json).toContain('"limits_hit":["memory"]')
    expect(JSON.stringify(answer.content)).toContain('its limit is 64 MiB')
    const info = await app.ask('workspace_info', { workspace_id: 'small' })
    expect(info).toMatchObject({ memory_kills: 1, process_refusals: 0, limits: { user_limits: { enforced: true } } })
    const logs = await app.ask('workspace_logs', { workspace_id: 'small' })
    expect(logs['console']).toContain('at the limit of 64 MiB')
    await app.ask('exec_background', { workspace_id: 'small', action: 'start', command: 'sleep 1000' })
    const resized = await app.ask('workspace_resize', { workspace_id: 'small', memory_mb: 2048 })
    expect(resized).toMatchObject({ state: 'running', resources: { memory_mb: 2048 } })
    const larger = `${command}; awk '/^MemTotal/ { print $2 / 1024 }' /proc/meminfo; pgrep -xc sleep`
    expect(await app.ask('exec', { workspace_id: 'small', command: larger })).toMatchObject({
      stdout: '2048\n1\n',
      limits_hit: [],
    })
    const less = { workspace_id: 'small', memory_mb: 128, vcpus: 1 }
    expect(await app.refusal('workspace_resize', less)).toMatchObject({
      code: 'ERR_WORKSPACE_STATE',
      message: expect.stringContaining('stop it'),
    })
    expect(await app.refusal('workspace_resize', { workspace_id: 'small' })).toMatchObject({
      code: 'ERR_INVALID_INPUT',
    })
    expect((await app.refusal('workspace_resize', { ...less, memory_mb: 1_000_000 })).message).toContain('at most')
    await app.ask('workspace_stop', { workspace_id: 'small' })
    expect(await app.ask('workspace_resize', less)).toMatchObject({
      state: 'stopped',
      resources: { vcpus: 1, memory_mb: 128 },
    })
    await app.ask('workspace_start', { workspace_id: 'small' })
    expect(await app.ask('exec', { workspace_id: 'small', command })).toMatchObject({ limits_hit: ['memory'] })
    await app.ask('workspace_destroy', { workspace_id: 'small' })
  })

  it('holds a fork bomb, tells of it, and everybody else goes on', async () => {
    await app.ask('workspace_create', { name: 'bombed' })
    const command = 'f() { f | f & }; f; sleep 2'
    const exploding = app.ask('exec', { workspace_id: 'bombed', command, timeout_secs: 20 })
    expect(await inW('echo alive')).toMatchObject({ stdout: 'alive\n', exit_code: 0 })
    expect(await exploding).toMatchObject({ limits_hit: ['processes'] })
    expect(await inW('echo alive')).toMatchObject({ stdout: 'alive\n', exit_code: 0 })
    const logs = async () => (await app.ask('workspace_logs', { workspace_id: 'bombed' }))['console']
    await expect.poll(logs).toContain('processes: fork bomb')
    const after = await app.ask('exec', { workspace_id: 'bombed', command: 'echo again' })
    expect(after).toMatchObject({ stdout: 'again\n', exit_code: 0 })
    const info = await app.ask<{ process_refusals: number }>('workspace_info', { workspace_id: 'bombed' })
    expect(info.process_refusals).toBeGreaterThan(0)
    const left = async () =>
      (await app.ask('exec', { workspace_id: 'bombed', command: 'ls -d /proc/[0-9]* | wc -l' }))['stdout']
    await expect.poll(async () => Number(await left())).toBeLessThan(20)
    await app.ask('workspace_destroy', { workspace_id: 'bombed' })
  })

  it('tells that a workspace is full of processes, and how to end some', async () => {
    await app.ask('workspace_create', { name: 'full' })
    const command = 'i=0; while [ $i -lt 1100 ]; do sleep 1000 & i=$((i+1)); done'
    await app.ask('exec_background', { workspace_id: 'full', action: 'start', command })
    const info = async () =>
      (await app.ask<{ process_refusals: number }>('workspace_info', { workspace_id: 'full' })).process_refusals
    await expect.poll(info).toBeGreaterThan(0)
    expect(await app.refusal('exec', { workspace_id: 'full', command: 'echo no' })).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      message: expect.stringContaining('exec_background'),
      details: { limit: 'processes' },
    })
    await app.ask('workspace_stop', { workspace_id: 'full' })
    await app.ask('workspace_start', { workspace_id: 'full' })
    expect(await app.ask('exec', { workspace_id: 'full', command: 'echo yes' })).toMatchObject({ stdout: 'yes\n' })
    await app.ask('workspace_destroy', { workspace_id: 'full' })
  })

  it('reports a signal as a shell would', async () => {
    expect(await inW('kill -TERM $$')).toMatchObject({ exit_code: 143, signal: 'SIGTERM' })
  })

  it('takes standard input, and gives none when there is none', async () => {
    expect((await inW('cat', { stdin: 'grüße' })).stdout).toBe('grüße')
    expect((await inW('cat')).stdout).toBe('')
  })

  it('ends a command whose time has run out, with its children, and answers what it printed', async () => {
    const ended = await inW('echo begun; sleep 600 & sleep 600', { timeout_secs: 1 })
    expect(ended).toMatchObject({ timed_out: true, stdout: 'begun\n', exit_code: 137 })
    expect((await inW('ps -e -o args= | grep -c "[s]leep 600"')).stdout).toBe('0\n')
  })

  it('keeps head and tail of much output, with exact counts and whole characters', async () => {
    const much = await inW('i=0; while [ $i -lt 20000 ]; do echo "zeile ü $i"; i=$((i+1)); done', {
      max_output_bytes: 1001,
    })
    expect(much.truncated).toBe(true)
    expect(much.stdout).toMatch(/^zeile ü 0\n/)
    expect(much.stdout).toMatch(/zeile ü 19999\n$/)
    expect(much.stdout).not.toContain('\ufffd')
    const omitted = Number(/\[\.\.\. (\d+) bytes left out \.\.\.\]/.exec(much.stdout)?.[1])
    const displayed = Buffer.byteLength(much.stdout.replace(/\n\[\.\.\. \d+ bytes left out \.\.\.\]\n/, ''))
    expect(displayed + omitted).toBe(much.stdout_bytes)
  })

  it('shows by default what a client can show, and says how to read on', async () => {
    const args = { workspace_id: 'w', command: 'seq 1 20000' }
    const answer = await app.call('exec', args)
    const { stdout, stdout_bytes, truncated } = JSON.parse(answer.json) as Record<string, unknown>
    expect([truncated, stdout_bytes]).toEqual([true, 108_894])
    expect(String(stdout).length).toBeLessThan(limits.execDisplayedBytesDefault + 100)
    expect(String(stdout)).toMatch(/^1\n2\n/)
    expect(String(stdout)).toMatch(/20000\n$/)
    expect(answer.warnings).toEqual([expect.stringMatching(/file_read.*max_output_bytes/)])
    const all = await inW('seq 1 20000', { max_output_bytes: 200_000 })
    expect([all.truncated, all.stdout.length]).toEqual([false, 108_894])
    expect((await app.call('exec', { workspace_id: 'w', command: 'echo short' })).warnings).toBeUndefined()
  })

  it('answers within its bound whatever is printed', async () => {
    const zeros = await inW('head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2', { max_output_bytes: 2_097_152 })
    expect(zeros).toMatchObject({ exit_code: 0, stdout_bytes: 3_000_000, stderr_bytes: 3_000_000, truncated: true })
    const binary = await inW('printf "a\\377b"')
    expect(binary.stdout).toBe('a\ufffdb')
  })

  it('is ended when its caller gives up', async () => {
    const controller = new AbortController()
    const args = { workspace_id: 'w', command: 'echo x > /begun; sleep 900' }
    const running = app.call('exec', args, undefined, { signal: controller.signal })
    await expect.poll(async () => (await inW('test -e /begun')).exit_code).toBe(0)
    controller.abort()
    expect((await running).failure?.code).toBe('ERR_CANCELLED')
    await expect.poll(async () => (await inW('ps -e -o args= | grep -c "[s]leep 900"')).stdout).toBe('0\n')
  })

  it('tells how far it is while it runs', async () => {
    const told: Progress[] = []
    const args = { workspace_id: 'w', command: 'echo half way; sleep 2.5' }
    await app.call('exec', args, undefined, { progress: (update) => told.push(update) })
    expect(told.length).toBeGreaterThanOrEqual(1)
    expect(told.length).toBeLessThanOrEqual(3)
    expect(told[0]?.message).toContain('half way')
    expect(told.map(({ progress }) => progress)).toEqual(told.map(({ progress }) => progress).toSorted((a, b) => a - b))
  })
})

describe('a command without a directory', () => {
  it('begins in /workspace, and in the root directory when there is none', async () => {
    const started = async (): Promise<string> => {
      const { job_id } = await app.ask<{ job_id: number }>('exec_background', {
        workspace_id: 'w',
        action: 'start',
        command: 'pwd',
      })
      const poll = () =>
        app.ask<{ running: boolean; stdout: string }>('exec_background', { workspace_id: 'w', action: 'poll', job_id })
      await expect.poll(async () => (await poll()).running).toBe(false)
      const { stdout } = await poll()
      await app.ask('exec_background', { workspace_id: 'w', action: 'remove', job_id })
      return stdout
    }
    expect([(await inW('pwd')).stdout, await started()]).toEqual(['/workspace\n', '/workspace\n'])
    await inW('mv /workspace /elsewhere', { workdir: '/' })
    expect([(await inW('cat; pwd', { stdin: 'x' })).stdout, await started()]).toEqual(['x/\n', '/\n'])
    expect((await app.refusal('exec', { workspace_id: 'w', command: 'pwd', workdir: '/workspace' })).code).toBe(
      'ERR_INVALID_INPUT',
    )
    await inW('mv /elsewhere /workspace')
    expect((await inW('pwd')).stdout).toBe('/workspace\n')
  })
})

describe('the environment', () => {
  it('has defaults, then what set_env keeps, then what the command brings; and it outlives a restart of the workspace', async () => {
    const displayed = 'echo $HOME:$LANG:$TERM:$KEPT:$MINE'
    expect(
      await app.ask('set_env', { workspace_id: 'w', vars: { KEPT: 'one', MINE: 'kept', TERM: 'vt100' } }),
    ).toMatchObject({
      count: 3,
      status: 'set',
    })
    expect((await inW(displayed, { env: { MINE: 'own' } })).stdout).toBe('/root:C.UTF-8:vt100:one:own\n')
    await app.ask('workspace_stop', { workspace_id: 'w' })
    await app.ask('workspace_start', { workspace_id: 'w' })
    expect((await inW(displayed)).stdout).toBe('/root:C.UTF-8:vt100:one:kept\n')
    expect(await app.ask('set_env', { workspace_id: 'w', vars: {}, unset: ['KEPT', 'MINE', 'TERM'] })).toMatchObject({
      names: [],
    })
  })

  it.each(['PATH', 'IFS', 'ENV', 'BASH_ENV', 'LD_PRELOAD', '1A', 'A-B', ''])(
    'refuses %j in set_env and in a command alike',
    async (name) => {
      const vars = { GOOD: 'x', [name]: 'y' }
      expect((await app.refusal('set_env', { workspace_id: 'w', vars })).code).toBe('ERR_INVALID_INPUT')
      expect((await app.refusal('exec', { workspace_id: 'w', command: 'true', env: vars })).code).toBe(
        'ERR_INVALID_INPUT',
      )
      expect((await inW('echo $GOOD')).stdout).toBe('\n')
    },
  )
})

describe('exec_parallel', () => {
  it('runs in all at once, in order, and reports one that cannot run beside the others', async () => {
    const answer = await app.ask<{ results: (Outcome & Answer)[]; summary: Answer }>('exec_parallel', {
      workspace_ids: ['x', 'nowhere', 'w'],
      commands: ['hostname', 'true', 'exit 2'],
    })
    expect(answer.results).toMatchObject([
      { workspace_name: 'x', stdout: 'x\n', exit_code: 0, error: null },
      { workspace_id: 'nowhere', exit_code: -1, error: { code: 'ERR_WORKSPACE_NOT_FOUND' } },
      { workspace_name: 'w', exit_code: 2 },
    ])
    expect(answer.results[1]!.stderr).toContain('workspace_list')
    expect(answer.summary).toMatchObject({ total: 3, succeeded: 1, failed: 2, timed_out: 0 })
  })

  it('takes one command for all, and refuses a list of another length', async () => {
    const answer = await app.ask<{ results: Outcome[] }>('exec_parallel', {
      workspace_ids: ['w', 'x'],
      commands: 'hostname',
    })
    expect(answer.results.map(({ stdout }) => stdout)).toEqual(['w\n', 'x\n'])
    const short = { workspace_ids: ['w', 'x'], commands: ['true'] }
    expect(await app.refusal('exec_parallel', short)).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      details: { field: 'commands' },
    })
  })
})

describe('exec_background', () => {
  const job = (args: object) => app.ask('exec_background', { workspace_id: 'w', ...args })

  it('gives increments while the job runs and keeps the finished job until it is removed', async () => {
    const { job_id } = await job({ action: 'start', command: 'mkfifo /go; echo ü1; read x < /go; echo ü2; exit 5' })
    await expect.poll(async () => (await job({ action: 'poll', job_id }))['stdout']).toBe('ü1\n')
    const first = await job({ action: 'poll', job_id })
    expect(first).toMatchObject({ running: true, exit_code: null, stdout: 'ü1\n', more: false })
    expect(await job({ action: 'poll', job_id, cursor: first['cursor'] })).toMatchObject({ stdout: '' })
    expect(await app.refusal('exec_background', { workspace_id: 'w', action: 'remove', job_id })).toMatchObject({
      code: 'ERR_JOB_RUNNING',
    })
    expect(await job({ action: 'list' })).toMatchObject({ jobs: [{ job_id, running: true }] })
    await job({ action: 'kill', job_id, signal: 15 })
    await expect.poll(async () => (await job({ action: 'poll', job_id }))['running']).toBe(false)
    expect(await job({ action: 'poll', job_id })).toMatchObject({
      stdout: expect.stringContaining('ü1'),
      running: false,
    })
    // By then there is nothing to kill.
    expect(await job({ action: 'kill', job_id })).toMatchObject({
      status: 'ended',
      running: false,
      signal_name: 'SIGTERM',
    })
    expect(await job({ action: 'remove', job_id })).toMatchObject({ status: 'removed' })
    expect((await app.refusal('exec_background', { workspace_id: 'w', action: 'poll', job_id })).code).toBe(
      'ERR_JOB_NOT_FOUND',
    )
  })

  it('shows what each job runs, shortened, while it runs and afterwards', async () => {
    const long = `exec sleep 1000 # ${'x'.repeat(500)}`
    const { job_id } = await job({ action: 'start', command: long })
    const displayed = `${long.slice(0, 199)}…`
    expect(await job({ action: 'poll', job_id })).toMatchObject({ command: displayed })
    const listed = { jobs: expect.arrayContaining([expect.objectContaining({ job_id, command: displayed })]) }
    expect(await job({ action: 'list' })).toMatchObject(listed)
    expect(await info(app, 'w')).toMatchObject(listed)
    await job({ action: 'kill', job_id })
    await expect.poll(async () => (await job({ action: 'poll', job_id }))['running']).toBe(false)
    expect(await job({ action: 'poll', job_id })).toMatchObject({ command: displayed })
    await job({ action: 'remove', job_id })
  })

  it('never cuts a character between two polls', async () => {
    const { job_id } = await job({ action: 'start', command: 'printf "äöü"' })
    await expect.poll(async () => (await job({ action: 'poll', job_id }))['running']).toBe(false)
    let text = ''
    let cursor: unknown
    for (let more = true; more; ) {
      const page = await job({
        action: 'poll',
        job_id,
        max_output_bytes: 3,
        ...(cursor === undefined ? {} : { cursor }),
      })
      text += page['stdout']
      cursor = page['cursor']
      more = page['more'] as boolean
    }
    expect(text).toBe('äöü')
  })

  it('says what an action needs, and does not know jobs of others', async () => {
    for (const [action, field] of [
      ['start', 'command'],
      ['poll', 'job_id'],
      ['kill', 'job_id'],
      ['remove', 'job_id'],
    ]) {
      expect(await app.refusal('exec_background', { workspace_id: 'w', action })).toMatchObject({ details: { field } })
    }
    const { job_id } = await app.ask('exec_background', { workspace_id: 'x', action: 'start', command: 'sleep 99' })
    const other = { workspace_id: 'w', job_id: Number(job_id) + 1000 }
    expect((await app.refusal('exec_background', { ...other, action: 'kill' })).code).toBe('ERR_JOB_NOT_FOUND')
    expect(await app.refusal('exec_background', { ...other, action: 'poll', cursor: 'x' })).toMatchObject({
      details: { field: 'cursor' },
    })
  })

  it('goes on when the server is gone', async () => {
    const { job_id } = await job({ action: 'start', command: 'echo before; sleep 1; echo after' })
    app = await app.restart()
    await expect.poll(async () => (await job({ action: 'poll', job_id }))['stdout']).toBe('before\nafter\n')
  })
})
