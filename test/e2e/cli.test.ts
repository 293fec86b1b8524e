import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import packageFile from '../../package.json' with { type: 'json' }
import { commands } from '../../src/app/commands/index.ts'
import { launcher } from '../support/castellan-client.ts'
import { errorOf, openCliHome } from '../support/cli-home.ts'
import { hide } from '../support/namespaces-backend.ts'
import { createOrdinaryUser } from '../support/ordinary-user.ts'
import { homeEnvironment, runCastellan } from '../support/run-castellan.ts'

/** Every command as a person or a script gives it: words, exit codes, JSON. */
const { home, dataDir, plain, onState, call, write } = openCliHome()

describe('help', () => {
  test('the overview names every command, and every command explains itself', async () => {
    const overview = await plain(['--help'])
    expect(overview.code).toBe(0)
    for (const [name, { summary }] of Object.entries(commands)) {
      expect(overview.stdout.split('\n').map((line) => line.trim().replace(/ +/, ' '))).toContain(`${name} ${summary}`)
      const help = await plain([name, '--help'])
      expect([help.code, help.stderr]).toEqual([0, ''])
      expect(help.stdout).toMatch(new RegExp(`^Usage: castellan ${name}\\b`))
      expect(help.stdout).toContain('--json')
    }
    expect((await plain(['help', 'call'])).stdout).toBe((await plain(['call', '-h'])).stdout)
  })

  test('of a call it shows what the tool takes, without calling it', async () => {
    const help = await plain(['call', 'task_create', '--help'])
    const { stdout } = await plain(['tools', 'task_create'])
    expect([help.code, help.stderr]).toEqual([0, ''])
    expect(stdout).toContain('Parameters:')
    expect(help.stdout).toContain(stdout)
    expect(help.stdout).toContain('castellan call --help')
    const unknown = await plain(['call', 'task_creat', '--help'])
    expect([unknown.code, unknown.stderr]).toEqual([3, expect.stringContaining("Did you mean 'task_create'?")])
  })

  test('without a command it is printed with exit code 2; the version is the package’s', async () => {
    const nothing = await plain([])
    expect([nothing.code, nothing.stdout]).toEqual([2, expect.stringContaining('Usage: castellan COMMAND')])
    expect((await plain(['--version'])).stdout).toBe(`${packageFile.version}\n`)
  })

  test.each([
    [['cal', 'x'], "There is no command 'cal'. Did you mean 'call'?"],
    [['task_create', 'title=x'], "'task_create' is a tool, not a command. Call it with: castellan call task_create"],
    [['help', 'verfy'], "There is no command 'verfy'. Did you mean 'verify'?"],
    [['call', 'x', '--arg', '{}'], 'Unknown flag --arg. Did you mean --args?'],
    [['call', 'task_list', '--limit', '5'], 'Unknown flag --limit. It is a parameter of task_list: write limit=5.'],
    [['call', 'task_list', '--sort-by=a b'], "It is a parameter of task_list: write 'sort_by=a b'."],
    [['call', 'task_list', '--search=a=b'], 'It is a parameter of task_list: write search=a=b.'],
    [['--json', 'version'], '--json: flags come after the command'],
    [['serve', '--prot', '1'], 'Unknown flag --prot. Did you mean --port?'],
    [['call', 'x', '--args'], "Option '--args <value>' argument missing."],
    [['doctor', 'now'], "'now' is an unexpected argument."],
    [['export'], 'FILE is missing.'],
    [['keys', 'frob'], "Unknown action 'frob'. Use create, list or revoke."],
    [['config', 'frob'], "Unknown action 'frob'. Use show, validate or schema."],
  ])('%j is refused with the way out', async (args, message) => {
    const refused = await plain(args)
    expect([refused.code, refused.stdout]).toEqual([2, ''])
    expect(refused.stderr).toMatch(/^error: .* \(ERR_INVALID_INPUT\)\n$/s)
    expect(refused.stderr).toContain(message)
    const [command, ...rest] = args
    expect(errorOf(await plain([command!, '--json', ...rest])).code).toBe('ERR_INVALID_INPUT')
  })
})

