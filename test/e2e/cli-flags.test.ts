import { describe, expect, test } from 'vitest'
import { commands } from '../../src/app/commands/index.ts'
import { openCliHome } from '../support/cli-home.ts'
import { startServerHere } from '../support/server-here.ts'

/** A flag is accepted only where it takes effect: by the parser, the help and the completion alike. */
const { plain, onState, dataDir } = openCliHome()

const specs = await Promise.all(Object.values(commands).map(async ({ load }) => (await load()).command.spec))
const withActions = specs.flatMap(({ name, actions, flags }) =>
  Object.entries(actions ?? {}).map(([action, spec]) => {
    const own = Object.keys(spec.flags ?? {})
    const others = Object.entries(actions!).flatMap(([, other]) => Object.entries(other.flags ?? {}))
    const foreign = others.filter(([flag]) => !own.includes(flag) && !Object.hasOwn(flags, flag))
    return {
      name,
      action,
      own,
      foreign: [...new Map(foreign)],
      isOpen: spec.arguments?.endsWith('…') === true,
      required: (spec.arguments ?? '').match(/\b[A-Z]+\b/g) ?? [],
    }
  }),
)

test('every command with actions states them in its table', () => {
  const names = specs.flatMap(({ name, actions }) => (actions === undefined ? [] : [name]))
  expect(names.sort()).toEqual(
    ['approvals', 'clients', 'config', 'image', 'invite', 'keys', 'roles', 'secrets', 'teams', 'users'].sort(),
  )
})

describe.each(withActions)('$name $action', ({ name, action, own, foreign, required }) => {
  test('refuses the flags of other actions, and says which action has them', async () => {
    for (const [flag, { type }] of foreign) {
      const refused = await plain([name, action, ...required, `--${flag}`, ...(type === 'string' ? ['x'] : [])])
      expect([flag, refused.code, refused.stdout]).toEqual([flag, 2, ''])
      expect(refused.stderr).toMatch(
        new RegExp(`^error: --${flag} has no effect on castellan ${name} ${action}\\. It is a flag of [a-z, ]+\\.`),
      )
    }
  })

  test('explains only its own flags, and completes only them', async () => {
    const help = (await plain([name, action, '--help'])).stdout
    const words = (await plain(['completion', 'words', '--', name, action, '--'])).stdout.split('\n')
    for (const flag of own) {
      expect(help).toMatch(new RegExp(`--${flag}\\b`))
      expect(words).toContain(`--${flag}`)
    }
    for (const [flag] of foreign) {
      expect(help).not.toMatch(new RegExp(`^ .*--${flag} `, 'm'))
      expect(words).not.toContain(`--${flag}`)
    }
  })
})

test.each(withActions.filter(({ isOpen }) => !isOpen))('$name $action takes no argument too many', async (one) => {
  const refused = await plain([one.name, one.action, ...one.required, 'one', 'two', 'three'])
  expect([refused.code, refused.stdout]).toEqual([2, ''])
  expect(refused.stderr).toContain('is an unexpected argument.')
})

