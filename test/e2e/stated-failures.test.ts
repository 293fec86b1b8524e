import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { CastellanClient } from '../support/castellan-client.ts'
import { startClientHere } from '../support/castellan-here.ts'
import { openCliHome } from '../support/cli-home.ts'
import { agentYaml } from '../support/executions.ts'
import { workflowYaml } from '../support/workflows.ts'

/**
 * A tool whose documented answer says that it did not do its work: the answer keeps its shape, the exit code says so to a
 * script, and `isError` to a program.
 */
const { dataDir, call } = openCliHome()

const agent = agentYaml('answerer', '  task: { instruction: "Answer." }\n')
const workflow = workflowYaml('ask', 'ASK: { kind: Human, prompt: "Shall it go on?", transitions: [] }')
const withArgs = (tool: string, args: object) => call(tool, '--args', JSON.stringify(args))

let client: CastellanClient
beforeAll(async () => {
  // Without a model, a new agent has a warning.
  const models = [{ alias: 'default', model: 'm' }]
  const providers = [{ name: 'own', type: 'openai-compatible', endpoint: 'http://127.0.0.1:9/v1', models }]
  mkdirSync(dataDir, { recursive: true })
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers } }))
  client = await startClientHere({ dataDir })
  for (const [tool, args] of [
    ['aegis.agent.create', { manifest_yaml: agent }],
    ['aegis.workflow.create', { manifest_yaml: workflow }],
    ['create_mcp_gateway', { name: 'Night' }],
  ] as const) {
    const made = await withArgs(tool, args)
    expect([tool, made.code]).toEqual([tool, 0])
  }
})
afterAll(() => client.leave())

test.each<[string, object, number, object, boolean]>([
  ['aegis.agent.create', { manifest_yaml: agent }, 5, { deployed: false, status: 'conflict' }, true],
  ['aegis.agent.update', { manifest_yaml: agent }, 5, { deployed: false, status: 'conflict' }, true],
  ['aegis.workflow.validate', { manifest_yaml: 'kind: Workflow' }, 2, { valid: false }, false],
  ['aegis.schema.validate', { kind: 'agent', manifest_yaml: 'kind: Agent' }, 2, { valid: false }, false],
  [
    'bulk_assign_tools_to_mcp_gateways',
    { assignments: [{ mcpGatewayId: 'night', toolId: 'no_such_tool' }] },
    3,
    { succeeded: [] },
    true,
  ],
  [
    'bulk_assign_tools_to_mcp_gateways',
    { assignments: [{ mcpGatewayId: 'none', toolId: 'task_list' }] },
    3,
    { succeeded: [] },
    true,
  ],
  [
    'bulk_assign_tools_to_mcp_gateways',
    { assignments: [{ mcpGatewayId: 'night', toolId: 'task_get', mcpServerId: 'x' }] },
    2,
    { succeeded: [] },
    true,
  ],
  [
    'bulk_assign_tools_to_agents',
    {
      assignments: [
        { agentId: 'answerer', toolId: 'no_such_tool' },
        { agentId: 'answerer', toolId: 'task_get', mcpServerId: 'x' },
      ],
    },
    5,
    { succeeded: [] },
    true,
  ],
  ['unassign_tools_from_mcp_gateway', { mcpGatewayId: 'night', toolIds: ['task_list'] }, 3, { removed: [] }, true],
])('%s with %j', async (tool, args, code, shape, isError) => {
  const ended = await withArgs(tool, args)
  expect([ended.code, ended.stderr]).toEqual([code, ''])
  expect(JSON.parse(ended.stdout)).toMatchObject(shape)
  expect((await client.call(tool, args)).kind).toBe(isError ? 'failed' : 'done')
})

test('an answer to a run that does not wait', async () => {
  const started = await withArgs('aegis.workflow.run', { name: 'ask' })
  const { execution_id } = JSON.parse(started.stdout) as { execution_id: string }
  expect((await withArgs('aegis.workflow.cancel', { execution_id })).code).toBe(0)
  const ended = await withArgs('aegis.workflow.signal', { execution_id, response: 'yes' })
  expect([ended.code, JSON.parse(ended.stdout)]).toEqual([5, expect.objectContaining({ signalled: false })])
})

test('the same answer without the failure is a success', async () => {
  const assignment = { mcpGatewayId: 'night', toolId: 'task_list' }
  const made = await withArgs('bulk_assign_tools_to_mcp_gateways', { assignments: [assignment] })
  expect([made.code, JSON.parse(made.stdout)]).toEqual([0, expect.objectContaining({ failed: [] })])
  expect((await withArgs('aegis.workflow.validate', { manifest_yaml: workflow })).code).toBe(0)
})