describe('exit codes', () => {
  test('say by the kind of error who must act, and the error is JSON if JSON was asked for', async () => {
    await call('project_create', 'project=taken')
    const broken = join(home, 'broken')
    mkdirSync(broken)
    writeFileSync(join(broken, 'castellan.db'), 'this is no database '.repeat(100))
    const cases: [number, string, Promise<{ code: number | null; stdout: string; stderr: string }>][] = [
      [2, 'ERR_INVALID_INPUT', call('task_create', 'titel=x')],
      [3, 'ERR_UNKNOWN_TOOL', call('task_creat')],
      [3, 'ERR_UNKNOWN_TOOL', plain(['tools', 'task_creat', '--json'])],
      [2, 'ERR_INVALID_MODE', call('server_ping', '--mode', 'SOME')],
      [2, 'ERR_CONFIG_INVALID', call('server_ping', '--config', 'none.yaml')],
      [3, 'ERR_TASK_NOT_FOUND', call('task_get', 'task_id=T-9999')],
      [3, 'ERR_NOT_FOUND', plain(['verify', '--data-dir', join(home, 'nowhere'), '--json'])],
      [4, 'ERR_MODE_REFUSED', call('task_create', 'title=x', 'project=p', '--mode', 'MINIMAL')],
      [5, 'ERR_ALREADY_EXISTS', call('project_create', 'project=taken')],
      [6, 'ERR_INIT_FAILED', plain(['call', 'server_ping', '--json', '--data-dir', broken])],
    ]
    for (const [code, error, running] of cases) {
      const ended = await running
      expect({ code: ended.code, stdout: ended.stdout, error: errorOf(ended).code }).toEqual({
        code,
        stdout: '',
        error,
      })
    }
  })
})

describe('JSON', () => {
  test('shows characters that a terminal would obey as escapes, and is the same JSON', async () => {
    const title = 'a\u007f\u0085\u009b31m\u200e\u200f\u202a\u202e\u2066\u2069 é😀'
    const created = await call('task_create', '--args', JSON.stringify({ title, project: 'p' }))
    const { task_id } = JSON.parse(created.stdout) as { task_id: string }
    for (const flags of [[], ['--json']]) {
      const { stdout } = await onState(['call', 'task_get', `task_id=${task_id}`, ...flags])
      expect(stdout).not.toMatch(/[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/)
      expect(stdout).toContain('\\u202e')
      expect(stdout).toContain('é😀')
      expect((JSON.parse(stdout) as { title: string }).title).toBe(title)
    }
  })

  test('is whole also for a reader that is slower than the command', async () => {
    const command = `'${launcher}' tools --json > whole; '${launcher}' tools --json | cmp - whole`
    const child = spawn('sh', ['-c', command], { cwd: home, env: homeEnvironment(home), stdio: 'inherit' })
    expect(await once(child, 'exit')).toEqual([0, null])
    expect(statSync(join(home, 'whole')).size).toBeGreaterThan(64 * 1024)
  })

  test('ends quietly when its reader is gone', async () => {
    const command = `{ '${launcher}' tools --json; echo $? >code; } 2>said | head -c 1`
    const child = spawn('sh', ['-c', command], { cwd: home, env: homeEnvironment(home), stdio: 'ignore' })
    expect(await once(child, 'exit')).toEqual([0, null])
    expect(readFileSync(join(home, 'said'), 'utf8')).toBe('')
  })

  test('is what every command prints that is asked for it, and nothing else', async () => {
    await call('task_create', 'title=x', 'project=p')
    const log = join(home, 'json.jsonl')
    const file = write('servers.json', '{"mcpServers":{"a":{"command":"x"}}}')
    const key = (JSON.parse((await call('log_checkpoint')).stdout) as { key: string }).key
    const runs: Record<string, readonly string[][]> = {
      tools: [['tools'], ['tools', 'task_create']],
      call: [['call', 'server_ping', '--data-dir', dataDir]],
      export: [['export', log, '--data-dir', dataDir]],
      verify: [
        ['verify', log, '--key', key],
        ['verify', '--data-dir', dataDir],
      ],
      keys: [
        ['keys', 'create', 'ci', '--data-dir', dataDir],
        ['keys', 'list', '--data-dir', dataDir],
        ['keys', 'revoke', 'ci', '--data-dir', dataDir],
      ],
      users: [
        ['users', 'create', 'ada@example.com', '--data-dir', dataDir],
        ['users', 'list', '--data-dir', dataDir],
      ],
      teams: [
        ['teams', 'create', 'design', '--data-dir', dataDir],
        ['teams', 'list', '--data-dir', dataDir],
      ],
      roles: [
        ['roles', 'create', 'reader', '--permissions', 'task:read', '--data-dir', dataDir],
        ['roles', 'list', '--data-dir', dataDir],
      ],
      invite: [['invite', 'list', '--data-dir', dataDir]],
      config: [
        ['config', 'show'],
        ['config', 'validate'],
        ['config', 'schema'],
      ],
      doctor: [['doctor', '--data-dir', dataDir]],
      image: [['image', 'list', '--data-dir', dataDir]],
      clients: [['clients', 'list', '--data-dir', dataDir]],
      approvals: [['approvals', 'list', '--data-dir', dataDir]],
      secrets: [['secrets', 'list', '--data-dir', dataDir]],
      import: [['import', file, '--dry-run']],
      completion: [['completion', 'bash']],
      version: [['version']],
    }
    // Servers and sign-ins have tests of their own.
    const elsewhere = ['serve', 'mcp', 'login', 'logout']
    const tried = Object.keys(commands).filter((name) => !elsewhere.includes(name))
    expect(Object.keys(runs).toSorted()).toEqual(tried.toSorted())
    for (const args of Object.values(runs).flat()) {
      const { code, stdout, stderr } = await plain([...args, '--json'])
      // No server runs that would show the page of the link.
      const isLink = args[0] === 'users' && args[1] === 'create'
      const warned = isLink
        ? expect.stringMatching(/^Warning: The link works only while castellan serve runs .*\n$/)
        : ''
      expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: warned })
      expect(typeof JSON.parse(stdout)).toBe('object')
      expect(stdout.endsWith('\n')).toBe(true)
    }
  })
})

