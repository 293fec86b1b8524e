import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { localOwner } from '../../src/contract/principal.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

type Row = Record<string, unknown>
type Gateway = Readonly<{
  id: string
  slug: string
  path: string
  scope: string
  tools: { id: string; name: string }[]
}>
type Bulk = Readonly<Record<'succeeded' | 'failed' | 'duplicates', Row[]>>

let app: TestApp
let upstream: McpUpstream
let member: ToolCaller
let other: ToolCaller
let team: { id: string }
let toolIds: Record<string, string>
let orgDeployment: string

/** A user of the role, as the transports make one. */
async function userCaller(email: string, role: 'member' | 'editor'): Promise<ToolCaller> {
  const { id } = await app.ask<{ id: string }>('user_create', { email, role, teams: ['design'] })
  const caller = await app.keyCaller({ name: email, role })
  const { keyId: _, ...principal } = caller.principal
  return { ...caller, principal: { ...principal, kind: 'user', user: id, actor: email, teams: [team.id] } }
}

beforeAll(async () => {
  upstream = await startMcpUpstream()
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'], 'rate_limits.enabled': false } })
  team = await app.ask<{ id: string }>('user_team_create', { name: 'design' })
  member = await userCaller('ada@example.com', 'editor')
  other = await app.keyCaller({ name: 'other', role: 'member' })
  const item = await app.ask<{ id: string }>('create_mcp_server', { name: 'Up', serverUrl: upstream.url, scope: 'org' })
  orgDeployment = (await app.ask<{ id: string }>('deploy_mcp_server', { catalogId: item.id, scope: 'org' })).id
  const { tools } = await app.ask<{ tools: { id: string; name: string }[] }>('get_mcp_server_tools', {
    mcpServerId: item.id,
  })
  toolIds = Object.fromEntries(tools.map(({ id, name }) => [name, id]))
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const create = (args: Row, caller?: ToolCaller) => app.ask<Gateway>('create_mcp_gateway', args, caller)
const assign = (assignments: readonly Row[], caller?: ToolCaller) =>
  app.ask<Bulk>('bulk_assign_tools_to_mcp_gateways', { assignments }, caller)
const toolsOf = async (id: string) => (await app.ask<Gateway>('get_mcp_gateway', { id })).tools.map(({ name }) => name)

describe('a gateway', () => {
  it('is for the organisation unless it says otherwise, and is found by id, name and slug', async () => {
    const made = await create({ name: 'Öffice Tools', labels: [{ key: 'env', value: 'prod' }] })
    expect(made).toMatchObject({ scope: 'org', slug: 'office-tools', path: '/mcp/office-tools', tools: [] })
    for (const args of [{ id: made.id }, { name: 'öffice tools' }, { name: 'office-tools' }]) {
      expect(await app.ask('get_mcp_gateway', args, other)).toEqual(made)
    }
    expect(await app.ask('list_mcp_gateways', { name: 'ffice' }, other)).toMatchObject({
      total: 1,
      gateways: [{ id: made.id, path: '/mcp/office-tools', toolCount: 0 }],
    })
    expect(await app.refusal('create_mcp_gateway', { name: 'ÖFFICE tools' })).toMatchObject({
      code: 'ERR_ALREADY_EXISTS',
    })
    expect(await app.refusal('edit_mcp_gateway', { id: made.id, name: 'Mine' }, other)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
    })
    const edited = { name: 'Office', toolExposureMode: 'search_and_run_only', description: 'For all.' }
    expect(await app.ask('edit_mcp_gateway', { id: made.id, ...edited })).toMatchObject({ ...edited, slug: made.slug })
  })

  it('of one caller is for others as none, and its name is theirs to take', async () => {
    expect(await app.refusal('create_mcp_gateway', { name: 'Mine' }, member)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
      details: { permission: 'mcpGateway:admin' },
    })
    const { id } = await create({ name: 'Mine', scope: 'personal' }, member)
    const none = '00000000-0000-4000-8000-00000000dead'
    for (const [tool, args] of [
      ['get_mcp_gateway', {}],
      ['edit_mcp_gateway', { name: 'Taken' }],
      ['delete_mcp_gateway', {}],
    ] as const) {
      const answers = await Promise.all([id, none].map((one) => app.call(tool, { ...args, id: one }, other)))
      expect(answers[0]!.json.replaceAll(id, none), tool).toBe(answers[1]!.json)
    }
    const assigned = await assign(
      [id, none].map((mcpGatewayId) => ({ mcpGatewayId, toolId: 'task_list' })),
      other,
    )
    expect(assigned.failed.map(({ error, errorCode }) => [error, errorCode])).toEqual([
      [expect.any(String), 'not_found'],
      [assigned.failed[0]!['error'], 'not_found'],
    ])
    expect((await create({ name: 'Mine', scope: 'personal' }, other)).id).not.toBe(id)
  })

  it('knows no knowledge base yet, and says so', async () => {
    expect(await app.refusal('create_mcp_gateway', { name: 'K', knowledgeBaseIds: ['kb'] })).toMatchObject({
      code: 'ERR_NOT_FOUND',
    })
  })
})