test.each<[string[], string]>([
  [['users', 'create', 'a@b.example', '--admin', '--role', 'member'], '--admin and --role cannot be combined'],
  [['teams', 'update', 'design'], 'Nothing to change. Give --name, --description, --add or --remove.'],
  [['users', 'update', 'a@b.example'], 'Nothing to change. Give --admin, --role, --tier, --name or --new-link.'],
  [['clients', 'create', 'nightly'], '--gateways is missing.'],
  [['logout', '--all', '--url', 'https://castellan.example'], '--all and --url cannot be combined'],
  [['doctor', '--url', 'https://castellan.example', '--port', '1'], '--port has no effect with --url'],
  [['verify', '--checkpoint', 'saved'], '--checkpoint has no effect'],
  [['verify', '--tenant', 'local'], '--tenant has no effect'],
  [['verify', '--key', 'k'], '--key has no effect'],
  [['verify', 'log.jsonl', '--key', 'k', '--data-dir', 'x'], '--data-dir has no effect'],
  [['verify', 'log.jsonl', '--key', 'k', '--ca', 'x'], '--ca has no effect'],
  [['import', 'none.json', '--scope', 'all'], '--scope must be personal, team or org.'],
  [['import', 'none.json', '--scope', 'team'], '--scope team needs --team with the name or id of the team.'],
  [['import', 'none.json', '--scope', 'org', '--team', 'design'], '--team cannot be used with --scope org.'],
  [['keys'], 'Say what to do: castellan keys create, list or revoke. See: castellan keys --help'],
  [
    ['keys', 'create', 'ci', '--expires', '-5'],
    "--expires needs a value, and '-5' begins with a dash. If it is meant,",
  ],
  [['serve', '--port', '-1'], "--port needs a value, and '-1' begins with a dash. If it is meant, write --port=-1."],
  [['keys', 'create', 'ci', '--jsn'], 'Unknown flag --jsn. Did you mean --json?'],
])('%j is refused', async (args, message) => {
  const refused = await plain(args)
  expect([refused.code, refused.stdout]).toEqual([2, ''])
  expect(refused.stderr).toContain(message)
})

test('a second invitation of an address names the link that still works', async () => {
  const first = await onState(['invite', 'create', 'twice@example.com', '--json'])
  const { id } = JSON.parse(first.stdout) as { id: string }
  expect(first.stderr).not.toContain('Earlier links')
  const second = await onState(['invite', 'create', 'twice@example.com'])
  expect([second.code, second.stderr]).toEqual([
    0,
    expect.stringContaining(`Earlier links for this address still work: ${id}.`),
  ])
})

test('a client of a gateway that is not there is refused with the nearest name', async () => {
  await onState(['call', 'create_mcp_gateway', 'name=Bills'])
  const refused = await onState(['clients', 'create', 'nightly', '--gateways', 'bills,bils'])
  expect([refused.code, refused.stdout]).toEqual([3, ''])
  expect(refused.stderr).toMatch(/^error: --gateways: there is no gateway .* 'bils' .*; did you mean bills\? /)
  const created = await onState(['clients', 'create', 'nightly', '--gateways', 'bills'])
  expect([created.code, created.stdout]).toEqual([0, expect.stringContaining('client_secret: ')])
})

test.each<[string[], string]>([
  [['keys', 'create', 'ci', '--tier', 'banana'], '--tier: must be one of user, system, operator.'],
  [['keys', 'create', 'ci', '--expires', 'banana'], "--expires: 'banana' is not a lifetime"],
  [['keys', 'create', 'ci', '--scopes', 'banana'], "--scopes: 'banana' is not a permission"],
  [['users', 'create', 'ada@example.com', '--teams', 'banana'], '--teams: there is no team'],
  [['users', 'create', 'banana'], 'EMAIL: write an e-mail address'],
  [['users', 'sessions', 'banana'], 'USER: there is no user'],
  [['teams', 'create', 'design', '--add', 'banana'], '--add: there is no user'],
  [['teams', 'add', 'design', 'banana'], 'TEAM: there is no team'],
  [['invite', 'create', 'bob@example.com', '--hours', '99999'], '--hours: must be at most 720.'],
  [['approvals', 'show', 'banana'], 'ID: there is no such approval'],
])('%j: the error names what was typed', async (args, message) => {
  const refused = await onState(args)
  expect(refused.code).toBeGreaterThan(1)
  expect(refused.stderr).toMatch(/^error: /)
  expect(refused.stderr.slice('error: '.length)).toMatch(new RegExp(`^${message.replace(/[.*+?()]/g, '\\$&')}`))
})

test('the error of teams add names what was typed, if the team is there', async () => {
  await onState(['teams', 'create', 'marketing'])
  const refused = await onState(['teams', 'add', 'marketing', 'nobody@example.com'])
  expect([refused.code, refused.stderr]).toEqual([3, expect.stringMatching(/^error: USER: there is no user/)])
})

