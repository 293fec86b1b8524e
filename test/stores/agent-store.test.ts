import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { SYSTEM_TENANT, type TenantId, tenantId } from '../../src/contract/principal.ts'
import type { Viewer } from '../../src/contract/sharing.ts'
import type { Agent, AgentVersion } from '../../src/domains/agents/ports.ts'
import type { Profile } from '../../src/domains/profiles/ports.ts'
import { sqlAgentStore as store } from '../../src/stores/sql/agent-store.ts'
import { sqlProfileStore as profiles } from '../../src/stores/sql/profile-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')
const NOW = 1_767_225_600_000

const viewer: Viewer = { identity: 'user:ann', teams: [], seesEveryTeam: false, seesEveryPersonal: false }
const profileOf = ({ tenant, id, name, createdAtMs, updatedAtMs }: Agent): Profile => ({
  tenant,
  id,
  kind: 'agent',
  name,
  slug: name,
  description: null,
  sharing: { scope: 'org', author: 'owner', teams: [] },
  icon: null,
  labels: [],
  systemPrompt: null,
  suggestedPrompts: [],
  exposure: 'full',
  contextUntrusted: false,
  isDefault: false,
  createdAtMs,
  updatedAtMs,
})

const agentOf = (tenant: TenantId, id: string, more: Partial<Agent> = {}): Agent => ({
  tenant,
  id,
  name: `name-of-${id}`,
  status: 'active',
  latestVersion: '1.0.0',
  description: 'Does “things” with ü.',
  labels: { team: 'a', 'x/y': '' },
  createdAtMs: NOW,
  createdBy: 'ann',
  updatedAtMs: NOW + 1,
  ...more,
})
const versionOf = (agentId: string, version: string, manifestYaml = 'kind: Agent\n'): AgentVersion => ({
  agentId,
  version,
  manifestYaml,
  createdAtMs: NOW,
  createdBy: 'ann',
})

describe.each(dialects)('agents in %s', (dialect) => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())
  const insert = (agent: Agent) =>
    database.write(agent.tenant, async (tx) => {
      await store.insertAgent(tx, agent.tenant, agent)
      await profiles.insertProfile(tx, agent.tenant, profileOf(agent))
    })
  const put = (tenant: TenantId, version: AgentVersion) =>
    database.write(tenant, (tx) => store.putVersion(tx, tenant, version))

  it('keep every field', async () => {
    const agent = agentOf(ACME, 'one')
    await insert(agent)
    expect(await store.findAgent(database.read, ACME, 'one')).toEqual(agent)
    expect(await store.findAgentsByName(database.read, ACME, 'name-of-one')).toEqual([agent])
    const changed = { ...agent, status: 'paused', latestVersion: '2.0.0', labels: {}, updatedAtMs: NOW + 9 } as const
    await database.write(ACME, (tx) => store.saveAgent(tx, ACME, changed))
    expect(await store.listAgents(database.read, ACME, viewer)).toEqual([changed])
  })

  it('keep versions side by side, and replace one in place', async () => {
    await insert(agentOf(ACME, 'one'))
    await put(ACME, versionOf('one', '1.0.0'))
    await put(ACME, versionOf('one', '1.1.0'))
    await put(ACME, versionOf('one', '1.0.0', 'kind: Agent # again\n'))
    expect(await store.versionsOf(database.read, ACME, 'one')).toEqual(['1.0.0', '1.1.0'])
    const found = await store.findVersion(database.read, ACME, 'one', '1.0.0')
    expect(found).toEqual(versionOf('one', '1.0.0', 'kind: Agent # again\n'))
    expect(await store.findVersion(database.read, ACME, 'one', '3.0.0')).toBeUndefined()
  })

  it('go with all their versions, and leave those of others', async () => {
    for (const tenant of [ACME, OTHER]) {
      await insert(agentOf(tenant, 'one'))
      await put(tenant, versionOf('one', '1.0.0'))
    }
    expect(await database.write(ACME, (tx) => store.deleteAgent(tx, ACME, 'one'))).toBe(true)
    expect(await database.write(ACME, (tx) => store.deleteAgent(tx, ACME, 'one'))).toBe(false)
    expect(await store.versionsOf(database.read, ACME, 'one')).toEqual([])
    expect(await store.versionsOf(database.read, OTHER, 'one')).toEqual(['1.0.0'])
    expect(await store.countAgents(database.read, OTHER)).toBe(1)
  })

  it('are written for another tenant only if they belong to everybody', async () => {
    await database.write(ACME, async (tx) => {
      await store.lockShared(tx)
      await store.insertAgent(tx, SYSTEM_TENANT, agentOf(SYSTEM_TENANT, 'shared'))
    })
    expect(await store.findAgent(database.read, SYSTEM_TENANT, 'shared')).toBeDefined()
    await expect(
      database.write(ACME, (tx) => store.insertAgent(tx, OTHER, agentOf(OTHER, 'foreign'))),
    ).rejects.toThrow()
    expect(await store.listAgents(database.read, OTHER, viewer)).toEqual([])
  })
})
