import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rightsOf } from '../../src/contract/permissions.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { agentYaml } from '../support/executions.ts'

type AgentView = {
  id: string
  name: string
  slug: string
  description: string | null
  scope: string
  systemPrompt: string | null
  tools: { name: string }[]
  subAgentIds: string[]
}
type Listed = { total: number; agents: { id: string; name: string }[] }

/** Agents that people make, beside those that manifests make: one registry, seen by those with whom each is shared. */
let app: TestApp
let ann: ToolCaller
let bob: ToolCaller
let chief: ToolCaller
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
  ann = await app.keyCaller({ name: 'ann', role: 'member' })
  bob = await app.keyCaller({ name: 'bob', role: 'editor' })
  chief = await app.keyCaller({ name: 'chief', role: 'admin' })
})
afterAll(() => app[Symbol.asyncDispose]())

let count = 0
const create = (fields: object = {}, caller: ToolCaller = ann): Promise<AgentView> =>
  app.ask<AgentView>('create_agent', { name: `Helper ${++count}`, ...fields }, caller)
const idsFor = async (caller: ToolCaller) =>
  (await app.ask<Listed>('list_agents', { limit: 1000 }, caller)).agents.map(({ id }) => id)

describe('an agent that a person makes', () => {
  it('has what was written, and defaults for the rest', async () => {
    const fields = {
      name: ' Ärger über Übersetzung ',
      description: 'Translates.',
      icon: '🦉',
      labels: [{ key: 'lang', value: 'de' }],
      systemPrompt: 'Translate # everything.\n"Be brief": yes',
      suggestedPrompts: [{ summaryTitle: 'Hello', prompt: 'Translate hello.' }],
    }
    const made = await create({ ...fields, toolAssignments: [{ toolId: 'server_ping' }] })
    expect(made).toMatchObject({
      ...fields,
      name: fields.name.trim(),
      slug: 'arger-uber-ubersetzung',
      scope: 'personal',
      agentType: 'agent',
      toolExposureMode: 'full',
      tools: [{ id: 'server_ping', name: 'server_ping', catalogId: null }],
    })
  })

  it('is listed, shown, exported and run by the tools for manifests', async () => {
    const made = await create({ name: 'Code Reader', systemPrompt: 'Read.', labels: [{ key: 'a', value: 'b' }] })
    expect(made).toMatchObject({ slug: 'code-reader', scope: 'personal' })
    const { agents } = await app.ask<Listed>('aegis.agent.list', {}, ann)
    expect(agents).toContainEqual(expect.objectContaining({ id: made.id, name: 'code-reader', labels: { a: 'b' } }))
    const exported = await app.ask<{ manifest_yaml: string }>('aegis.agent.export', { name: 'Code Reader' }, ann)
    expect(exported.manifest_yaml).toContain('system_prompt: Read.')
    expect(await app.ask('agent_info', { agent_id: made.id }, ann)).toMatchObject({ version: '1.0.0' })
    const run = await app.ask<{ execution_id: string }>(
      'aegis.task.execute',
      { agent_id: 'code reader', intent: 'x' },
      ann,
    )
    expect(run.execution_id).toBeTruthy()
  })

  it('is renamed, keeps its slug, and has a new version for a new prompt alone', async () => {
    const made = await create({ name: 'Old Name', systemPrompt: 'One.' })
    const edit = (fields: object) => app.ask<AgentView>('edit_agent', { id: made.id, ...fields }, ann)
    expect(await edit({ name: 'New Name', icon: '🐝' })).toMatchObject({ name: 'New Name', slug: 'old-name' })
    const versions = async () =>
      (await app.ask<{ versions: { version: string }[] }>('agent_info', { agent_id: made.id }, ann)).versions.length
    expect(await versions()).toBe(1)
    expect(await edit({ systemPrompt: 'Two.' })).toMatchObject({ systemPrompt: 'Two.', name: 'New Name' })
    expect(await versions()).toBe(2)
    expect(await edit({ description: null, systemPrompt: null })).toMatchObject({
      systemPrompt: null,
      description: null,
    })
    expect(await app.ask<AgentView>('get_agent', { name: 'new name' }, ann)).toMatchObject({ id: made.id })
    expect(await app.refusal('get_agent', { name: 'Old Name' }, ann)).toMatchObject({
      code: 'ERR_AGENT_NOT_FOUND',
      message: expect.stringContaining('list_agents'),
      details: { field: 'name' },
    })
    expect((await app.refusal('edit_agent', { id: 'Old Name', icon: null }, ann)).details['field']).toBe('id')
    expect(await app.ask<AgentView>('get_agent', { name: 'old-name' }, ann)).toMatchObject({ id: made.id })
  })

  it('gets tools of this server by name, and none that is not there', async () => {
    const made = await create({ toolAssignments: [{ toolId: 'server_ping' }] })
    const edited = await app.ask<AgentView>(
      'edit_agent',
      { id: made.id, toolAssignments: [{ toolId: 'task_list' }, { toolId: 'server_ping' }] },
      ann,
    )
    expect(edited.tools.map(({ name }) => name)).toEqual(['server_ping', 'task_list'])
    for (const [toolAssignments, code] of [
      [[{ toolId: 'nothing_here' }], 'ERR_NOT_FOUND'],
      [[{ toolId: 'server_ping', mcpServerId: 'x' }], 'ERR_INVALID_INPUT'],
    ] as const) {
      expect((await app.refusal('create_agent', { name: `No ${++count}`, toolAssignments }, ann)).code).toBe(code)
    }
  })

  it('names no knowledge that is not there', async () => {
    for (const field of ['knowledgeBaseIds', 'connectorIds']) {
      const refused = await app.refusal('create_agent', { name: `K ${++count}`, [field]: ['x'] }, ann)
      expect(refused).toMatchObject({ code: 'ERR_NOT_FOUND', details: { field } })
    }
  })

  it('goes with its profile', async () => {
    const made = await create({}, chief)
    const operator = { ...chief, principal: { ...chief.principal, tier: 'operator' as const } }
    await app.ask('aegis.agent.delete', { agent_id: made.id }, operator)
    expect(await idsFor(chief)).not.toContain(made.id)
    await create({ name: made.name }, chief)
  })
})