describe('tools of a gateway', () => {
  it('that are assigned together are listed by name', async () => {
    const { id } = await create({ name: 'Sorted' })
    await assign([{ mcpGatewayId: id, toolId: 'up__*', resolveAtCallTime: true }])
    const byName = ['up__echo', 'up__fail', 'up__hang', 'up__steps', 'up__sum']
    expect(await toolsOf(id)).toEqual(byName)
    const listed = (await app.app.host.list(callerOf({ ...localOwner, gateway: id }))).map(({ name }) => name)
    expect(listed.filter((name) => name.startsWith('up__'))).toEqual(byName)
  })

  it('are assigned, found to be there already, changed, refused by rule and taken away', async () => {
    const { id } = await create({ name: 'Bulk' })
    const echo = { mcpGatewayId: id, toolId: toolIds['up__echo']! }
    const pinned = { ...echo, mcpServerId: orgDeployment }
    const own = { mcpGatewayId: 'bulk', toolId: 'task_list' }
    expect(await assign([pinned, own, { ...own, toolId: 'archestra__task_get', resolveAtCallTime: true }])).toEqual({
      succeeded: [
        { mcpGatewayId: id, toolId: echo.toolId, toolName: 'up__echo' },
        { mcpGatewayId: 'bulk', toolId: 'task_list' },
        { mcpGatewayId: 'bulk', toolId: 'archestra__task_get' },
      ],
      failed: [],
      duplicates: [],
    })
    expect((await toolsOf(id)).sort()).toEqual(['task_get', 'task_list', 'up__echo'])
    const { succeeded } = await assign([{ mcpGatewayId: id, toolId: 'up__*', mcpServerId: orgDeployment }])
    expect(succeeded.map(({ toolId }) => toolId).sort()).toEqual(
      ['up__fail', 'up__hang', 'up__steps', 'up__sum'].map((name) => toolIds[name]!).sort(),
    )
    for (const { toolId, toolName } of succeeded) expect(toolIds[String(toolName)]).toBe(toolId)
    await app.ask('unassign_tools_from_mcp_gateway', {
      mcpGatewayId: id,
      toolIds: ['up__fail', 'up__hang', 'up__steps', 'up__sum'],
    })
    const again = await assign([pinned, own, { ...echo, toolId: 'up__echo', resolveAtCallTime: true }])
    expect(again.duplicates.map(({ toolId }) => toolId)).toEqual([echo.toolId, 'task_list'])
    expect(again.succeeded).toEqual([{ mcpGatewayId: id, toolId: 'up__echo' }])
    const bad = await assign([
      { ...own, toolId: 'no_such_tool' },
      { mcpGatewayId: 'none', toolId: 'task_list' },
      echo,
      { ...echo, mcpServerId: 'none' },
      { ...echo, credentialResolutionMode: 'enterprise_managed' },
      { ...pinned, credentialResolutionMode: 'dynamic' },
      { ...own, mcpServerId: orgDeployment },
    ])
    expect(bad.failed.map(({ errorCode, errorType }) => [errorCode, errorType])).toEqual([
      ['not_found', 'tool_not_found'],
      ['not_found', 'gateway_not_found'],
      ['validation_error', 'deployment_missing'],
      ['not_found', 'deployment_not_found'],
      ['validation_error', 'exchange_unavailable'],
      ['validation_error', 'not_static'],
      ['validation_error', 'no_credentials'],
    ])
    expect(bad.failed.map(({ toolName }) => toolName)).toEqual([
      ...[undefined, undefined, 'up__echo', 'up__echo', 'up__echo', 'up__echo', undefined],
    ])
    const silent = await app.ask<{ id: string }>('create_mcp_server', { name: 'Silent', serverUrl: upstream.url })
    const { failed } = await assign([{ mcpGatewayId: id, toolId: 'silent__*', resolveAtCallTime: true }])
    expect(failed).toMatchObject([{ toolId: 'silent__*', error: expect.stringContaining('get_mcp_servers says why') }])
    await app.ask('delete_mcp_server', { id: silent.id })
    const taken = { mcpGatewayId: id, toolIds: ['task_list', echo.toolId, 'none'] }
    expect(await app.ask('unassign_tools_from_mcp_gateway', taken)).toEqual({
      mcpGatewayId: id,
      removed: ['task_list', echo.toolId],
      notAssigned: ['none'],
    })
    expect(await toolsOf(id)).toEqual(['task_get'])
    expect(await app.ask('delete_mcp_gateway', { id })).toEqual({ id, deleted: true })
    expect(await app.refusal('get_mcp_gateway', { id })).toMatchObject({ code: 'ERR_NOT_FOUND' })
  })

  it('are assigned by the names of their server, its former one included', async () => {
    const server = { name: 'Before', serverUrl: upstream.url, scope: 'org' }
    const { id: catalogId } = await app.ask<{ id: string }>('create_mcp_server', server)
    await app.ask('deploy_mcp_server', { catalogId, scope: 'org' })
    const { id } = await create({ name: 'Renamed' })
    await app.ask('edit_mcp_description', { id: catalogId, name: 'After' })
    const all = await assign([{ mcpGatewayId: id, toolId: 'before__*', mcpServerId: 'after' }])
    expect([all.succeeded.length, all.failed]).toEqual([5, []])
    expect((await toolsOf(id)).every((name) => name.startsWith('after__'))).toBe(true)
    const one = { mcpGatewayId: id, toolId: 'before__echo' }
    expect((await assign([{ ...one, mcpServerId: 'AFTER' }])).duplicates).toHaveLength(1)
    expect((await assign([{ ...one, mcpServerId: 'up' }])).failed).toMatchObject([{ errorCode: 'not_found' }])
    await app.ask('deploy_mcp_server', { catalogId, scope: 'team', teamId: team.id })
    expect((await assign([{ ...one, mcpServerId: 'after' }])).failed).toMatchObject([
      { errorType: 'several_deployments' },
    ])
  })

  it('have only deployments whose sharing fits', async () => {
    const deploy = (args: Row, caller?: ToolCaller) =>
      app.ask<{ id: string }>('deploy_mcp_server', { catalogId: 'up', ...args }, caller)
    const ofTeam = (await deploy({ scope: 'team', teamId: team.id })).id
    const ofMember = (await deploy({}, member)).id
    const org = (await create({ name: 'For all' })).id
    const forTeam = (await create({ name: 'For design', teams: ['design'] })).id
    const forMember = (await create({ name: 'For me', scope: 'personal' }, member)).id
    const forOther = (await create({ name: 'For me', scope: 'personal' }, other)).id
    await app.ask('user_team_create', { name: 'sales' })
    const forSales = (await create({ name: 'For sales', teams: ['sales'] })).id
    const toolId = toolIds['up__sum']!
    const problem = async (mcpGatewayId: string, mcpServerId: string) => {
      const { failed } = await assign([{ mcpGatewayId, toolId, mcpServerId }])
      return failed[0]?.['errorType']
    }
    expect([await problem(org, ofTeam), await problem(forTeam, ofTeam), await problem(forMember, ofTeam)]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
    expect([await problem(forSales, ofTeam), await problem(forOther, ofTeam)]).toEqual([
      'scope_mismatch',
      'scope_mismatch',
    ])
    expect([
      await problem(org, ofMember),
      await problem(forTeam, ofMember),
      await problem(forMember, ofMember),
    ]).toEqual([undefined, undefined, undefined])
    expect([await problem(forSales, ofMember), await problem(forOther, ofMember)]).toEqual([
      'scope_mismatch',
      'scope_mismatch',
    ])
    // A pinned deployment is held against a new sharing too.
    expect(await app.refusal('edit_mcp_gateway', { id: forTeam, teams: ['sales'] })).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      details: { field: 'scope', tool_id: toolId },
    })
  })
})

