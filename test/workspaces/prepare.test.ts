import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { localOwner } from '../../src/contract/principal.ts'
import { type Answer, callerOf, type TestApp } from '../support/app.ts'
import { destroyAll, info, namesFor, openWorkspaceApp, rowsFor, sh } from '../support/workspaces.ts'

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp()
})
afterEach(() => destroyAll(app))
afterAll(() => app[Symbol.asyncDispose]())

type Prepared = Answer & { workspace_id: string; snapshot_id: string; commands: Answer[] }
const prepare = (args: object = {}) => app.ask<Prepared>('workspace_prepare', { name: 'gold', ...args })
const refusal = (args: object = {}) => app.refusal('workspace_prepare', { name: 'gold', ...args })

/** Ends when the test lets it: the file appears from outside. */
const waiting = 'until [ -e /go ]; do sleep 0.05; done'

describe('workspace_prepare', () => {
  it('runs the commands in order in /workspace, with variables that are not kept, and takes the snapshot', async () => {
    const answer = await prepare({ setup_commands: ['pwd > at', 'echo "$WORD $(cat at)" > both'], env: { WORD: 'is' } })
    expect(answer).toMatchObject({ name: 'gold', state: 'running', snapshot_name: 'golden', reused_existing: false })
    expect(answer).toMatchObject({ repository: null, base_image: 'host' })
    expect(answer.commands).toMatchObject([
      { command: 'pwd > at', exit_code: 0 },
      { command: 'echo "$WORD $(cat at)" > both', exit_code: 0 },
    ])
    expect((await sh(app, 'gold', 'cat /workspace/both; echo "[$WORD]"')).stdout).toBe('is /workspace\n[]\n')
    await app.ask('workspace_fork', { workspace_id: 'gold', snapshot_name: 'golden', new_name: 'copy' })
    expect((await sh(app, 'copy', 'cat /workspace/both')).stdout).toBe('is /workspace\n')
    expect((await app.log()).find(({ tool }) => tool === 'workspace_prepare')).toMatchObject({
      effects: [{ kind: 'workspace_prepared', body: { name: 'gold', snapshot_id: answer.snapshot_id } }],
    })
  })

  it('is answered at once when it was done before, and does nothing again', async () => {
    const first = await prepare({ setup_commands: ['echo once >> log'] })
    await app.ask('workspace_stop', { workspace_id: 'gold' })
    const again = await app.call('workspace_prepare', { name: 'gold', base_image: 'other', setup_commands: ['false'] })
    expect(JSON.parse(again.json)).toMatchObject({
      workspace_id: first.workspace_id,
      snapshot_id: first.snapshot_id,
      state: 'stopped',
      reused_existing: true,
      commands: [],
    })
    expect(JSON.stringify(again.content)).toContain("already exists with the image 'host'")
  })

  it('uses a workspace of the caller that has no such snapshot yet, also a stopped one', async () => {
    await app.ask('workspace_create', { name: 'gold' })
    await sh(app, 'gold', 'echo before > /workspace/kept')
    await app.ask('workspace_stop', { workspace_id: 'gold' })
    expect(await prepare({ setup_commands: ['cat kept'] })).toMatchObject({ reused_existing: true, state: 'running' })
    const failing = { name: 'other', setup_commands: ['echo half > half', 'exit 9'] }
    await app.ask('workspace_create', { name: 'other' })
    expect((await app.refusal('workspace_prepare', failing)).details).not.toHaveProperty('workspace_destroyed')
    expect((await sh(app, 'other', 'cat /workspace/half')).stdout).toBe('half\n')
    expect((await info(app, 'other')).snapshots).toEqual([])
  })

  it('ends with the first command that fails, tells its output, and leaves nothing', async () => {
    const commands = ['echo one', 'echo out; echo no such thing >&2; exit 3', 'echo never > /workspace/x']
    expect(await refusal({ setup_commands: commands })).toMatchObject({
      code: 'ERR_COMMAND_FAILED',
      message: expect.stringContaining('setup_commands.1: the command exited with code 3'),
      details: {
        field: 'setup_commands.1',
        exit_code: 3,
        stdout_tail: 'out\n',
        stderr_tail: 'no such thing\n',
        workspace_destroyed: true,
      },
    })
    expect(await rowsFor(app)).toEqual([])
    expect(await refusal({ setup_commands: ['sleep 60'], timeout_secs: 1 })).toMatchObject({
      code: 'ERR_COMMAND_FAILED',
      details: { timed_out: true },
    })
    expect(await rowsFor(app)).toEqual([])
  })

  it('refuses what it can before anything is made', async () => {
    expect((await refusal({ git_url: 'ext::sh -c x' })).details).toMatchObject({ field: 'git_url' })
    expect((await refusal({ git_url: 'file:///etc' })).message).toMatch(/^git_url: must begin with https/)
    expect((await refusal({ env: { LD_PRELOAD: 'x' } })).details).toMatchObject({ field: 'env' })
    expect((await refusal({ name: '.hidden' })).details).toMatchObject({ field: 'name' })
    expect((await refusal({ base_image: 'none' })).details).toMatchObject({ field: 'base_image' })
    expect(await rowsFor(app)).toEqual([])
  })

  it('does not touch the workspace of another of that name, nor for an administrator', async () => {
    const ann = await app.keyCaller()
    const chief = await app.keyCaller({ role: 'admin', tier: 'operator' })
    await app.ask('workspace_prepare', { name: 'gold' }, ann)
    const boris = await app.keyCaller()
    for (const caller of [boris, chief]) {
      expect(await app.refusal('workspace_prepare', { name: 'gold' }, caller)).toMatchObject({
        code: 'ERR_ALREADY_EXISTS',
        message: expect.stringContaining('of another owner; choose another name'),
      })
    }
  })

  it('needs the right to run commands as well', async () => {
    const narrow = await app.keyCaller({ scopes: ['workspace:create', 'workspace:read'] })
    expect(await app.refusal('workspace_prepare', { name: 'gold' }, narrow)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
      details: { permission: 'workspace:exec' },
    })
  })

  it('is done once by two calls at the same time, and by the second when the first fails', async () => {
    const [one, two] = await Promise.all([
      prepare({ setup_commands: ['echo x >> log'] }),
      prepare({ setup_commands: ['echo x >> log'] }),
    ])
    expect([one['reused_existing'], two['reused_existing']].sort()).toEqual([false, true])
    expect((await sh(app, 'gold', 'cat /workspace/log')).stdout).toBe('x\n')
    const [failed, done] = await Promise.all([
      refusal({ name: 'next', setup_commands: ['false'] }),
      prepare({ name: 'next', setup_commands: ['true'] }),
    ])
    expect(failed.code).toBe('ERR_COMMAND_FAILED')
    expect(done).toMatchObject({ reused_existing: false })
  })

  it('is cancelled without a trace, also while it waits for its turn', async () => {
    const cancel = new AbortController()
    const working = app.call('workspace_prepare', { name: 'gold', setup_commands: [waiting] }, undefined, {
      signal: cancel.signal,
    })
    await expect.poll(() => rowsFor(app)).toMatchObject([{ name: 'gold', state: 'running' }])
    const leaving = new AbortController()
    const second = app.call('workspace_prepare', { name: 'gold' }, undefined, { signal: leaving.signal })
    leaving.abort()
    expect((await second).failure?.code).toBe('ERR_CANCELLED')
    expect(await namesFor(app)).toEqual(['gold'])
    cancel.abort()
    expect((await working).failure?.code).toBe('ERR_CANCELLED')
    expect(await rowsFor(app)).toEqual([])
  })

  it('tells how far it is', async () => {
    const messages: string[] = []
    const numbers: number[] = []
    await app.call('workspace_prepare', { name: 'gold', setup_commands: ['echo working; sleep 2.2'] }, undefined, {
      progress({ progress, message }) {
        numbers.push(progress)
        messages.push(message ?? '')
      },
    })
    expect(messages).toContain('gold is running')
    expect(messages.join('\n')).toMatch(/command 1 of 1, \d+ s: working/)
    expect(messages.at(-1)).toBe('the snapshot golden is taken')
    expect(numbers).toEqual([...numbers].sort((left, right) => left - right))
  })
})

