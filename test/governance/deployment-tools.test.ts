import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, ownerCaller, type TestApp } from '../support/app.ts'
import { startUpstreamByKey, type UpstreamByKey } from '../support/upstream-by-key.ts'

/** A server may list other tools for each key. What one deployment lists is nobody else's. */
type Tool = { id: string; name: string; description: string | null }
type Bulk = { succeeded: { toolId: string }[]; failed: { errorType: string }[]; duplicates: object[] }
let app: TestApp
let upstream: UpstreamByKey
let bob: ToolCaller
let cy: ToolCaller
let dan: ToolCaller
let crm: string
const ZEUS = 'bob_project_zeus'
const listed = () => ({
  bob: { who: 'Who is Bob, of project Zeus?', [ZEUS]: 'Only for Bob: Zeus.' },
  cy: { who: 'Who is Cy?', cy_tool: 'Only for Cy.' },
  org: { who: 'Who am I?' },
})
beforeEach(async () => {
  upstream = await startUpstreamByKey(listed())
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'], 'rate_limits.enabled': false } })
  bob = await app.keyCaller({ name: 'bob', role: 'editor' })
  cy = await app.keyCaller({ name: 'cy', role: 'member' })
  dan = await app.keyCaller({ name: 'dan', role: 'member' })
  crm = await createServer('Crm')
})
afterEach(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const authFields = [{ name: 'X-Api-Key', label: 'Key', type: 'header', secret: true }]
const createServer = async (name: string, scope = 'org', caller = ownerCaller) => {
  const server = { name, serverUrl: upstream.url, scope, requiresAuth: true, authFields }
  return (await app.ask<{ id: string }>('create_mcp_server', server, caller)).id
}
const deploy = async (key: string, caller: ToolCaller, scope = 'personal', catalogId = crm) =>
  (await app.ask<{ id: string }>('deploy_mcp_server', { catalogId, scope, values: { 'X-Api-Key': key } }, caller)).id
const install = (key: string, caller: ToolCaller) =>
  app.ask('install_mcp_server', { catalogId: crm, values: { 'X-Api-Key': key } }, caller)
const undeploy = (serverId: string, caller = ownerCaller) =>
  app.ask('delete_mcp_server_deployment', { serverId }, caller)
const toolsOf = async (caller: ToolCaller, mcpServerId = crm) =>
  (await app.ask<{ tools: Tool[] }>('get_mcp_server_tools', { mcpServerId }, caller)).tools
const namesIn = async (caller: ToolCaller): Promise<string[]> =>
  (await app.app.host.list({ ...caller, exposure: 'full' })).flatMap(({ name }) =>
    /^(crm|notes)__/.test(name) ? name : [],
  )
const limited = (tool_name: string, mcp_server_name: string, caller: ToolCaller) => {
  const of = { entity_type: 'organization', entity_id: 'local', limit_type: 'tool_calls', limit_value: 5 }
  return app.ask('create_limit', { ...of, mcp_server_name, tool_name }, caller)
}
const told = async (tool: string, caller: ToolCaller) => (await app.call(tool, {}, caller)).content
const text = (value: string) => [{ type: 'text', text: value }]

describe('the name of a tool', () => {
  it('is not taken by what a caller cannot see, and in one view that of the wider server stays', async () => {
    const bobs = await createServer('Notes', 'personal', bob)
    await deploy('bob', bob, 'personal', bobs)
    expect(await namesIn(bob)).toEqual([`notes__${ZEUS}`, 'notes__who'])
    const orgs = await createServer('Notes', 'org', ownerCaller)
    await deploy('org', ownerCaller, 'org', orgs)
    for (const other of [cy, dan]) expect(await namesIn(other)).toEqual(['notes__who'])
    expect((await toolsOf(cy, orgs)).map(({ name }) => name)).toEqual(['notes__who'])
    const [, who, beside] = await namesIn(bob)
    expect([who, beside]).toEqual(['notes__who', expect.stringMatching(/^notes__who_[0-9a-f]{6}$/)])
    // The name means the same tool where it is limited, and where it is assigned.
    expect(await limited(beside!, bobs, bob)).toMatchObject({ limit: { toolName: 'who' } })
    const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'Both', scope: 'personal' }, bob)
    const assignments = ['notes__who', beside!].map((toolId) => ({
      ...{ mcpGatewayId: gateway.id, toolId, resolveAtCallTime: true },
    }))
    await app.ask('bulk_assign_tools_to_mcp_gateways', { assignments }, bob)
    expect(await told('notes__who', bob)).toEqual(text('who as org'))
    expect(await told(beside!, bob)).toEqual(text('who as bob'))
    type Found = { tools: { toolName: string; description: string }[] }
    const { tools } = await app.ask<Found>('search_tools', { query: 'zeus' }, bob)
    expect(tools.map(({ toolName }) => toolName).sort()).toEqual([`notes__${ZEUS}`, beside])
    const at = callerOf({ ...bob.principal, gateway: gateway.id })
    expect([await told('notes__who', at), await told(beside!, at)]).toEqual([text('who as org'), text('who as bob')])
    const shown = await app.ask<{ tools: Tool[] }>('get_mcp_gateway', { id: gateway.id }, bob)
    expect(shown.tools.map(({ name }) => name)).toEqual(['notes__who', beside])
    // And where it is removed.
    const [others, own] = [await toolsOf(bob, orgs), await toolsOf(bob, bobs)]
    for (const [name, tools] of [
      ['notes__who', others],
      [beside!, own],
    ] as const) {
      // It is shown by that name too.
      const { id } = tools.find((tool) => tool.name === name)!
      const taken = { mcpGatewayId: gateway.id, toolIds: [name] }
      const removed = { mcpGatewayId: gateway.id, removed: [id], notAssigned: [] }
      expect(await app.ask('unassign_tools_from_mcp_gateway', taken, bob)).toEqual(removed)
    }
  })

  it('is of one server where several of the same width have it, in views and where it is assigned', async () => {
    for (const between of [' ', '-', '.', '+', '/', ':', '#', '=']) {
      await deploy('org', ownerCaller, 'org', await createServer(`Many${between}names`))
    }
    const { items } = await app.ask<{ items: { id: string }[] }>('get_mcp_servers')
    const tools = (await Promise.all(items.map(({ id }) => toolsOf(dan, id)))).flat()
    expect(tools.filter(({ name }) => /^many_names__who(_[0-9a-f]{6})?$/.test(name))).toHaveLength(8)
    const view = await app.app.views.viewFor(dan.principal)
    const shown = view.find('many_names__who')!.upstream!.id
    const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'Of Dan', scope: 'personal' }, dan)
    const assignments = [{ mcpGatewayId: gateway.id, toolId: 'many_names__who', resolveAtCallTime: true }]
    await app.ask('bulk_assign_tools_to_mcp_gateways', { assignments }, dan)
    const assigned = await app.ask<{ tools: Tool[] }>('get_mcp_gateway', { id: gateway.id }, dan)
    expect(assigned.tools.map(({ id }) => id)).toEqual([shown])
  })

  it('is for an agent that of the tool which it was given, whatever else its caller sees', async () => {
    const bobs = await createServer('Notes', 'personal', bob)
    const own = await deploy('bob', bob, 'personal', bobs)
    const idOf = async (catalogId: string) =>
      (await toolsOf(bob, catalogId)).find(({ name }) => name === 'notes__who')!.id
    const given = [await idOf(bobs)]
    const onBehalfOf = `key:${bob.principal.keyId}`
    const agentWith = async (name: string, toolAssignments: object[]) => {
      type Agent = { id: string; tools: Tool[] }
      const agent = await app.ask<Agent>('create_agent', { name, scope: 'personal', toolAssignments }, bob)
      const names = agent.tools.map((tool) => tool.name)
      return { names, run: callerOf({ ...bob.principal, kind: 'agent', agent: agent.id, onBehalfOf }) }
    }
    const agents = [
      await agentWith('One', [{ toolId: given[0], mcpServerId: own }]),
      await agentWith('Two', [{ toolId: given[0], resolveAtCallTime: true }]),
    ]
    const orgs = await createServer('Notes')
    await deploy('org', ownerCaller, 'org', orgs)
    given.push(await idOf(orgs))
    const both = await agentWith(
      'Both',
      given.map((toolId) => ({ toolId, resolveAtCallTime: true })),
    )
    expect(await told('notes__who', bob)).toEqual(text('who as org'))
    for (const { names, run } of agents) {
      expect(names).toEqual(['notes__who'])
      expect(await told('notes__who', run)).toEqual(text('who as bob'))
    }
    const beside = expect.stringMatching(/^notes__who_[0-9a-f]{6}$/)
    expect(both.names).toEqual(['notes__who', beside])
    const toldIn = await Promise.all(both.names.map((name) => told(name, both.run)))
    expect(toldIn).toEqual([text('who as org'), text('who as bob')])
  })

  it('with a star is that of a server’s former name, if only others have it now', async () => {
    const orgs = await createServer('Notes')
    await deploy('org', ownerCaller, 'org', orgs)
    await app.ask('edit_mcp_description', { id: orgs, name: 'Papers' })
    const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'Of Cy', scope: 'personal' }, cy)
    const assignments = [{ mcpGatewayId: gateway.id, toolId: 'notes__*', resolveAtCallTime: true }]
    const assign = () => app.ask<Bulk>('bulk_assign_tools_to_mcp_gateways', { assignments }, cy)
    expect(await assign()).toMatchObject({ succeeded: [{}], failed: [] })
    await deploy('bob', bob, 'personal', await createServer('Notes', 'personal', bob))
    expect(await assign()).toMatchObject({ duplicates: [{}], failed: [] })
  })

  it('with a star means one server that the callers of the target can use', async () => {
    const bobs = await createServer('Notes', 'personal', bob)
    await deploy('bob', bob, 'personal', bobs)
    const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'Notes of all' })
    const assign = (mcpGatewayId: string, caller?: ToolCaller) => {
      const assignments = [{ mcpGatewayId, toolId: 'notes__*', resolveAtCallTime: true }]
      return ['bulk_assign_tools_to_mcp_gateways', { assignments }, caller] as const
    }
    expect(await app.refusal(...assign(gateway.id))).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      message: expect.stringContaining('toolId: the callers of the target cannot use'),
    })
    const orgs = await createServer('Notes', 'org', ownerCaller)
    await deploy('org', ownerCaller, 'org', orgs)
    const { succeeded } = await app.ask<Bulk>(...assign(gateway.id))
    expect(succeeded.map(({ toolId }) => toolId)).toEqual((await toolsOf(dan, orgs)).map(({ id }) => id))
    const own = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'Of Bob', scope: 'personal' }, bob)
    expect((await app.refusal(...assign(own.id, bob))).message).toContain('several MCP servers')
  })
})

