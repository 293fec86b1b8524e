import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { teamsOf } from '../support/teams.ts'
import { info, namesFor, openWorkspaceApp, sh } from '../support/workspaces.ts'

let app: TestApp
const { act, create, refused, status } = teamsOf(() => app)
beforeAll(async () => {
  app = await openWorkspaceApp({ config: { 'teams.max_total_vms': 12, 'workspaces.quota.workspaces': 3 } })
})
afterAll(() => app[Symbol.asyncDispose]())
afterEach(async () => {
  const { teams } = await act<{ teams: { name: string; depth: number }[] }>('list')
  for (const { name } of teams.filter(({ depth }) => depth === 0)) await act('destroy', { name })
  expect(await namesFor(app)).toEqual([])
  expect(rowsLeft()).toEqual([0, 0, 0, 0])
})
const rowsLeft = () =>
  app.behindItsBack((db) =>
    ['teams', 'team_members', 'team_messages', 'team_tasks'].map(
      (table) => db.prepare(`SELECT count(*) AS count FROM ${table}`).get()!['count'],
    ),
  )
const cards = (team: string): string => join(app.dataDir, 'vault/teams', team, 'cards')
const cardsOf = (team: string): string[] => (existsSync(cards(team)) ? readdirSync(cards(team)) : [])