describe('a repository to clone', () => {
  /** A workspace that gives out a repository to its like. */
  async function serveRepository(): Promise<string> {
    await app.ask('workspace_create', { name: 'origin' })
    await app.ask('network_policy', { workspace_id: 'origin', allow_inter_vm: true })
    await sh(
      app,
      'origin',
      `git init -q -b main /srv/made && cd /srv/made && git config user.name a && git config user.email a@example.org &&
       echo hello > file && git add . && git commit -qm first && git clone -q --bare . /srv/repo.git`,
    )
    const command = 'git daemon --reuseaddr --export-all --base-path=/srv --listen=0.0.0.0 /srv'
    await app.ask('exec_background', { workspace_id: 'origin', action: 'start', command })
    await expect.poll(async () => (await sh(app, 'origin', 'git ls-remote git://127.0.0.1/repo.git')).exit_code).toBe(0)
    return `git://${(await info(app, 'origin'))['ip']}/repo.git`
  }

  it('goes to /workspace, before the commands; a new workspace is open for that time only', async () => {
    const git_url = await serveRepository()
    const opened: Promise<unknown>[] = []
    const answer = await app.call(
      'workspace_prepare',
      { name: 'gold', git_url, setup_commands: ['cat file'] },
      undefined,
      {
        progress({ message }) {
          // The repository is in another workspace here, where no internet leads to.
          if (message !== 'gold is running') return
          opened.push(app.ask('network_policy', { workspace_id: 'gold', allow_inter_vm: true }))
        },
      },
    )
    await Promise.all(opened)
    const head = (await sh(app, 'origin', 'git -C /srv/made rev-parse HEAD')).stdout.trim()
    expect(JSON.parse(answer.json)).toMatchObject({
      repository: { url: git_url, branch: 'main', commit_sha: head },
      commands: [{ exit_code: 0 }],
    })
    const reader = callerOf({ ...localOwner, mcpSessionId: 'reader' })
    await app.ask('file_list', { workspace_id: 'gold', path: '/workspace' }, reader)
    expect(await app.ask('context_trust_get', {}, reader)).toMatchObject({ untrusted: true })
    expect((await sh(app, 'gold', 'cat /workspace/file')).stdout).toBe('hello\n')
    expect((await info(app, 'gold')).network).toMatchObject({ allow_internet: false, allow_inter_vm: true })
    const last = (await app.log()).findLast(({ tool }) => tool === 'workspace_prepare')
    expect(last?.effects?.map(({ kind, body }) => [kind, body['allow_internet']])).toEqual([
      ['workspace_network_changed', true],
      ['git_cloned', undefined],
      ['workspace_network_changed', false],
      ['workspace_prepared', undefined],
    ])
  })

  it('is taken as it is by a second try, and nothing else in its place is overwritten', async () => {
    const git_url = await serveRepository()
    await app.ask('workspace_create', { name: 'gold' })
    await app.ask('network_policy', { workspace_id: 'gold', allow_inter_vm: true })
    expect((await refusal({ git_url, setup_commands: ['false'] })).code).toBe('ERR_COMMAND_FAILED')
    expect((await info(app, 'gold')).network).toMatchObject({ allow_internet: false })
    expect(await prepare({ git_url, setup_commands: ['test -e file'] })).toMatchObject({
      reused_existing: true,
      repository: { url: git_url, branch: 'main' },
    })
    await app.ask('workspace_create', { name: 'full' })
    await sh(app, 'full', 'echo mine > /workspace/mine')
    expect(await refusal({ name: 'full', git_url })).toMatchObject({
      code: 'ERR_ALREADY_EXISTS',
      message: expect.stringContaining('/workspace of the existing workspace contains something else'),
    })
    expect((await sh(app, 'full', 'cat /workspace/mine')).stdout).toBe('mine\n')
  })

  it('that cannot be had leaves nothing', async () => {
    const failure = await refusal({ git_url: 'git://127.0.0.1:1/nothing.git', allow_internet: false })
    expect(failure).toMatchObject({ code: 'ERR_GIT_FAILED', details: { workspace_destroyed: true } })
    expect(await rowsFor(app)).toEqual([])
  })

  it('changes the policy for good when the caller says so', async () => {
    await prepare({ allow_internet: true })
    expect((await info(app, 'gold')).network).toMatchObject({ allow_internet: true })
    await app.ask('workspace_create', { name: 'other', allow_internet: true })
    await prepare({ name: 'other', allow_internet: false })
    expect((await info(app, 'other')).network).toMatchObject({ allow_internet: false })
  })
})
