import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { localOwner } from '../../src/contract/principal.ts'
import { type Capability, toSubcommandAllowlist } from '../../src/contract/security-context.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, type TestApp } from '../support/app.ts'
import { openWorkspaceApp } from '../support/workspaces.ts'

type Outcome = Readonly<{ stdout: string; stderr: string; exit_code: number }>

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp({ config: { 'commands.timeout_ceiling_secs': 20 } })
})
afterAll(() => app[Symbol.asyncDispose]())

const run = (args: object, caller?: ToolCaller) => app.ask<Outcome>('cmd.run', args, caller)
const refused = (args: object, caller?: ToolCaller) => app.refusal('cmd.run', args, caller)
const allowed = (capability: Omit<Capability, 'toolPattern'>): ToolCaller =>
  callerOf({
    ...localOwner,
    securityContexts: [
      { name: 'narrow', description: '', capabilities: [{ toolPattern: 'cmd.run', ...capability }], denyList: [] },
    ],
  })

describe('cmd.run', () => {
  it('answers output and exit code, whatever the code is', async () => {
    expect(await run({ command: 'echo out; echo err >&2; exit 3' })).toEqual({
      stdout: 'out\n',
      stderr: 'err\n',
      exit_code: 3,
    })
    expect((await run({ command: 'kill -9 $$' })).exit_code).toBe(137)
    expect((await run({ command: 'pwd' })).stdout).toBe('/workspace\n')
    await app.ask('fs.create_dir', { path: 'sub' })
    expect((await run({ command: 'pwd', cwd: 'sub' })).stdout).toBe('/workspace/sub\n')
  })

  it('uses no shell when arguments are given', async () => {
    const args = ['$HOME', '; rm -rf /', '`id`', '$(id)', '*', '', 'a b']
    expect((await run({ command: 'printf', args: ['%s\\n', ...args] })).stdout).toBe(`${args.join('\n')}\n`)
    expect((await run({ command: 'echo', args: [] })).stdout).toBe('\n')
    expect(await run({ command: 'echo hello', args: [] })).toEqual({
      stdout: '',
      stderr: 'echo hello: not found\n',
      exit_code: 127,
    })
    expect((await run({ command: '/etc/passwd', args: [] })).exit_code).toBe(126)
  })

  it('refuses a command that is empty or missing', async () => {
    for (const command of ['', '  \n']) expect((await refused({ command })).details['field']).toBe('command')
    expect((await refused({ command: null })).message).toContain("required field 'command' is missing or null")
  })

  it('refuses a folder to run in that there is not, by the name that the caller used', async () => {
    expect(await refused({ command: 'pwd', cwd: 'nowhere' })).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      message: expect.stringMatching(/^'cwd' .*fs\.create_dir/),
      details: { field: 'cwd' },
    })
    expect((await refused({ command: 'pwd', cwd: '/etc/passwd' })).details['field']).toBe('cwd')
    expect((await refused({ command: 'pwd', cwd: '../etc' })).details).toMatchObject({
      violation: 'PathTraversalAttempt',
      field: 'cwd',
    })
  })

  it('ends what prints too much, and kills it', async () => {
    expect(
      (await run({ command: 'head -c 300000 /dev/zero | tr "\\0" x; head -c 200000 /dev/zero | tr "\\0" y >&2' }))
        .exit_code,
    ).toBe(0)
    for (const command of ['yes', 'head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2']) {
      expect(await refused({ command })).toMatchObject({
        code: 'ERR_TOO_LARGE',
        details: { violation: 'OutputSizeLimitExceeded' },
      })
    }
    expect((await run({ command: 'ps -e | grep -c "[y]es" || true' })).stdout).toBe('0\n')
  })

  it('ends what runs too long, and refuses to wait beyond the ceiling', async () => {
    expect(await refused({ command: 'sleep 100', timeout_secs: 1 })).toMatchObject({
      code: 'ERR_TIMED_OUT',
      details: { violation: 'ExecTimeoutCeilingExceeded', timeout_secs: 1, timeout_ceiling_secs: 20 },
    })
    expect(await refused({ command: 'true', timeout_secs: 21 })).toMatchObject({
      details: { violation: 'ExecTimeoutCeilingExceeded', field: 'timeout_secs' },
    })
    expect((await run({ command: 'ps -e | grep -c "[s]leep" || true' })).stdout).toBe('0\n')
  })

  it('sees no secret of the server or of the workspace', async () => {
    process.env['OPENAI_API_KEY'] = 'of-the-server'
    try {
      const vars = {
        GITHUB_TOKEN: 'hidden',
        AWS_SECRET: 'hidden',
        CI_JOB: 'hidden',
        PLAIN: 'shown',
        AEGIS_TOKEN: 'hidden',
      }
      await app.ask('set_env', { workspace_id: 'personal-owner', vars })
      const { stdout } = await run({ command: 'env; cat /proc/self/environ' })
      expect(stdout).toContain('PLAIN=shown')
      expect(stdout).not.toMatch(/hidden|of-the-server/)
    } finally {
      delete process.env['OPENAI_API_KEY']
    }
  })

  it('can be cancelled', async () => {
    const cancelling = new AbortController()
    const answer = app.call('cmd.run', { command: 'echo $$ > /workspace/pid; sleep 100' }, undefined, {
      signal: cancelling.signal,
    })
    await expect.poll(async () => (await app.call('fs.read', { path: 'pid' })).isError).toBe(false)
    cancelling.abort()
    expect((await answer).failure?.code).toBe('ERR_CANCELLED')
  })
})

