import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { type Permission, rightsOf } from '../../src/contract/permissions.ts'
import { identityOf, localOwner, type Principal, SYSTEM_TENANT, tenantId } from '../../src/contract/principal.ts'
import {
  canModify,
  canSee,
  requireShareable,
  type SharedResource,
  type Sharing,
  sharedResources,
  viewerOf,
} from '../../src/contract/sharing.ts'
import type { Profile } from '../../src/domains/profiles/ports.ts'
import { sqlProfileStore as store } from '../../src/stores/sql/profile-store.ts'
import { sharedTeams } from '../../src/stores/sql/sharing.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')
const NOW = 1_767_225_600_000

const userOf = (
  user: string,
  role: 'admin' | 'editor' | 'member' = 'member',
  teams: readonly string[] = [],
): Principal => ({
  ...localOwner,
  tenant: ACME,
  kind: 'user',
  actor: user,
  user,
  ...rightsOf(role),
  tier: 'user',
  teams,
})
const ann = userOf('ann')

const profileOf = (id: string, more: Partial<Profile> = {}): Profile => ({
  tenant: ACME,
  id,
  kind: 'agent',
  name: `Name of ${id}`,
  slug: `name-of-${id}`,
  description: 'Does “things” with ü.',
  sharing: { scope: 'personal', author: 'user:ann', teams: [] },
  icon: '🦉',
  labels: [{ key: 'x/y', value: '' }],
  systemPrompt: 'Be brief.',
  suggestedPrompts: [{ summaryTitle: 'Hello', prompt: 'Say hello.' }],
  exposure: 'search_and_run_only',
  contextUntrusted: true,
  isDefault: false,
  createdAtMs: NOW,
  updatedAtMs: NOW + 1,
  ...more,
})
const everything = { limit: 1_000, offset: 0 }