describe('call', () => {
  test('takes key=value, JSON, JSON from input, and the pairs over the JSON', async () => {
    const text = JSON.parse((await call('task_create', 'title=42', 'project=p')).stdout) as { task_id: string }
    expect(JSON.parse((await call('task_get', `task_id=${text.task_id}`)).stdout)).toMatchObject({ title: '42' })
    const wrong = await call('task_create', 'title=a', 'project=p', 'estimate_hours=long')
    expect(errorOf(wrong)).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'estimate_hours' } })
    const good = await call('task_create', 'title=a = b', 'project=p', 'labels=["a","b"]', 'estimate_hours=1.5')
    const { task_id } = JSON.parse(good.stdout) as { task_id: string }
    const got = JSON.parse((await call('task_get', '--args', JSON.stringify({ task_id }))).stdout) as object
    expect(got).toMatchObject({ title: 'a = b', labels: ['a', 'b'], estimate_hours: 1.5 })
    const input = `{"task_id":"T-9999"}\n`
    const piped = await onState(['call', 'task_get', '--args', '-', `task_id=${task_id}`, '--json'], { input })
    expect(JSON.parse(piped.stdout)).toEqual(got)
    expect(errorOf(await onState(['call', 'task_get', '--args', '-', '--json'], { input })).code).toBe(
      'ERR_TASK_NOT_FOUND',
    )
  })

  test.each([
    [['--args', '{oops'], 'args is not JSON'],
    [['--args', '[1]'], 'args must be a JSON object'],
    [['limit'], "'limit' must be key=value"],
  ])('refuses %j', async (args, message) => {
    const refused = await onState(['call', 'task_list', ...args])
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(message)])
  })

  test('ends with the exit code of the answer only when asked', async () => {
    const made = await call('workspace_create', 'name=codes')
    expect(made.code).toBe(0)
    const exec = ['exec', 'workspace_id=codes', 'command=exit 7']
    expect((await call(...exec)).code).toBe(0)
    expect((await call(...exec, '--exit-code')).code).toBe(7)
    const without = await call('workspace_destroy', 'workspace_id=codes', '--exit-code')
    expect([without.code, errorOf(without).details]).toEqual([2, { field: 'exit-code' }])
  })

  test('shows a person what a failed command printed', async () => {
    const commands = JSON.stringify({ name: 'broken', setup_commands: ['echo said; echo shouted >&2; exit 3'] })
    const failed = await onState(['call', 'workspace_prepare', '--args', commands])
    expect(failed.stderr).toContain('(ERR_COMMAND_FAILED)\nstdout_tail:\n  said\nstderr_tail:\n  shouted\n')
  })

  test('prints without colours into a pipe', async () => {
    const { stdout } = await onState(['doctor'], { environment: { FORCE_COLOR: '1', TERM: 'xterm-256color' } })
    expect(stdout).not.toContain('\u001b')
  })
})