describe('a team', () => {
  it('is made whole: workspaces that its owner can use at once, and cards in the vault', async () => {
    const roles = [
      { name: 'lead', role: 'coordinator', skills: ['plan', 'merge'], description: 'Leads.' },
      { name: 'dev-1', role: 'coder' },
    ]
    const made = await act<{ members: { workspace_id: string; ip: string }[] }>('create', { name: 'crew', roles })
    const [lead, dev] = made.members
    expect(made).toEqual({
      action: 'create',
      name: 'crew',
      state: 'ready',
      member_count: 2,
      member_workspace_ids: [lead!.workspace_id, dev!.workspace_id],
      members: [
        { name: 'lead', role: 'coordinator', workspace_name: 'crew-lead', ...lead },
        { name: 'dev-1', role: 'coder', workspace_name: 'crew-dev-1', ...dev },
      ],
      max_vms: 10,
      parent_team: null,
      depth: 0,
      created_at: expect.any(String),
    })
    expect((await sh(app, 'crew-dev-1', 'hostname')).stdout).toBe('crew-dev-1\n')
    expect(await info(app, 'crew-lead')).toMatchObject({ owned: true, team: 'crew', ip: lead!.ip })
    expect(JSON.parse(readFileSync(join(cards('crew'), 'lead.json'), 'utf8'))).toEqual({
      name: 'lead',
      role: 'coordinator',
      description: 'Leads.',
      skills: ['plan', 'merge'],
      team: 'crew',
      workspace_id: lead!.workspace_id,
      workspace_name: 'crew-lead',
      endpoints: { ip: lead!.ip },
      status: 'ready',
      created_at: expect.any(String),
    })
    const seen = await status('crew')
    expect(seen).toMatchObject({
      state: 'ready',
      owner: 'owner',
      budget: { max_vms: 10, used_vms: 2, free_vms: 8 },
      sub_teams: [],
      orphaned: false,
    })
    expect(seen.members[0]).toEqual({
      name: 'lead',
      role: 'coordinator',
      skills: ['plan', 'merge'],
      description: 'Leads.',
      workspace_id: lead!.workspace_id,
      workspace_name: 'crew-lead',
      ip: lead!.ip,
      workspace_state: 'running',
      agent_status: 'idle',
      queued_tasks: 0,
      running_tasks: 0,
    })
    expect(await act('list')).toMatchObject({ count: 1, teams: [{ name: 'crew', member_count: 2, max_vms: 10 }] })
    const effects = (await app.log()).flatMap((entry) => entry.effects ?? [])
    expect(effects.filter(({ kind }) => kind === 'team_created')).toHaveLength(1)
  })

  it('talks among itself, and to nobody else', async () => {
    await create('crew', ['ann', 'bob', 'cid'])
    await app.ask('workspace_create', { name: 'unrelated' })
    const { members } = await status('crew')
    const serve = `perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(LocalPort => 7000, Listen => 5, ReuseAddr => 1) or die; while ($c = $s->accept) { print $c "hello\\n"; close $c }'`
    for (const name of ['ann', 'bob', 'cid']) {
      await app.ask('exec_background', { workspace_id: `crew-${name}`, action: 'start', command: serve })
    }
    const reach = async (from: string, ip: unknown): Promise<string> =>
      (
        await sh(
          app,
          from,
          `perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(PeerAddr => "${String(ip)}:7000", Timeout => 1) or exit 1; print <$s>'`,
        )
      ).stdout
    for (const from of ['ann', 'bob', 'cid']) {
      for (const { ip, name } of members.filter((member) => member.name !== from)) {
        await expect
          .poll(() => reach(`crew-${from}`, ip), { message: `${from} to ${name}`, timeout: 180_000 })
          .toBe('hello\n')
      }
    }
    expect(await reach('unrelated', members[0]!['ip'])).toBe('')
    await app.ask('workspace_destroy', { workspace_id: 'unrelated' })
  })

  it('begins with a snapshot, named whole or with its golden workspace', async () => {
    await app.ask('workspace_create', { name: 'base' })
    await sh(app, 'base', 'echo gold > /workspace/seed')
    for (const name of ['golden', 'other']) {
      await app.ask('snapshot', { workspace_id: 'base', action: 'create', name })
      await sh(app, 'base', 'echo later > /workspace/seed')
    }
    await create('one', ['a'], { base_snapshot: 'base:golden' })
    await create('two', ['a'], { golden_workspace: 'base' })
    await create('three', ['a'], { golden_workspace: 'base', base_snapshot: 'other' })
    const seeds = await Promise.all(['one-a', 'two-a', 'three-a'].map((name) => sh(app, name, 'cat /workspace/seed')))
    expect(seeds.map(({ stdout }) => stdout)).toEqual(['gold\n', 'gold\n', 'later\n'])
    const roles = [{ name: 'a', role: 'x' }]
    const wrong = async (args: object) => (await refused('create', { name: 'no', roles, ...args })).code
    expect(await wrong({ base_snapshot: 'golden' })).toBe('ERR_INVALID_INPUT')
    expect(await wrong({ base_snapshot: 'base:none' })).toBe('ERR_SNAPSHOT_NOT_FOUND')
    expect(await wrong({ base_snapshot: 'none:golden' })).toBe('ERR_WORKSPACE_NOT_FOUND')
    await app.ask('workspace_destroy', { workspace_id: 'base' })
  })

  it.each([
    ['name', { name: '-crew' }],
    ['name', { name: 'cr_ew' }],
    ['roles.name', { roles: [{ name: 'a.b', role: 'x' }] }],
    ['roles.name', { roles: ['a', 'b', 'A'].map((name) => ({ name, role: 'x' })) }],
    ['roles.name', { roles: [{ name: 'owner', role: 'x' }] }],
    ['roles.name', { name: 'n'.repeat(64), roles: [{ name: 'm'.repeat(64), role: 'x' }] }],
    ['to', { to: 'a' }],
    ['max_vms', { max_vms: 21 }],
  ])('is refused for its %s: %j', async (field, args) => {
    const request = { name: 'crew', roles: [{ name: 'a', role: 'x' }], ...args }
    expect(await refused('create', request)).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field } })
  })

  it('asks for what an action needs', async () => {
    expect(await refused('create', { name: 'crew' })).toMatchObject({ details: { field: 'roles' } })
    expect(await refused('message', { name: 'crew', agent: 'a', to: 'b' })).toMatchObject({
      details: { field: 'content' },
    })
    expect(await refused('list', { name: 'crew' })).toMatchObject({ details: { field: 'name' } })
  })

  it('is made whole or not at all', async () => {
    await app.ask('workspace_create', { name: 'crew-c' })
    expect(await refused('create', { name: 'crew', roles: roles('a', 'b', 'c', 'd') })).toMatchObject({
      code: 'ERR_ALREADY_EXISTS',
    })
    expect(await namesFor(app)).toEqual(['crew-c'])
    expect(cardsOf('crew')).toEqual([])
    await app.ask('workspace_destroy', { workspace_id: 'crew-c' })
    const controller = new AbortController()
    const answer = await app.call('team', { action: 'create', name: 'crew', roles: roles('a', 'b', 'c') }, undefined, {
      signal: controller.signal,
      progress: ({ progress }) => progress === 2 && controller.abort(),
    })
    expect(answer.failure?.code).toBe('ERR_CANCELLED')
    expect(await namesFor(app)).toEqual([])
    expect(await act('list')).toMatchObject({ count: 0 })
  })

  it('has a name of its own', async () => {
    await create('crew', ['a'])
    expect((await refused('create', { name: 'crew', roles: roles('z') })).code).toBe('ERR_ALREADY_EXISTS')
    expect((await status('crew')).members.map(({ name }) => name)).toEqual(['a'])
  })

  it('goes with its sub-teams and cards; what people wrote beside the cards stays', async () => {
    await create('crew', ['a', 'b'])
    await create('sub', ['c'], { parent_team: 'crew' })
    await create('subsub', ['d'], { parent_team: 'sub' })
    await app.ask('vault', { action: 'write', path: 'teams/crew/notes/plan.md', content: 'Plan' })
    expect(await act('destroy', { name: 'crew' })).toMatchObject({
      success: true,
      destroyed_teams: ['subsub', 'sub', 'crew'],
      message: 'The team crew was destroyed, with 2 sub-teams and 4 workspaces.',
    })
    expect(await namesFor(app)).toEqual([])
    expect(['crew', 'sub', 'subsub'].flatMap(cardsOf)).toEqual([])
    await create('one', ['a'])
    const { message } = await act('destroy', { name: 'one' })
    expect(message).toBe('The team one was destroyed, with 0 sub-teams and 1 workspace.')
    expect(await app.ask('vault', { action: 'read', path: 'teams/crew/notes/plan.md' })).toMatchObject({
      content: 'Plan',
    })
    expect(readdirSync(join(app.dataDir, 'vault/teams'))).toEqual(['crew'])
    expect(readdirSync(join(app.dataDir, 'vault/teams/crew'))).toEqual(['notes'])
    expect((await refused('status', { name: 'crew' })).code).toBe('ERR_TEAM_NOT_FOUND')
  })
})

