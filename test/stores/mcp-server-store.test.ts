import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { limits } from '../../src/contract/limits.ts'
import { type TenantId, tenantId } from '../../src/contract/principal.ts'
import type { Sharing } from '../../src/contract/sharing.ts'
import { forgetUnlisted, storeToolList } from '../../src/domains/mcp-servers/discovery.ts'
import type { CatalogItem, Deployment, StoredTool } from '../../src/domains/mcp-servers/ports.ts'
import type { ListedTool } from '../../src/domains/mcp-servers/runtime.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import { sqlMcpServerStore as store } from '../../src/stores/sql/mcp-server-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')
const NOW = 1_767_225_600_000
const personal: Sharing = { scope: 'personal', author: 'key:ann', teams: [] }

const itemOf = (tenant: TenantId, id: string, more: Partial<CatalogItem> = {}): CatalogItem => ({
  tenant,
  id,
  name: `Server ${id}`,
  slug: `server_${id}`,
  sharing: personal,
  description: 'Does “things” with ü.',
  icon: '🧰',
  docsUrl: null,
  repository: 'https://example.org/r',
  version: '1.0',
  instructions: null,
  labels: [{ key: 'a', value: 'b' }],
  environmentId: null,
  serverType: 'local',
  config: { command: 'node', arguments: ['x'], userConfig: { a: { type: 'string', required: true } } },
  createdAtMs: NOW,
  updatedAtMs: NOW + 1,
  ...more,
})
const deploymentOf = (tenant: TenantId, id: string, more: Partial<Deployment> = {}): Deployment => ({
  tenant,
  id,
  catalogId: 'one',
  sharing: personal,
  status: 'pending',
  error: null,
  values: { TOKEN: 'secret:sec_1' },
  grant: 'secret:sec_2',
  toolList: null,
  createdAtMs: NOW,
  updatedAtMs: NOW,
  ...more,
})
const toolOf = (tenant: TenantId, id: string, more: Partial<StoredTool> = {}): StoredTool => ({
  tenant,
  id,
  catalogId: 'one',
  upstreamName: id,
  name: `server__${id}`,
  aliases: ['old__name'],
  listVersion: 1,
  removedAtMs: null,
  ...more,
})