describe('the tools of a deployment', () => {
  it('are shown to those whose calls use it, and to nobody else', async () => {
    await deploy('bob', bob)
    expect(await namesIn(bob)).toEqual([`crm__${ZEUS}`, 'crm__who'])
    for (const other of [cy, dan, ownerCaller]) {
      expect(await namesIn(other)).toEqual([])
      expect(await toolsOf(other)).toEqual([])
      expect((await app.refusal(`crm__${ZEUS}`, {}, other)).code).toBe('ERR_UNKNOWN_TOOL')
    }
    await install('cy', cy)
    expect(await namesIn(bob)).toEqual([`crm__${ZEUS}`, 'crm__who'])
    expect(await namesIn(cy)).toEqual(['crm__cy_tool', 'crm__who'])
    await deploy('org', ownerCaller, 'org')
    expect(await namesIn(bob)).toEqual([`crm__${ZEUS}`, 'crm__who'])
    expect(await namesIn(cy)).toEqual(['crm__cy_tool', 'crm__who'])
    expect(await namesIn(dan)).toEqual(['crm__who'])
    expect((await toolsOf(bob)).map(({ name }) => name)).toEqual([`crm__${ZEUS}`, 'crm__who'])
    expect((await toolsOf(dan)).map(({ name }) => name)).toEqual(['crm__who'])
    expect(await told(`crm__${ZEUS}`, bob)).toEqual(text(`${ZEUS} as bob`))
    expect(await told('crm__who', dan)).toEqual(text('who as org'))
    expect((await app.refusal('crm__cy_tool', {}, bob)).code).toBe('ERR_UNKNOWN_TOOL')
  })

  it('have the texts of that deployment, in lists and in searches', async () => {
    await deploy('bob', bob)
    await install('cy', cy)
    await deploy('org', ownerCaller, 'org')
    const described = async (caller: ToolCaller) =>
      (await toolsOf(caller)).find(({ name }) => name === 'crm__who')!.description
    const shown = async (caller: ToolCaller) =>
      (await app.app.host.list({ ...caller, exposure: 'full' })).find(({ name }) => name === 'crm__who')!.description
    for (const [caller, description] of [
      [bob, 'Who is Bob, of project Zeus?'],
      [cy, 'Who is Cy?'],
      [dan, 'Who am I?'],
    ] as const) {
      expect([await described(caller), await shown(caller)]).toEqual([description, description])
    }
    type Found = { tools: { toolName: string; description: string }[] }
    const found = async (caller: ToolCaller) => (await app.ask<Found>('search_tools', { query: 'zeus' }, caller)).tools
    expect((await found(bob)).map(({ toolName }) => toolName).sort()).toEqual([`crm__${ZEUS}`, 'crm__who'])
    for (const other of [cy, dan, ownerCaller]) expect(JSON.stringify(await found(other))).not.toMatch(/zeus/i)
  })

  it('change for its users alone, and keep their ids', async () => {
    const bobs = await deploy('bob', bob)
    await install('cy', cy)
    const before = [await toolsOf(bob), await toolsOf(cy)]
    upstream.tools['cy'] = { other: 'Another.' }
    await install('cy', cy)
    expect(await toolsOf(bob)).toEqual(before[0])
    expect(await namesIn(cy)).toEqual(['crm__other'])
    upstream.tools['cy'] = listed().cy
    await install('cy', cy)
    expect(await toolsOf(cy)).toEqual(before[1])
    await undeploy(bobs, bob)
    expect(await toolsOf(cy)).toEqual(before[1])
    expect(await namesIn(bob)).toEqual([])
    await deploy('bob', bob)
    expect(await toolsOf(bob)).toEqual(before[0])
  })

  it('stay assigned while a deployment lists them, whatever another lists', async () => {
    const bobs = await deploy('bob', bob)
    const [zeus] = await toolsOf(bob)
    const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'Mine', scope: 'personal' }, bob)
    const assignment = { mcpGatewayId: gateway.id, toolId: zeus!.id, mcpServerId: bobs }
    await app.ask('bulk_assign_tools_to_mcp_gateways', { assignments: [assignment] }, bob)
    await deploy('org', ownerCaller, 'org')
    const at = callerOf({ ...bob.principal, gateway: gateway.id })
    expect((await app.app.host.list(at)).map(({ name }) => name)).toContain(`crm__${ZEUS}`)
    expect(await told(`crm__${ZEUS}`, at)).toEqual(text(`${ZEUS} as bob`))
    const { tools } = await app.ask<{ tools: Tool[] }>('get_mcp_gateway', { id: gateway.id }, bob)
    expect(tools.map(({ name, description }) => [name, description])).toEqual([[`crm__${ZEUS}`, 'Only for Bob: Zeus.']])
  })

  it('are assigned only with a deployment that lists them', async () => {
    const bobs = await deploy('bob', bob)
    const orgs = await deploy('org', ownerCaller, 'org')
    const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'Mine', scope: 'personal' }, bob)
    const assign = (toolId: string, mcpServerId: string) => {
      const assignments = [{ mcpGatewayId: gateway.id, toolId, mcpServerId }]
      return app.ask<Bulk>('bulk_assign_tools_to_mcp_gateways', { assignments }, bob)
    }
    expect((await assign(`crm__${ZEUS}`, orgs)).failed).toMatchObject([{ errorType: 'tool_not_listed' }])
    expect(await assign('crm__*', orgs)).toMatchObject({ succeeded: [{}], failed: [] })
    expect(await assign('crm__*', bobs)).toMatchObject({ succeeded: [{}, {}], failed: [] })
  })

  it('of a team are described at a gateway to every caller that it serves there', async () => {
    const { id: team } = await app.ask<{ id: string }>('user_team_create', { name: 'Owls' })
    const ofTeam = { catalogId: crm, scope: 'team', teamId: team, values: { 'X-Api-Key': 'cy' } }
    const { id: mcpServerId } = await app.ask<{ id: string }>('deploy_mcp_server', ofTeam)
    const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'All' })
    const assignments = [{ mcpGatewayId: gateway.id, toolId: 'crm__who', mcpServerId }]
    expect(await app.ask('bulk_assign_tools_to_mcp_gateways', { assignments })).toMatchObject({ failed: [] })
    const at = callerOf({ ...dan.principal, gateway: gateway.id })
    expect(await told('crm__who', at)).toEqual(text('who as cy'))
    expect((await app.app.host.list(at)).find(({ name }) => name === 'crm__who')!.description).toBe('Who is Cy?')
    const { tools } = await app.ask<{ tools: Tool[] }>('get_mcp_gateway', { id: gateway.id }, dan)
    expect(tools).toMatchObject([{ name: 'crm__who', description: 'Who is Cy?' }])
    // Elsewhere it is not theirs.
    expect([await namesIn(dan), await toolsOf(dan)]).toEqual([[], []])
  })

  it('cannot be assigned or limited by those who cannot see them', async () => {
    await deploy('bob', bob)
    const [zeus] = await toolsOf(bob)
    const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'Of Cy', scope: 'personal' }, cy)
    for (const toolId of [zeus!.id, zeus!.name, 'crm__*']) {
      const assignments = [{ mcpGatewayId: gateway.id, toolId, resolveAtCallTime: true }]
      const { failed } = await app.ask<{ failed: object[] }>('bulk_assign_tools_to_mcp_gateways', { assignments }, cy)
      expect(failed).toMatchObject([{ errorType: 'tool_not_found' }])
    }
    const eve = await app.keyCaller({ name: 'eve', role: 'editor' })
    for (const name of [zeus!.id, zeus!.name, ZEUS]) {
      await expect(limited(name, crm, eve), name).rejects.toThrow('ERR_NOT_FOUND')
    }
    expect(await limited(ZEUS, crm, bob)).toMatchObject({ limit: { toolName: ZEUS } })
  })

  it('are at a gateway those of the deployment that the call would use, and names alone where there is none', async () => {
    await deploy('org', ownerCaller, 'org')
    await install('cy', cy)
    const orgs = (await app.ask<{ deployments: { id: string; scope: string }[] }>('list_mcp_server_deployments'))
      .deployments
    const mcpServerId = orgs.find(({ scope }) => scope === 'org')!.id
    const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'All' })
    const assign = (more: object) =>
      app.ask('bulk_assign_tools_to_mcp_gateways', {
        assignments: [{ mcpGatewayId: gateway.id, toolId: 'crm__who', ...more }],
      })
    const shown = async (caller: ToolCaller) => {
      const at = callerOf({ ...caller.principal, gateway: gateway.id })
      return (await app.app.host.list(at)).find(({ name }) => name === 'crm__who')?.description
    }
    await assign({ mcpServerId })
    expect([await shown(cy), await shown(dan)]).toEqual(['Who am I?', 'Who am I?'])
    await assign({ resolveAtCallTime: true })
    expect([await shown(cy), await shown(dan)]).toEqual(['Who is Cy?', 'Who am I?'])
    await undeploy(mcpServerId)
    expect(await shown(cy)).toBe('Who is Cy?')
    expect(await shown(dan)).toMatch(/^A tool of the MCP server 'Crm'/)
    const refusal = await app.refusal('crm__who', {}, callerOf({ ...dan.principal, gateway: gateway.id }))
    expect(refusal.code).toBe('ERR_CREDENTIAL_REQUIRED')
    upstream.tools['cy'] = { cy_tool: 'Only for Cy.' }
    await install('cy', cy)
    expect(await shown(cy)).toBeUndefined()
  })
})