const roles = (...names: string[]) => names.map((name) => ({ name, role: 'worker' }))

describe('budgets', () => {
  it('hold for the team, for every team above it, and for the machine', async () => {
    expect(await refused('create', { name: 'big', roles: roles(...'abcdefghijk') })).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      details: { quota: 'max_vms', limit: 10, wanted: 11 },
    })
    await create('top', ['a', 'b'], { max_vms: 5 })
    const middle = await app.call('team', {
      action: 'create',
      name: 'middle',
      roles: roles('a'),
      max_vms: 9,
      parent_team: 'top',
    })
    expect(JSON.parse(middle.json)).toMatchObject({ max_vms: 5, depth: 1, parent_team: 'top' })
    expect(JSON.stringify(middle.content)).toContain('lowered to 5')
    const below = { name: 'low', parent_team: 'middle' }
    expect(await refused('create', { ...below, roles: roles('a', 'b', 'c') })).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      details: { quota: 'max_vms', name: 'top', used: 3, wanted: 3, limit: 5 },
    })
    await act('create', { ...below, roles: roles('a', 'b') })
    expect(await status('top')).toMatchObject({ budget: { used_vms: 5, free_vms: 0 }, sub_teams: ['middle'] })
    expect(await status('middle')).toMatchObject({ budget: { used_vms: 3 }, parent_team: 'top', depth: 1 })
    expect(await refused('create', { name: 'more', roles: roles(...'abcdefgh') })).toMatchObject({
      details: { quota: 'max_total_vms', used: 5, wanted: 8, limit: 12 },
    })
  })

  it('end the nesting at the configured depth', async () => {
    await create('t0', ['a'])
    for (const depth of [1, 2, 3]) await create(`t${depth}`, ['a'], { parent_team: `t${depth - 1}` })
    expect(await refused('create', { name: 't4', roles: roles('a'), parent_team: 't3' })).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      details: { quota: 'max_nesting_depth', limit: 3 },
    })
    expect((await refused('create', { name: 't5', roles: roles('a'), parent_team: 'none' })).code).toBe(
      'ERR_TEAM_NOT_FOUND',
    )
  })

  it('are not passed by two at once', async () => {
    await create('top', ['a'], { max_vms: 3 })
    const request = (name: string) => ({ action: 'create', name, roles: roles('a', 'b'), parent_team: 'top' })
    const answers = await Promise.all(['x', 'y'].map((name) => app.call('team', request(name))))
    expect(answers.map(({ failure }) => failure?.code).sort()).toEqual(['ERR_QUOTA_EXCEEDED', undefined])
  })
})