describe('the checks of doctor', () => {
  test('have plain names, those of workspaces indented for a person', async () => {
    const { findings } = JSON.parse((await onState(['doctor', '--json'])).stdout) as { findings: { check: string }[] }
    expect(findings.map(({ check }) => check).filter((check) => check !== check.trim())).toEqual([])
    for (const finding of findings) expect(Object.keys(finding)).toEqual(['check', 'status', 'detail'])
    expect((await onState(['doctor'])).stdout).toMatch(/^ {2}internet +(?:ok|note) /m)
  })

  test('tell an ordinary user what to do about the tunnel device', async () => {
    const user = await createOrdinaryUser({ subordinateIds: false })
    try {
      const open = ['/dev/net/tun', '-a', '-w', '/dev/net/tun']
      const isOpen = spawnSync('test', ['-r', ...open], user.spawnOptions).status === 0
      const { stdout } = await runCastellan(['doctor'], { home: user.home, ...user.spawnOptions })
      if (isOpen) expect(stdout).not.toContain('/dev/net/tun')
      else
        expect(stdout).toMatch(
          / {2}\/dev\/net\/tun +note +you have no access to it; .* as root: chmod 666 \/dev\/net\/tun$/m,
        )
    } finally {
      user.remove()
    }
  })
})

/** This needs root: nobody else can hide programs from a process. */
test('doctor names everything that would add to workspaces in one command', async () => {
  const [file, ...args] = [...hide({ withoutPackages: true }), launcher, 'doctor', '--data-dir', join(home, 'bare')]
  const { stdout } = spawnSync(file!, args, { encoding: 'utf8', env: homeEnvironment(home) })
  const packages = 'slirp4netns nftables iproute2 btrfs-progs uidmap openssl'
  expect(stdout.match(/apt-get install[^\n]*/g)).toEqual([
    expect.stringMatching(
      new RegExp(`^apt-get install -y ${packages}( debootstrap)? would add slirp4netns for all of the`),
    ),
  ])
  expect(stdout).toMatch(/^workspaces +ok +namespaces, as root$/m)
})

describe('tools', () => {
  test('shows one parameter a line, with type, need, limits and meaning', async () => {
    const { stdout } = await plain(['tools', 'task_list'])
    const lines = stdout.slice(stdout.indexOf('Parameters:\n')).trimEnd().split('\n').slice(1)
    const names = Object.keys(
      (JSON.parse((await plain(['tools', 'task_list', '--json'])).stdout) as { inputSchema: { properties: object } })
        .inputSchema.properties,
    )
    expect(lines.map((line) => /^ {2}(\S+) {2,}\S/.exec(line)?.[1])).toEqual(names)
    expect(lines.find((line) => line.includes(' limit '))).toMatch(/limit +integer; default 50; 1–500 +How many/)
    expect((await plain(['tools', 'server_ping'])).stdout).toContain('No parameters.\n')
    expect((await plain(['tools'])).stdout).toMatch(/^TOOL +TOOLSET +EFFECT +WHAT IT DOES\n/)
    const ofState = ['--data-dir', join(home, 'of-tools')]
    expect((await plain(['tools', ...ofState])).stdout).toMatch(/^TOOL +WHAT IT DOES\n.*\ntask_list /s)
    expect((await plain(['tools', 'task_list', ...ofState])).stdout).toContain('project')
  })

  test('a list of tools with a name that is none is refused before anything is served', async () => {
    for (const args of [['mcp'], ['serve', '--port', '0'], ['config', 'validate']]) {
      const refused = await onState([...args, '--tools', 'ledgr,log', '--json'])
      expect(refused.code).toBe(2)
      expect(errorOf(refused)).toMatchObject({
        code: 'ERR_CONFIG_INVALID',
        details: { field: 'tools', nearest: 'ledger' },
      })
    }
  })
})

