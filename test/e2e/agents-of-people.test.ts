import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expect, onTestFinished, test } from 'vitest'
import { cleanEnvironment, launcher } from '../support/castellan-client.ts'
import { setModelStage } from '../support/model-stage.ts'
import type { Line, SeenRequest } from '../support/scripted-model.ts'

/** Agents as people make them, in the real program over stdio with an SDK client and a scripted model. */
const systemOf = ({ messages }: SeenRequest): unknown => messages.find(({ role }) => role === 'system')?.content
const script = (seen: SeenRequest): Line => {
  if (systemOf(seen) === 'You add.') return { text: 'seven' }
  const last = seen.messages.at(-1)!
  if (last.role === 'tool') return { text: `The sum is ${String(last.content)}.` }
  return { toolCalls: [{ name: 'agent__adder', arguments: { message: 'What are 3 and 4?' } }] }
}

test('are made, run with a sub-agent, edited and exported', async () => {
  const stage = await setModelStage(script)
  const client = new Client({ name: 'agents-of-people', version: '1' })
  const args = ['mcp', '--tools', 'full', '--data-dir', stage.dataDir]
  const env = cleanEnvironment({ MODEL_KEY: 'k' }) as Record<string, string>
  await client.connect(new StdioClientTransport({ command: launcher, args, env, stderr: 'pipe' }))
  onTestFinished(() => client.close())
  const ask = async <T = Record<string, unknown>>(name: string, input: Record<string, unknown> = {}): Promise<T> => {
    const answer = await client.callTool({ name, arguments: input })
    expect(answer.isError, JSON.stringify(answer)).not.toBe(true)
    return answer.structuredContent as T
  }

  const adder = await ask<{ id: string }>('create_agent', { name: 'Adder', systemPrompt: 'You add.' })
  const lead = await ask<{ id: string; slug: string }>('create_agent', {
    name: 'Team Lead',
    systemPrompt: 'You lead.',
    subAgentIds: [adder.id],
  })
  expect(lead).toMatchObject({ slug: 'team-lead', scope: 'personal', subAgentIds: [adder.id] })

  const run = async () => {
    const { execution_id } = await ask<{ execution_id: string }>('aegis.task.execute', {
      agent_id: 'Team Lead',
      intent: 'Add for me.',
    })
    return await ask('aegis.task.wait', { execution_id, timeout_seconds: 40 })
  }
  expect(await run()).toMatchObject({ status: 'completed', last_output: 'The sum is seven.' })
  expect(stage.requests.map(systemOf)).toEqual(['You lead.', 'You add.', 'You lead.'])

  await ask('edit_agent', { id: 'team lead', name: 'Chief', systemPrompt: 'You command.' })
  expect(await ask('get_agent', { name: 'chief' })).toMatchObject({ id: lead.id, slug: 'team-lead' })
  const { manifest_yaml } = await ask<{ manifest_yaml: string }>('aegis.agent.export', { name: 'team-lead' })
  expect(manifest_yaml).toContain('system_prompt: You command.')
  expect(await ask('list_agents')).toMatchObject({ total: 2, agents: [{ name: 'Adder' }, { name: 'Chief' }] })
  expect(await ask('whoami')).toMatchObject({ agentId: 'owner', kind: 'owner' })
})