describe.each(dialects)('profiles in %s', (dialect) => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())
  const insert = (...profiles: Profile[]) =>
    database.write(ACME, async (tx) => {
      for (const profile of profiles) await store.insertProfile(tx, profile.tenant, profile)
    })

  it('keep every field', async () => {
    const profile = profileOf('one', { sharing: { scope: 'team', author: 'user:ann', teams: ['t1', 't2'] } })
    await insert(profile)
    expect(await store.findProfile(database.read, ACME, 'one')).toEqual(profile)
    expect(await store.findProfile(database.read, OTHER, 'one')).toBeUndefined()
    const changed: Profile = {
      ...profile,
      name: 'Other',
      slug: 'other',
      description: null,
      sharing: { scope: 'org', author: 'user:bob', teams: [] },
      icon: null,
      labels: [],
      systemPrompt: null,
      suggestedPrompts: [],
      exposure: 'full',
      contextUntrusted: false,
      isDefault: true,
      updatedAtMs: NOW + 9,
    }
    await database.write(ACME, (tx) => store.saveProfile(tx, ACME, changed))
    expect(await store.findProfile(database.read, ACME, 'one')).toEqual(changed)
  })

  it('of all tenants are written by any, and belong to no team', async () => {
    await insert(profileOf('g', { tenant: SYSTEM_TENANT, sharing: { scope: 'org', author: 'owner', teams: [] } }))
    expect(await store.findProfile(database.read, SYSTEM_TENANT, 'g')).toMatchObject({ tenant: SYSTEM_TENANT })
    await database.write(ACME, (tx) => store.deleteProfile(tx, SYSTEM_TENANT, 'g'))
    expect(await store.findProfile(database.read, SYSTEM_TENANT, 'g')).toBeUndefined()
  })

  it('are found by name in any case, by slug, and by a part of the name', async () => {
    const gateway = profileOf('three', { kind: 'mcp_gateway', name: 'Ärzte' })
    await insert(profileOf('one', { name: 'Ärzte' }), profileOf('two', { name: 'Ä' }), gateway)
    const named = async (name: string) =>
      (await store.findNamed(database.read, ACME, 'agent', name)).map(({ id }) => id)
    expect(await named('äRZTE')).toEqual(['one'])
    expect(await named('A\u0308rzte')).toEqual(['one'])
    expect(await named('name-of-two')).toEqual(['two'])
    expect(await named('none')).toEqual([])
    const filter = { kind: 'agent', viewer: viewerOf(ann, 'agent'), name: 'RZT' } as const
    expect((await store.listProfiles(database.read, ACME, filter, everything)).map(({ id }) => id)).toEqual(['one'])
    expect(await store.countProfiles(database.read, ACME, filter)).toBe(1)
    expect(await store.countProfiles(database.read, ACME, { ...filter, name: '%' })).toBe(0)
  })

  it('are listed by name in pages, and counted by author', async () => {
    await insert(...['c', 'a', 'b'].map((id) => profileOf(id, { name: id })))
    await insert(profileOf('d', { sharing: { scope: 'org', author: 'user:bob', teams: [] } }))
    const filter = { kind: 'agent', viewer: viewerOf(ann, 'agent') } as const
    const page = await store.listProfiles(database.read, ACME, filter, { limit: 2, offset: 1 })
    expect(page.map(({ id }) => id)).toEqual(['b', 'c'])
    expect(await store.countOf(database.read, ACME, 'agent')).toBe(4)
    expect(await store.countOf(database.read, ACME, 'agent', 'user:ann')).toBe(3)
    expect(await store.countOf(database.read, ACME, 'llm_proxy')).toBe(0)
  })

  it('have sub-agents in the order in which they came, once each, and lose those that are deleted', async () => {
    await insert(profileOf('lead'), profileOf('one'), profileOf('two'))
    await database.write(ACME, async (tx) => {
      await store.addSubAgents(tx, ACME, 'lead', ['two'], NOW)
      await store.addSubAgents(tx, ACME, 'lead', ['one', 'two'], NOW + 1)
    })
    expect(await store.subAgentsOf(database.read, ACME, 'lead')).toEqual(['two', 'one'])
    expect(await store.subAgentsOf(database.read, OTHER, 'lead')).toEqual([])
    await database.write(ACME, (tx) => store.deleteProfile(tx, ACME, 'two'))
    expect(await store.subAgentsOf(database.read, ACME, 'lead')).toEqual(['one'])
    await database.write(ACME, (tx) => store.deleteProfile(tx, ACME, 'lead'))
    expect(await store.subAgentsOf(database.read, ACME, 'lead')).toEqual([])
  })

  it('are no longer shared with a team that is gone', async () => {
    const sharing: Sharing = { scope: 'team', author: 'user:bob', teams: ['t1', 't2'] }
    await insert(profileOf('one', { sharing }), profileOf('two', { sharing: { ...sharing, teams: ['t1'] } }))
    await database.write(ACME, (tx) => sharedTeams.forgetTeam(tx, ACME, 't1'))
    expect(await sharedTeams.of(database.read, ACME, 'profile', 'one')).toEqual(['t2'])
    expect(await store.findProfile(database.read, ACME, 'two')).toMatchObject({ sharing: { teams: [] } })
  })

  it('are seen in the list by exactly those who may see each', async () => {
    const teams = ['t1', 't2', 't3']
    const sharingArbitrary: fc.Arbitrary<Sharing> = fc
      .record({
        scope: fc.constantFrom('personal', 'team', 'org'),
        author: fc.constantFrom('user:ann', 'user:bob', 'key:ann', 'owner'),
        teams: fc.subarray(teams, { minLength: 1 }),
      })
      .map((sharing) => (sharing.scope === 'team' ? sharing : { ...sharing, teams: [] }))
    await fc.assert(
      fc.asyncProperty(
        fc.array(sharingArbitrary, { minLength: 1, maxLength: 8 }),
        principals(teams),
        fc.constantFrom(...sharedResources),
        async (sharings, principal, resource) => {
          const profiles = sharings.map((sharing, index) => profileOf(`p${index}`, { sharing }))
          await insert(...profiles)
          const filter = { kind: 'agent', viewer: viewerOf(principal, resource) } as const
          const listed = await store.listProfiles(database.read, ACME, filter, everything)
          const seen = profiles.filter(({ sharing }) => canSee(principal, resource, sharing))
          expect(listed.map(({ id }) => id).sort()).toEqual(seen.map(({ id }) => id).sort())
          expect(await store.countProfiles(database.read, ACME, filter)).toBe(seen.length)
          await database.write(ACME, async (tx) => {
            for (const { id } of profiles) await store.deleteProfile(tx, ACME, id)
          })
        },
      ),
      { numRuns: dialect === 'SQLite' ? 200 : 60 },
    )
  })
})

function principals(teams: readonly string[]): fc.Arbitrary<Principal> {
  return fc
    .record({
      who: fc.constantFrom('ann', 'bob', 'carl'),
      kind: fc.constantFrom('user', 'key', 'agent', 'owner'),
      role: fc.constantFrom('admin', 'editor', 'member'),
      teams: fc.subarray([...teams]),
      without: fc.constantFrom<Permission[]>([], ['agent:admin'], ['agent:team-admin', 'mcpGateway:admin']),
    })
    .map(({ who, kind, role, teams: own, without }) => {
      const rights = rightsOf(role)
      return {
        ...userOf(who, role, own),
        kind,
        keyId: who,
        onBehalfOf: `user:${who}`,
        permissions: new Set([...rights.permissions].filter((permission) => !without.includes(permission))),
      }
    })
}