describe('owners', () => {
  it('alone find the folder of a team in the vault, with the cards that can be read there', async () => {
    const [ann, bob] = [await app.keyCaller(), await app.keyCaller()]
    await teamsOf(() => app, ann).create('crew', ['a'])
    const vault = (args: object, caller = ann) => app.call('vault', args, caller)
    await app.ask('vault', { action: 'write', path: 'teams/crew/plan.md', content: 'secret plan' }, ann)
    const read = await vault({ action: 'read', path: 'teams/crew/cards/a.json' })
    expect(JSON.parse(JSON.parse(read.json).content)).toMatchObject({ team: 'crew', workspace_name: 'crew-a' })
    expect((await vault({ action: 'list', path: 'teams', recursive: true })).json).toContain('teams/crew/cards/a.json')
    expect((await vault({ action: 'search', query: 'crew-a' })).json).toContain('teams/crew/cards/a.json')
    expect((await vault({ action: 'write', path: 'teams/crew/cards/a.json', content: '' })).failure?.code).toBe(
      'ERR_INVALID_INPUT',
    )
    for (const action of ['list', 'stats', 'search']) {
      const args = action === 'search' ? { query: 'e' } : action === 'list' ? { recursive: true } : {}
      expect((await vault({ action, ...args }, bob)).json, action).not.toMatch(/crew|secret/)
    }
    const path = 'teams/crew/plan.md'
    const looks = [
      { action: 'read', path },
      { action: 'read', path: 'teams/crew/cards/a.json' },
      { action: 'list', path: 'teams/crew' },
      { action: 'list', path: 'teams/crew/cards/' },
      { action: 'batch_read', paths: [path] },
      { action: 'write', path, content: 'mine' },
      { action: 'replace', path, old_string: 'secret', new_string: '' },
      { action: 'frontmatter', path, frontmatter_action: 'get' },
      { action: 'tags', path, tags_action: 'list' },
      { action: 'delete', path, confirm: true },
      { action: 'move', path, new_path: 'mine.md' },
      { action: 'move', path: 'own.md', new_path: 'teams/crew/own.md' },
    ]
    await app.ask('vault', { action: 'write', path: 'own.md', content: 'x' }, bob)
    for (const args of looks) {
      const there = await vault(args, bob)
      const missing = await vault(JSON.parse(JSON.stringify(args).replaceAll('crew', 'none')), bob)
      expect(there.json.replaceAll('crew', 'none'), JSON.stringify(args)).toBe(missing.json)
      if (args.action !== 'batch_read') expect(there.failure?.code, args.action).toBe('ERR_NOTE_NOT_FOUND')
    }
    expect(await app.ask('vault', { action: 'read', path }, ann)).toMatchObject({ content: 'secret plan' })
    expect(await app.ask('vault', { action: 'read', path })).toMatchObject({ content: 'secret plan' })
  })

  it('are their own: a team is for its owner and for administrators, and counts in the quota of workspaces', async () => {
    const [ann, bob] = [await app.keyCaller(), await app.keyCaller()]
    const [annsTeams, bobsTeams] = [ann, bob].map((caller) => teamsOf(() => app, caller))
    await annsTeams!.create('crew', ['a', 'b'])
    expect((await sh(app, 'crew-a', 'hostname', {}, ann)).stdout).toBe('crew-a\n')
    expect(await annsTeams!.refused('create', { name: 'more', roles: roles('a', 'b') })).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      details: { quota: 'workspaces' },
    })
    expect(await annsTeams!.act('list')).toMatchObject({ count: 1 })
    expect(await bobsTeams!.act('list')).toMatchObject({ count: 0 })
    const foreign = { name: 'crew', agent: 'a', to: 'b', content: 'x' }
    for (const [action, args] of [
      ['status', { name: 'crew' }],
      ['destroy', { name: 'crew' }],
      ['message', foreign],
      ['receive', { name: 'crew', agent: 'a' }],
    ] as const) {
      const { code, message } = await bobsTeams!.refused(action, args)
      expect(code).toBe('ERR_TEAM_NOT_FOUND')
      expect(message).toBe(
        (await bobsTeams!.refused(action, { ...args, name: 'nope' })).message.replace('nope', 'crew'),
      )
    }
    expect((await bobsTeams!.refused('create', { name: 'sub', roles: roles('a'), parent_team: 'crew' })).code).toBe(
      'ERR_TEAM_NOT_FOUND',
    )
    expect(await status('crew')).toMatchObject({ owner: expect.stringMatching(/^key:/), orphaned: false })
  })

  it('that are gone leave a team that can be adopted whole, as far as the quota allows', async () => {
    const ann = await app.keyCaller({ name: 'ann-gone' })
    const [bob, cid] = [await app.keyCaller({ role: 'admin' }), await app.keyCaller({ role: 'admin' })]
    const dan = teamsOf(() => app, await app.keyCaller())
    const anns = teamsOf(() => app, ann)
    await anns.create('crew', ['a'])
    await anns.create('sub', ['b'], { parent_team: 'crew' })
    const bobs = teamsOf(() => app, bob)
    expect((await dan.refused('adopt', { name: 'crew' })).code).toBe('ERR_TEAM_NOT_FOUND')
    expect((await refused('adopt', { name: 'crew' })).code).toBe('ERR_WORKSPACE_STATE')
    const { keys } = await app.ask<{ keys: { id: string; name: string }[] }>('api_key_list')
    await app.ask('api_key_revoke', { key: keys.find(({ name }) => name === 'ann-gone')!.id })
    expect(await status('crew')).toMatchObject({ orphaned: true })
    for (const action of ['adopt', 'status', 'destroy'] as const)
      expect((await dan.refused(action, { name: 'crew' })).code).toBe('ERR_TEAM_NOT_FOUND')
    expect((await refused('receive', { name: 'crew', agent: 'a' })).message).toContain('the action adopt')

    for (const name of ['x', 'y']) await app.ask('workspace_create', { name }, cid)
    const cids = teamsOf(() => app, cid)
    expect((await cids.refused('adopt', { name: 'crew' })).code).toBe('ERR_QUOTA_EXCEEDED')
    expect((await cids.refused('adopt', { name: 'sub' })).message).toContain('adopt that team, which includes this one')
    expect(await status('sub')).toMatchObject({ orphaned: true })
    for (const name of ['x', 'y']) await app.ask('workspace_destroy', { workspace_id: name }, cid)

    const narrow = await app.keyCaller({ scopes: ['team:update', 'team:read'] })
    expect((await teamsOf(() => app, narrow).refused('adopt', { name: 'crew' })).code).toBe('ERR_PERMISSION_DENIED')
    expect(await bobs.act('adopt', { name: 'crew' })).toMatchObject({ adopted_teams: ['sub', 'crew'] })
    expect(await bobs.act('adopt', { name: 'crew' })).toMatchObject({ adopted_teams: [] })
    expect(await bobs.status('sub')).toMatchObject({ orphaned: false, owner: expect.stringMatching(/^key:/) })
    expect(await info(app, 'sub-b', bob)).toMatchObject({ owned: true, team: 'sub' })
    // It was stopped with the key.
    await app.ask('workspace_start', { workspace_id: 'crew-a' }, bob)
    await bobs.assign('crew', 'a', { task_id: 't', command: 'hostname' })
    expect(await bobs.results('crew', 'a', 1)).toMatchObject([{ stdout: 'crew-a\n' }])
    const effects = (await app.log()).flatMap((entry) => entry.effects ?? [])
    expect(effects.filter(({ kind }) => kind === 'team_adopted')).toHaveLength(1)
  })

  it('that are gone leave a team that an administrator may end, but not what a caller adopted', async () => {
    const [ann, bob] = [await app.keyCaller({ name: 'ann-to-go' }), await app.keyCaller({ role: 'admin' })]
    await teamsOf(() => app, ann).create('crew', ['a', 'b'])
    const { keys } = await app.ask<{ keys: { id: string; name: string }[] }>('api_key_list')
    await app.ask('api_key_revoke', { key: keys.find(({ name }) => name === 'ann-to-go')!.id })
    const bobs = teamsOf(() => app, bob)
    expect(await bobs.status('crew')).toMatchObject({ orphaned: true })
    expect((await bobs.refused('receive', { name: 'crew', agent: 'a' })).code).toBe('ERR_WORKSPACE_ORPHANED')
    await app.ask('workspace_adopt', { workspace_id: 'crew-a' }, bob)
    await bobs.act('destroy', { name: 'crew' })
    expect(await namesFor(app)).toEqual(['crew-a'])
    expect(await info(app, 'crew-a', bob)).toMatchObject({ owned: true, team: null })
    await app.ask('workspace_destroy', { workspace_id: 'crew-a' })
  })
})