describe('under a list of commands', () => {
  const forms: [string, ToolCaller][] = [
    ['a list', allowed({ subcommandAllowlist: toSubcommandAllowlist(['echo', 'ls']) })],
    ['first words', allowed({ commandAllowlist: ['echo', 'ls'] })],
  ]
  it.each(forms)('%s lets only those run', async (_form, caller) => {
    expect((await run({ command: 'echo a && echo "b c" | ls / >/dev/null; echo d' }, caller)).exit_code).toBe(0)
    expect((await run({ command: 'echo', args: ['$(id)'] }, caller)).stdout).toBe('$(id)\n')
    for (const command of [
      'touch /workspace/broken',
      'echo a; touch /workspace/broken',
      'echo a\ntouch /workspace/broken',
      'echo a & touch /workspace/broken',
      'echo $(touch /workspace/broken)',
      'echo "`touch /workspace/broken`"',
      'eval touch /workspace/broken',
      'ls | xargs touch /workspace/broken',
      'X=touch; $X /workspace/broken',
      'if echo a; then touch /workspace/broken; fi',
      'echo() { touch /workspace/broken; }; echo',
      "e''cho a; t'ou'ch /workspace/broken",
      'ls <<EOF\n$(touch /workspace/broken)\nEOF',
      '/bin/echo a',
    ]) {
      expect(await refused({ command }, caller)).toMatchObject({
        code: 'ERR_POLICY_VIOLATION',
        message: expect.stringContaining('Allowed: echo, ls.'),
        details: { violation: 'CommandNotAllowed', security_context: 'narrow' },
      })
    }
    expect((await app.refusal('fs.read', { path: 'broken' })).code).toBe('ERR_FILE_NOT_FOUND')
  })

  it('a map lets only the named first arguments be', async () => {
    const caller = allowed({ subcommandAllowlist: { git: ['--version', 'status'], echo: [] } })
    expect((await run({ command: 'git', args: ['--version'] }, caller)).exit_code).toBe(0)
    expect((await run({ command: 'git --version && echo x' }, caller)).exit_code).toBe(0)
    for (const args of [{ command: 'git', args: ['push'] }, { command: 'git -c a=b status' }, { command: 'git' }]) {
      expect((await refused(args, caller)).details['violation']).toBe('SubcommandNotAllowed')
    }
  })

  it('counts what runs at once, and gives the place back', async () => {
    const caller = allowed({ maxConcurrent: 1 })
    const first = app.call(
      'cmd.run',
      { command: 'touch /workspace/began; until [ -e /workspace/go ]; do :; done' },
      caller,
    )
    await expect.poll(async () => (await app.call('fs.read', { path: 'began' })).isError).toBe(false)
    expect((await refused({ command: 'true' }, caller)).details['violation']).toBe('ConcurrentExecLimitExceeded')
    await app.ask('fs.write', { path: 'go', content: '' })
    expect((await first).isError).toBe(false)
    expect((await run({ command: 'true' }, caller)).exit_code).toBe(0)
  })

  it('bounds the answer', async () => {
    const caller = allowed({ maxResponseBytes: 100 })
    expect((await run({ command: 'echo short' }, caller)).stdout).toBe('short\n')
    expect(await refused({ command: 'seq 100' }, caller)).toMatchObject({
      code: 'ERR_TOO_LARGE',
      details: { violation: 'OutputSizeLimitExceeded' },
    })
  })
})