describe('config', () => {
  const secret = 'hunter2'
  const url = `postgres://ann:${secret}@127.0.0.1:1/castellan`

  test('names file, line and field of everything that is wrong', async () => {
    const file = write('bad.yaml', 'port: 80\nrequire_keys: perhaps\nbounds:\n  message_bytes_max: 5\n')
    const refused = await plain(['config', 'validate', '--config', file])
    expect(refused.code).toBe(2)
    expect(refused.stderr).toContain(`${file}:2:15: require_keys must be true or false`)
    expect(refused.stderr).toContain(`${file}:3:1: bounds is not a known field`)
    const { details } = errorOf(await plain(['config', 'validate', '--config', file, '--json']))
    expect(details['problems']).toMatchObject([
      { field: 'require_keys', position: { line: 2, column: 15 } },
      { field: 'bounds', position: { line: 3, column: 1 } },
    ])
    expect(await plain(['call', 'server_ping', '--config', file])).toMatchObject({ code: 2, stdout: '' })
  })

  test('shows what holds and where it comes from', async () => {
    const file = write('good.yaml', 'port: 1234\nrequire_keys: true\n')
    const { stdout } = await plain(['config', 'show', '--config', file, '--port', '99'], {
      environment: { CASTELLAN_MODE: 'READONLY' },
    })
    expect(stdout).toMatch(/^port +99 +flag +CASTELLAN_PORT$/m)
    expect(stdout).toMatch(/^require_keys +true +file +CASTELLAN_REQUIRE_KEYS$/m)
    expect(stdout).toMatch(/^mode +"READONLY" +env +CASTELLAN_MODE$/m)
    expect(stdout).toMatch(/^host +"127\.0\.0\.1" +default/m)
    expect(stdout).not.toMatch(/ {3}/)
  })

  test('no command prints a secret', async () => {
    const file = write('secret.yaml', `database_url: ${url}\n`)
    const bad = write('wrong.yaml', `database_url: mysql://ann:${secret}@db/x\n`)
    const environment = { CASTELLAN_DATABASE_URL: url }
    const runs = [
      ...['show', 'validate'].flatMap((action) => [
        plain(['config', action, '--config', file]),
        plain(['config', action, '--json'], { environment }),
        plain(['config', action, '--config', bad]),
      ]),
      plain(['doctor', '--config', file]),
      plain(['call', 'server_ping', '--database-url', url, '--log-level', 'debug', '--json']),
      plain(['verify', '--config', file, '--json']),
    ]
    for (const { stdout, stderr } of await Promise.all(runs)) {
      expect((stdout + stderr).length).toBeGreaterThan(0)
      expect(stdout + stderr).not.toContain(secret)
    }
    const displayed = await plain(['config', 'show', '--config', file])
    expect(displayed.stdout).toContain('postgres://[redacted]@127.0.0.1:1/castellan')
  })

  test('prints the schema that the documentation has', async () => {
    const { stdout } = await plain(['config', 'schema'])
    expect(JSON.parse(stdout)).toEqual(JSON.parse(readFileSync('docs/reference/config.schema.json', 'utf8')))
  })
})

describe('doctor', () => {
  test('finds a fresh machine and a sound state fit, and a broken one not', async () => {
    const fresh = await plain(['doctor', '--data-dir', join(home, 'fresh')])
    expect([fresh.code, fresh.stdout]).toEqual([0, expect.stringMatching(/^state +ok +none yet$/m)])
    await call('server_ping')
    const sound = await onState(['doctor'])
    expect([sound.code, sound.stdout]).toEqual([0, expect.stringMatching(/^state +ok +\d+ log entr(y|ies), sound$/m)])
    const broken = join(home, 'garbage')
    mkdirSync(broken)
    writeFileSync(join(broken, 'castellan.db'), 'this is no database '.repeat(100))
    const unfit = await plain(['doctor', '--data-dir', broken])
    expect([unfit.code, unfit.stdout]).toEqual([6, expect.stringMatching(/^state +bad +\S/m)])
  })

  test.each(['/sys/castellan', '/proc/castellan', '/dev/null/castellan'])(
    'says that a data directory cannot be created: %s',
    async (directory) => {
      const { code, stdout } = await plain(['doctor', '--data-dir', directory])
      expect([code, stdout]).toEqual([6, expect.stringMatching(/^data directory +bad +\S+ cannot be created: /m)])
      expect(stdout).toMatch(/^workspaces +note +not tested: /m)
    },
  )
})