describe('an agent that a manifest makes', () => {
  it('is the organisation’s, and is edited with its comments kept', async () => {
    const yaml = `# Keep me.\n${agentYaml('from-manifest', '  task: { instruction: "Answer." }\n')}`
    await app.ask('aegis.agent.create', { manifest_yaml: yaml })
    const found = await app.ask<AgentView>('get_agent', { name: 'from-manifest' }, ann)
    expect(found).toMatchObject({ scope: 'org', name: 'from-manifest' })
    await app.ask('edit_agent', { id: found.id, systemPrompt: 'Now with a prompt.', name: 'From a manifest' }, chief)
    const { manifest_yaml } = await app.ask<{ manifest_yaml: string }>('aegis.agent.export', { name: 'from-manifest' })
    expect(manifest_yaml).toMatch(/^# Keep me\./)
    expect(manifest_yaml).toContain('Now with a prompt.')
    expect(await app.ask('get_agent', { id: found.id }, ann)).toMatchObject({
      name: 'From a manifest',
      systemPrompt: 'Now with a prompt.',
    })
  })

  it('keeps the tools that its manifest lists by aliases when it gets another one', async () => {
    const spec = `  task: { instruction: "Answer." }\n  tools: [&p server_ping${', *p'.repeat(200)}]\n`
    await app.ask('aegis.agent.create', { manifest_yaml: agentYaml('with-aliases', spec) })
    const { id } = await app.ask<AgentView>('get_agent', { name: 'with-aliases' }, ann)
    const { tools } = await app.ask<AgentView>('edit_agent', { id, toolAssignments: [{ toolId: 'whoami' }] }, chief)
    expect(new Set(tools.map(({ name }) => name))).toEqual(new Set(['server_ping', 'whoami']))
  })
})

describe('sharing', () => {
  it('hides what is personal from everybody else, administrators included', async () => {
    const made = await create({ systemPrompt: 'Secret.' })
    for (const caller of [bob, chief]) {
      expect(await idsFor(caller)).not.toContain(made.id)
      const unknown = await app.refusal('get_agent', { id: 'nothing' }, caller)
      const hidden = await app.refusal('get_agent', { id: made.id }, caller)
      expect({ ...hidden, message: '', details: {} }).toEqual({ ...unknown, message: '', details: {} })
      for (const [tool, args] of [
        ['edit_agent', { id: made.id, name: 'Mine now' }],
        ['agent_info', { agent_id: made.id }],
        ['aegis.agent.export', { name: made.slug }],
        ['aegis.task.execute', { agent_id: made.id }],
        ['aegis.agent.logs', { agent_id: made.id }],
        ['create_agent', { name: `Lead ${++count}`, subAgentIds: [made.id] }],
      ] as const) {
        expect((await app.refusal(tool, args, caller)).code, tool).toMatch(/^ERR_(AGENT_)?NOT_FOUND$/)
      }
    }
  })

  it('lets two people have one name, each meaning their own', async () => {
    const [mine, theirs] = [await create({ name: 'Twin' }), await create({ name: 'twin' }, bob)]
    expect([mine.slug, theirs.slug]).toEqual(['twin', 'twin'])
    expect((await app.ask<AgentView>('get_agent', { name: 'Twin' }, ann)).id).toBe(mine.id)
    expect((await app.ask<AgentView>('get_agent', { name: 'Twin' }, bob)).id).toBe(theirs.id)
    expect((await app.refusal('create_agent', { name: 'TWIN' }, ann)).code).toBe('ERR_ALREADY_EXISTS')
    const shared = await create({ name: 'Twin', scope: 'org' }, chief)
    expect((await app.ask<AgentView>('get_agent', { name: 'Twin' }, ann)).id).toBe(mine.id)
    expect((await app.ask<AgentView>('get_agent', { name: 'Twin' }, chief)).id).toBe(shared.id)
  })

  it('with the organisation is for administrators to give and to change', async () => {
    expect((await app.refusal('create_agent', { name: `Org ${++count}`, scope: 'org' }, bob)).code).toBe(
      'ERR_PERMISSION_DENIED',
    )
    const made = await create({ scope: 'org' }, chief)
    expect(await idsFor(ann)).toContain(made.id)
    expect((await app.refusal('edit_agent', { id: made.id, name: 'X' }, bob)).code).toBe('ERR_PERMISSION_DENIED')
    await app.ask('edit_agent', { id: made.id, scope: 'personal' }, chief)
    expect(await idsFor(ann)).not.toContain(made.id)
  })

  it('with a team is for its members to see, and for its editors to change', async () => {
    const team = await app.ask<{ id: string }>('user_team_create', { name: 'Owls' }, chief)
    const userOf = (user: string, role: 'editor' | 'member', teams: string[]): ToolCaller => ({
      ...ann,
      principal: { ...ann.principal, ...rightsOf(role), kind: 'user', user, actor: user, teams },
    })
    const [uma, mia] = [userOf('uma', 'editor', [team.id]), userOf('mia', 'member', [team.id])]
    const otto = userOf('otto', 'editor', [])
    const made = await create({ name: 'Night Watch', teams: ['Owls'] }, uma)
    expect(made).toMatchObject({ scope: 'team', teams: [{ id: team.id, name: 'Owls' }] })
    expect(await idsFor(mia)).toContain(made.id)
    expect(await idsFor(otto)).not.toContain(made.id)
    expect((await app.refusal('get_agent', { id: made.id }, otto)).code).toBe('ERR_AGENT_NOT_FOUND')
    expect((await app.refusal('edit_agent', { id: made.id, icon: '🦉' }, mia)).code).toBe('ERR_PERMISSION_DENIED')
    await app.ask('edit_agent', { id: made.id, icon: '🦉' }, uma)
    for (const [caller, code] of [
      [mia, 'ERR_PERMISSION_DENIED'],
      [otto, 'ERR_PERMISSION_DENIED'],
    ] as const) {
      expect((await app.refusal('create_agent', { name: `T ${++count}`, teams: [team.id] }, caller)).code).toBe(code)
    }
    expect((await create({ name: 'Night Watch' }, otto)).scope).toBe('personal')
    expect((await app.refusal('create_agent', { name: 'night watch', teams: ['Owls'] }, uma)).code).toBe(
      'ERR_ALREADY_EXISTS',
    )
    await app.ask('user_team_delete', { team: team.id }, chief)
    expect(await idsFor(mia)).not.toContain(made.id)
    expect(await app.ask('get_agent', { id: made.id }, chief)).toMatchObject({ scope: 'team', teams: [] })
  })

  it('with a team needs a team that is there', async () => {
    const refused = await app.refusal('create_agent', { name: `Team ${++count}`, teams: ['none'] }, bob)
    expect(refused).toMatchObject({ code: 'ERR_NOT_FOUND', details: { field: 'teams' } })
    expect((await app.refusal('create_agent', { name: `Team ${++count}`, scope: 'team' }, bob)).code).toBe(
      'ERR_INVALID_INPUT',
    )
  })
})

describe('whoami', () => {
  it('tells a caller who it is', async () => {
    expect(await app.ask('whoami')).toMatchObject({
      agentId: 'owner',
      agentName: 'owner',
      kind: 'owner',
      role: 'admin',
    })
    expect(await app.ask('whoami', {}, ann)).toMatchObject({ agentName: 'ann', kind: 'key', organization: 'local' })
  })

  it('tells who is at the address of an agent or a gateway, with the identity of the caller', async () => {
    const toolAssignments = [{ toolId: 'whoami' }]
    const made = await create({ name: 'At An Address', toolAssignments })
    const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'Entrance', scope: 'personal' }, ann)
    const assignments = [{ mcpGatewayId: gateway.id, toolId: 'whoami' }]
    await app.ask('bulk_assign_tools_to_mcp_gateways', { assignments }, ann)
    const at = (id: string) => app.ask('whoami', {}, { ...ann, principal: { ...ann.principal, gateway: id } })
    const identity = `key:${ann.principal.keyId}`
    expect(await at(made.id)).toMatchObject({ agentId: made.id, agentName: 'At An Address', kind: 'agent', identity })
    expect(await at(gateway.id)).toMatchObject({
      ...{ agentId: gateway.id, agentName: 'Entrance', kind: 'gateway', identity },
    })
  })

  it('tells an agent its id and the name that people gave it', async () => {
    const made = await create({ name: 'Named Agent' })
    const principal = {
      ...ann.principal,
      ...rightsOf('member'),
      kind: 'agent' as const,
      actor: 'agent:named-agent',
      agent: made.id,
      onBehalfOf: `key:${ann.principal.keyId}`,
    }
    expect(await app.ask('whoami', {}, { ...ann, principal })).toMatchObject({
      agentId: made.id,
      agentName: 'Named Agent',
      kind: 'agent',
    })
  })
})