describe.each(dialects)('MCP servers in %s', (dialect) => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())
  const insert = (item: CatalogItem) => database.write(item.tenant, (tx) => store.insertItem(tx, item.tenant, item))
  const deploy = (one: Deployment) => database.write(one.tenant, (tx) => store.insertDeployment(tx, one.tenant, one))
  const put = (tool: StoredTool) => database.write(tool.tenant, (tx) => store.putTool(tx, tool.tenant, tool))

  it('keep every field, with their teams', async () => {
    const sharing: Sharing = { scope: 'team', author: 'key:ann', teams: ['t1', 't2'] }
    const item = itemOf(ACME, 'one', { sharing })
    await insert(item)
    await insert(itemOf(ACME, 'two', { name: 'A server' }))
    expect(await store.findItem(database.read, ACME, 'one')).toEqual(item)
    expect((await store.listItems(database.read, ACME)).map(({ id }) => id)).toEqual(['two', 'one'])
    const changed: CatalogItem = {
      ...item,
      name: 'Other',
      slug: 'other',
      sharing: { ...sharing, scope: 'org', teams: [] },
      serverType: 'remote',
      config: { serverUrl: 'https://example.org' },
      labels: [],
      updatedAtMs: NOW + 9,
    }
    await database.write(ACME, (tx) => store.saveItem(tx, ACME, changed))
    expect(await store.findItem(database.read, ACME, 'one')).toEqual(changed)
  })

  it('forget tools that are gone, oldest first, where a server lists others all the time', async () => {
    const item = itemOf(ACME, 'one')
    await insert(item)
    await deploy(deploymentOf(ACME, 'd'))
    const half = limits.mcpRemovedToolsMax / 2
    const deps = { store, random: systemRandom, clock: systemClock }
    const relist = (names: readonly string[], nowMs: number) =>
      database.write(ACME, async (tx) => {
        const listed = names.map((name) => ({ name, inputSchema: {} }))
        const deployment = (await store.findDeployment(tx, ACME, 'd'))!
        return await storeToolList(deps, tx, item, deployment, listed, nowMs)
      })
    const namesOf = (round: number) => Array.from({ length: half }, (_, index) => `r${round}-${index}`)
    for (const round of [1, 2, 3, 4]) await relist([...namesOf(round), 'steady'], NOW + round)
    const kept = await store.listTools(database.read, ACME, 'one')
    const rounds = Map.groupBy(kept, ({ upstreamName }) => upstreamName.split('-')[0])
    expect([...rounds].map(([round, tools]) => [round, tools.length]).toSorted()).toEqual([
      ...[2, 3, 4].map((round) => [`r${round}`, half]),
      ['steady', 1],
    ])
  })

  it('have one deployment of each author, of each team and of the organisation', async () => {
    const team = (name: string): Sharing => ({ scope: 'team', author: 'key:ann', teams: [name] })
    const org: Sharing = { scope: 'org', author: 'key:ann', teams: [] }
    const held: [string, Sharing][] = [
      ['ann', personal],
      ['bob', { ...personal, author: 'key:bob' }],
      ['t1', team('t1')],
      ['t2', team('t2')],
      ['org', org],
    ]
    for (const [id, sharing] of held) await deploy(deploymentOf(ACME, id, { sharing }))
    for (const [id, sharing] of held)
      await expect(deploy(deploymentOf(ACME, `${id}-again`, { sharing }))).rejects.toThrow()
    const all = await store.listDeployments(database.read, ACME, 'one')
    expect(all.map(({ id, sharing }) => [id, sharing]).sort()).toEqual(held.toSorted())
    const changed = {
      ...deploymentOf(ACME, 'ann'),
      status: 'error' as const,
      error: 'why',
      values: {},
      updatedAtMs: NOW + 2,
    }
    await database.write(ACME, (tx) => store.saveDeployment(tx, ACME, changed))
    expect(await store.findDeployment(database.read, ACME, 'ann')).toEqual(changed)
    expect(await database.write(ACME, (tx) => store.deleteDeployment(tx, ACME, 'ann'))).toBe(true)
    expect(await database.write(ACME, (tx) => store.deleteDeployment(tx, ACME, 'ann'))).toBe(false)
  })

  it('have tools that keep every field, and are counted when they change', async () => {
    const tool = toolOf(ACME, 'echo')
    await put(tool)
    expect(await store.findTool(database.read, ACME, 'echo')).toEqual(tool)
    const changed = {
      ...tool,
      name: 'new__echo',
      aliases: [tool.name],
      removedAtMs: NOW,
    }
    await put(changed)
    await put(toolOf(ACME, 'other', { catalogId: 'two' }))
    expect(await store.listTools(database.read, ACME, 'one')).toEqual([changed])
    const all = await store.listTools(database.read, ACME)
    expect(all).toHaveLength(2)
    const names = all.map(({ id, catalogId, name, aliases }) => ({ id, catalogId, name, aliases }))
    expect(await store.listToolNames(database.read, ACME)).toEqual(names)
    expect(await store.listToolNames(database.read, OTHER)).toEqual([])
    const marks = await store.toolListMarks(database.read, ACME)
    await put({ ...changed, listVersion: changed.listVersion + 1 })
    const later = await store.toolListMarks(database.read, ACME)
    expect(later.get('one')).not.toBe(marks.get('one'))
    expect(later.get('two')).toBe(marks.get('two'))
    expect(await store.toolListMarks(database.read, OTHER)).toEqual(new Map())
    await put(changed)
    const raise = (tenant: TenantId) => database.write(tenant, (tx) => store.raiseVersion(tx, tenant))
    expect([await raise(ACME), await raise(ACME), await raise(OTHER)]).toEqual([1, 2, 1])
    expect(await store.versions(database.read)).toEqual(
      new Map([
        [ACME, 2],
        [OTHER, 1],
      ]),
    )
  })

  it('have lists that deployments share, and definitions that lists share', async () => {
    await insert(itemOf(ACME, 'one'))
    for (const id of ['ann', 'bob', 'cy']) {
      await deploy(deploymentOf(ACME, id, { sharing: { ...personal, author: `key:${id}` } }))
    }
    const deps = { store, random: systemRandom, clock: systemClock }
    const list = (id: string, ...listed: ListedTool[]) =>
      database.write(ACME, async (tx) => {
        const deployment = (await store.findDeployment(tx, ACME, id))!
        return await storeToolList(deps, tx, itemOf(ACME, 'one'), deployment, listed, NOW)
      })
    const echo: ListedTool = {
      ...{ name: 'echo', title: 'Écho', description: 'Tells “ü”.', inputSchema: { type: 'object' } },
      ...{ outputSchema: { type: 'object' }, annotations: { readOnlyHint: true }, taskSupport: 'optional' },
    }
    const other: ListedTool = { name: 'other', inputSchema: { type: 'object' } }
    const counts = async () => [
      (await store.toolLists(database.read, ACME, 'one')).size,
      (await store.definitionDigests(database.read, ACME, 'one')).size,
      (await store.listTools(database.read, ACME, 'one')).filter(({ removedAtMs }) => removedAtMs === null).length,
    ]
    const toolList = async (id: string) => (await store.findDeployment(database.read, ACME, id))!.toolList
    expect([await list('ann', echo, other), await list('bob', other, echo)]).toEqual([true, true])
    expect(await toolList('bob')).toBe(await toolList('ann'))
    expect(await counts()).toEqual([1, 2, 2])
    expect(await list('bob', echo, other)).toBe(false)
    await list('cy', { ...echo, description: 'Of Cy.' })
    expect(await counts()).toEqual([2, 3, 2])
    const [digest] = (await store.findToolList(database.read, ACME, 'one', (await toolList('ann'))!))!.values()
    const { name: _, ...definition } = echo
    expect(await store.findDefinition(database.read, ACME, 'one', digest!)).toEqual(definition)
    expect((await store.definitions(database.read, ACME, 'one')).get(digest!)).toEqual(definition)
    await list('cy', other)
    expect(await counts()).toEqual([2, 2, 2])
    const remove = (id: string) =>
      database.write(ACME, async (tx) => {
        await store.deleteDeployment(tx, ACME, id)
        await forgetUnlisted(deps, tx, ACME, 'one', NOW)
      })
    await remove('ann')
    expect(await counts()).toEqual([2, 2, 2])
    await remove('bob')
    expect(await counts()).toEqual([1, 1, 1])
    expect(await database.write(ACME, (tx) => store.deleteItem(tx, ACME, 'one'))).toBe(true)
    expect(await counts()).toEqual([0, 0, 0])
  })

  it('have tools whose texts no store can keep as they are', async () => {
    await insert(itemOf(ACME, 'one'))
    await deploy(deploymentOf(ACME, 'd'))
    const deps = { store, random: systemRandom, clock: systemClock }
    const odd: ListedTool = {
      ...{ name: 'odd', title: 'Half \ud83d', description: 'Zero \u0000' },
      inputSchema: { type: 'object', title: '\ud83d \u0000', maximum: Number.POSITIVE_INFINITY },
    }
    const relist = () =>
      database.write(ACME, async (tx) => {
        const deployment = (await store.findDeployment(tx, ACME, 'd'))!
        return await storeToolList(deps, tx, itemOf(ACME, 'one'), deployment, [odd], NOW)
      })
    expect([await relist(), await relist()]).toEqual([true, false])
    const [stored] = (await store.definitions(database.read, ACME, 'one')).values()
    expect(stored).toMatchObject({ title: 'Half \ufffd', description: 'Zero \ufffd', inputSchema: { type: 'object' } })
  })

  it('go with what belongs to them, and leave those of others', async () => {
    for (const tenant of [ACME, OTHER]) {
      await insert(itemOf(tenant, 'one'))
      await deploy(deploymentOf(tenant, 'd'))
      await put(toolOf(tenant, 'echo'))
    }
    expect(await database.write(ACME, (tx) => store.deleteItem(tx, ACME, 'one'))).toBe(true)
    expect(await database.write(ACME, (tx) => store.deleteItem(tx, ACME, 'one'))).toBe(false)
    const left = async (tenant: TenantId) => [
      await store.findItem(database.read, tenant, 'one'),
      await store.findDeployment(database.read, tenant, 'd'),
      await store.findTool(database.read, tenant, 'echo'),
    ]
    expect(await left(ACME)).toEqual([undefined, undefined, undefined])
    expect(await left(OTHER)).toEqual([itemOf(OTHER, 'one'), deploymentOf(OTHER, 'd'), toolOf(OTHER, 'echo')])
    await expect(database.write(ACME, (tx) => store.insertItem(tx, OTHER, itemOf(OTHER, 'two')))).rejects.toThrow()
  })
})