test('a client of a program has the id under the name of OAuth too', async () => {
  await onState(['call', 'create_mcp_gateway', 'name=Weekly'])
  const { stdout } = await onState(['clients', 'create', 'weekly', '--gateways', 'weekly', '--json'])
  const { id, client_id } = JSON.parse(stdout) as Record<string, unknown>
  expect([typeof id, client_id]).toEqual(['string', id])
})

test('a host that is no address is refused before keys are asked for', async () => {
  const refused = await onState(['serve', '--host', 'banana.invalid', '--port', '0'])
  expect([refused.code, refused.stderr]).toEqual([
    expect.any(Number),
    expect.stringMatching(/^error: 'host': 'banana\.invalid' is neither an IP address nor a name/m),
  ])
})

test('a link that no server made says where one must run; one of a running server leads there', async () => {
  const { stdout, stderr } = await onState(['users', 'create', 'carl@example.com'])
  expect(stdout).toMatch(/^http:\/\/127\.0\.0\.1:7433\/invitation\//)
  expect(stderr).toContain('The link works only while castellan serve runs at http://127.0.0.1:7433')
  const server = await startServerHere({ dataDir })
  try {
    const made = await onState(['users', 'create', 'dora@example.com'])
    expect(made.stdout.startsWith(`${new URL(server.url).origin}/invitation/`)).toBe(true)
    expect(made.stderr).toBe('dora@example.com opens the link to choose a password. It works once.\n')
    const again = await onState(['users', 'update', 'dora@example.com', '--new-link'])
    expect(again.stdout).toContain(`${new URL(server.url).origin}/invitation/`)
  } finally {
    await server.stop()
  }
})

test('an organisation without users is said to have none', async () => {
  const { stderr } = await onState(['users', 'list', '--tenant', 'nope'])
  expect(stderr).toBe("There is no user in an organisation 'nope'. Check its name, or create the first user.\n")
})

test('folders where a file is needed are named in words', async () => {
  const folder = await plain(['verify', '.', '--key', 'a+b+c'])
  expect([folder.code, folder.stderr]).toEqual([
    3,
    'error: Cannot read .: it is a folder. Name the file that castellan export wrote. (ERR_NOT_FOUND)\n',
  ])
  const missing = await onState(['export', 'nowhere/log.jsonl'])
  expect([missing.code, missing.stderr]).toEqual([
    2,
    'error: Cannot write nowhere/log.jsonl: its folder does not exist. Create the folder first, or choose another. (ERR_INVALID_INPUT)\n',
  ])
})

test('an invitation is cancelled by its e-mail address while it waits', async () => {
  await onState(['invite', 'create', 'bob@example.com'])
  const cancelled = await onState(['invite', 'cancel', 'Bob@example.com'])
  expect([cancelled.code, cancelled.stdout]).toEqual([0, 'The invitation of bob@example.com is cancelled.\n'])
  const again = await onState(['invite', 'cancel', 'bob@example.com'])
  expect([again.code, again.stderr]).toEqual([3, expect.stringContaining('no invitation waits for this address')])
})

test('a file to verify that is not there is named', async () => {
  const refused = await plain(['verify', 'nofile', '--key', 'a+b+c'])
  expect([refused.code, refused.stderr]).toEqual([
    3,
    'error: Cannot read nofile: there is no such file. (ERR_NOT_FOUND)\n',
  ])
})

test('members of a team are added and removed by name', async () => {
  await onState(['users', 'create', 'ada@example.com'])
  await onState(['teams', 'create', 'design'])
  const added = await onState(['teams', 'add', 'design', 'ada@example.com'])
  expect([added.code, added.stdout]).toEqual([
    0,
    expect.stringMatching(/^Changed design \(.+\): ada@example\.com\.\n$/),
  ])
  const removed = await onState(['teams', 'remove', 'design', 'ada@example.com'])
  expect([removed.code, removed.stdout]).toEqual([0, expect.stringMatching(/^Changed design \(.+\): no members\.\n$/)])
})