describe('tools of agents', () => {
  const bulk = (assignments: readonly Row[], caller?: ToolCaller) =>
    app.ask<Bulk>('bulk_assign_tools_to_agents', { assignments }, caller)

  it('are assigned in bulk: ours as one version of the manifest, others with credentials', async () => {
    const agent = await app.ask<{ id: string }>('create_agent', { name: 'Helper' })
    const toolId = toolIds['up__echo']!
    const wanted = [
      { agentId: agent.id, toolId: 'task_list' },
      { agentId: agent.id, toolId, mcpServerId: orgDeployment },
      { agentId: 'none', toolId },
      { agentId: agent.id, toolId: 'none' },
      { agentId: agent.id, toolId: 'task_get' },
    ]
    const made = await bulk(wanted)
    expect(made.succeeded.map((row) => row['toolId'])).toEqual(['task_list', toolId, 'task_get'])
    expect(made.failed.map(({ errorType }) => errorType)).toEqual(['agent_not_found', 'tool_not_found'])
    expect((await bulk(wanted)).duplicates).toHaveLength(3)
    const seen = await app.ask<Gateway>('get_agent', { id: agent.id })
    expect(seen.tools.map(({ name }) => name).sort()).toEqual(['task_get', 'task_list', 'up__echo'])
    expect((await app.ask<{ versions: unknown[] }>('agent_info', { agent: agent.id })).versions).toHaveLength(2)
    expect((await bulk([{ agentId: agent.id, toolId }], other)).failed).toMatchObject([{ errorCode: 'not_found' }])
  })

  it('are called with the credentials that the agent was given them with', async () => {
    const authFields = [{ name: 'X-Token', label: 'Token', type: 'header', secret: true }]
    const item = { name: 'Keyed', serverUrl: upstream.url, scope: 'org', authFields }
    const { id: catalogId } = await app.ask<{ id: string }>('create_mcp_server', item)
    const deploy = (token: string, scope: string, caller?: ToolCaller) =>
      app.ask<{ id: string }>('deploy_mcp_server', { catalogId, scope, values: { 'X-Token': token } }, caller)
    const { id: mcpServerId } = await deploy('of-all', 'org')
    await deploy('of-ada', 'personal', member)
    const toolAssignments = [{ toolId: 'keyed__echo', mcpServerId }]
    const agent = await app.ask<{ id: string }>('create_agent', { name: 'Keyed', scope: 'org', toolAssignments })
    const tools = await (await app.app.ready).upstreamTools!()
    const { tenant } = member.principal
    const { id: toolId } = (await tools.list(tenant))
      .flatMap((list) => list.tools)
      .find(({ name }) => name === 'keyed__echo')!
    const tokenFor = async (principal: ToolCaller['principal']) => {
      const target = { tenant, toolId, principal, credential: { mode: 'dynamic' as const } }
      await tools.call(target, { text: 'x' }, { signal: new AbortController().signal })
      return upstream.requests.at(-1)!.headers['x-token']
    }
    expect(await tokenFor(member.principal)).toBe('of-ada')
    const acting = { ...member.principal, kind: 'agent', onBehalfOf: `user:${member.principal.user}` } as const
    expect(await tokenFor({ ...acting, agent: 'another' })).toBe('of-ada')
    expect(await tokenFor({ ...acting, agent: agent.id })).toBe('of-all')
  })

  it('come with an agent when it is made, and when a server is deployed for it', async () => {
    const toolAssignments = [{ toolId: toolIds['up__sum']!, resolveAtCallTime: true }]
    const { id, tools } = await app.ask<Gateway>('create_agent', { name: 'Adder', toolAssignments })
    expect(tools.map(({ name }) => name)).toEqual(['up__sum'])
    const item = await app.ask<{ id: string }>('create_mcp_server', { name: 'Second', serverUrl: upstream.url })
    expect(
      await app.refusal('deploy_mcp_server', { catalogId: item.id, scope: 'org', agentIds: ['none'] }),
    ).toMatchObject({ code: 'ERR_NOT_FOUND' })
    await app.ask('deploy_mcp_server', { catalogId: item.id, scope: 'org', agentIds: [id] })
    const names = (await app.ask<Gateway>('get_agent', { id })).tools.map(({ name }) => name)
    expect(names).toContain('second__echo')
    await app.ask('delete_mcp_server', { id: item.id })
    expect((await app.ask<Gateway>('get_agent', { id })).tools.map(({ name }) => name)).toEqual(['up__sum'])
  })
})
