import { expect, it } from 'vitest'
import { openTestApp } from '../support/app.ts'

/** Rules that name something that was deleted stay, and say so. */
type Made = Readonly<{ policy: { id: string } }>

it('policies and limits that name a deleted team, agent or tool are shown as such', async () => {
  await using app = await openTestApp({})
  const team = await app.ask<{ id: string }>('user_team_create', { name: 'owls' })
  const agent = await app.ask<{ id: string }>('create_agent', { name: 'Helper', scope: 'org' })
  const condition = (key: string, operator: string, value: string) => [{ key, operator, value }]
  const rule = (toolId: string, conditions: object) => ({ toolId, conditions, action: 'block_always' })
  const create = async (toolId: string, conditions: object) => {
    const { output, warnings } = await app.call('create_tool_invocation_policy', rule(toolId, conditions))
    return { id: (output as Made).policy.id, warnings: warnings ?? [] }
  }
  const ofTeam = await create('task_create', condition('context.teamIds', 'contains', team.id))
  const ofAgent = await create('task_list', condition('context.agentId', 'notEqual', agent.id))
  const ofTool = await create(`agent:${agent.id}`, [])
  // A pattern names nothing.
  const ofPattern = await create('task_get', condition('context.agentId', 'startsWith', 'a'))
  const limit = { limit_type: 'tool_calls', limit_value: 5, mcp_server_name: 'castellan', tool_name: 'task_list' }
  const bound = await app.ask<{ limit: { id: string } }>('create_limit', {
    ...{ ...limit, entity_type: 'team', entity_id: team.id },
  })
  const warnings = async (tool: string, args: object = {}) => (await app.call(tool, args)).warnings ?? []
  for (const { warnings: said } of [ofTeam, ofAgent, ofTool, ofPattern]) expect(said).toEqual([])
  expect(await warnings('get_tool_invocation_policies')).toEqual([])
  expect(await warnings('get_limits')).toEqual([])

  await app.ask('user_team_delete', { team: team.id })
  await app.ask('aegis.agent.delete', { agent_id: agent.id })
  const told = await warnings('get_tool_invocation_policies')
  expect(told).toHaveLength(3)
  for (const [{ id }, words] of [
    [ofTeam, 'names a team that does not exist'],
    [ofAgent, 'names an agent that does not exist'],
    [ofTool, 'You see no tool'],
  ] as const) {
    expect(told.find((one) => one.includes(id))).toContain(words)
    expect(await warnings('get_tool_invocation_policy', { id })).toHaveLength(1)
  }
  expect(await warnings('get_limits')).toEqual([expect.stringContaining(bound.limit.id)])
  const late = await create('task_create', condition('context.teamIds', 'contains', team.id))
  expect(late.warnings[0]).toContain('conditions[0]')
})