describe('the rules of sharing', () => {
  const of = (scope: Sharing['scope'], author = 'user:bob', teams: readonly string[] = []): Sharing => ({
    scope,
    author,
    teams,
  })
  const sees = (principal: Principal, sharing: Sharing, resource: SharedResource = 'agent') => [
    canSee(principal, resource, sharing),
    canModify(principal, resource, sharing),
  ]

  it.each([
    ['a member, what is their own', userOf('ann'), of('personal', 'user:ann'), [true, true]],
    ['a member, what is personal to another', userOf('ann'), of('personal'), [false, false]],
    ['an administrator, the agent that is personal to another', userOf('ann', 'admin'), of('personal'), [false, false]],
    [
      'a key of the same name, what is personal to a user',
      { ...ann, kind: 'key', keyId: 'ann' },
      of('personal', 'user:ann'),
      [false, false],
    ],
    [
      'an agent of ann, what is hers',
      { ...ann, kind: 'agent', onBehalfOf: 'user:ann' },
      of('personal', 'user:ann'),
      [true, true],
    ],
    ['a member, what the organisation has', userOf('ann'), of('org', 'user:ann'), [true, false]],
    ['an editor, what the organisation has', userOf('ann', 'editor'), of('org'), [true, false]],
    ['an administrator, what the organisation has', userOf('ann', 'admin'), of('org'), [true, true]],
    ['a member of the team', userOf('ann', 'member', ['t1']), of('team', 'user:bob', ['t1', 't2']), [true, false]],
    ['an editor of the team', userOf('ann', 'editor', ['t2']), of('team', 'user:bob', ['t1', 't2']), [true, true]],
    [
      'an editor of another team',
      userOf('ann', 'editor', ['t3']),
      of('team', 'user:bob', ['t1', 't2']),
      [false, false],
    ],
    ['the author who left the team', userOf('bob', 'editor'), of('team', 'user:bob', ['t1']), [false, false]],
    ['an administrator of no team', userOf('ann', 'admin'), of('team', 'user:bob', ['t1']), [true, true]],
  ] satisfies [string, Principal, Sharing, boolean[]][])('let %s', (_what, principal, sharing, expected) => {
    expect(sees(principal, sharing)).toEqual(expected)
  })

  it('show administrators the gateways that are personal to others', () => {
    expect(sees(userOf('ann', 'admin'), of('personal'), 'mcpGateway')).toEqual([true, true])
  })

  it('let an administrator of teams change the installations of all that they see', () => {
    const admin: Principal = { ...ann, teams: ['t1'], permissions: new Set(['userTeam:admin']) }
    expect(sees(admin, of('team', 'user:bob', ['t1']), 'mcpServerInstallation')).toEqual([true, true])
  })

  it('nobody may change what it does not see', () => {
    const sharing = fc.record({
      scope: fc.constantFrom('personal', 'team', 'org'),
      author: fc.constantFrom('user:ann', 'user:bob'),
      teams: fc.subarray(['t1', 't2']),
    })
    fc.assert(
      fc.property(
        principals(['t1', 't2']),
        sharing,
        fc.constantFrom(...sharedResources),
        (principal, shared, resource) => {
          if (canModify(principal, resource, shared)) expect(canSee(principal, resource, shared)).toBe(true)
        },
      ),
    )
  })

  it('what a caller may share, it may change afterwards', () => {
    const wanted = fc.record({
      scope: fc.constantFrom('personal', 'team', 'org'),
      teams: fc.subarray(['t1', 't2', 't3']),
    })
    fc.assert(
      fc.property(
        principals(['t1', 't2']),
        wanted,
        fc.constantFrom(...sharedResources),
        (principal, { scope, teams }, resource) => {
          try {
            requireShareable(principal, resource, scope, teams)
          } catch {
            return
          }
          const sharing = { scope, teams, author: identityOf(principal) }
          const mayOnlyAdminister = resource === 'mcpServerInstallation' && !canSee(principal, resource, sharing)
          expect(mayOnlyAdminister || canModify(principal, resource, sharing)).toBe(true)
        },
      ),
    )
  })

  it.each([
    ['org', [], userOf('ann', 'editor'), 'agent:admin'],
    ['team', ['t1'], userOf('ann', 'member', ['t1']), 'agent:team-admin'],
    ['team', ['t1', 't2'], userOf('ann', 'editor', ['t1']), undefined],
  ] as const)('refuse scope %s with teams %j', (scope, teams, principal, permission) => {
    expect(() => requireShareable(principal, 'agent', scope, teams)).toThrow(
      expect.objectContaining({
        code: 'ERR_PERMISSION_DENIED',
        details: expect.objectContaining(permission === undefined ? { field: 'teams' } : { permission }),
      }),
    )
  })

  it.each([
    ['personal', ['t1']],
    ['org', ['t1']],
    ['team', []],
  ] as const)('refuse scope %s with teams %j for everybody', (scope, teams) => {
    expect(() => requireShareable(localOwner, 'agent', scope, teams)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_INPUT', details: { field: 'teams' } }),
    )
  })
})
