import { describe, expect, test } from 'vitest'
import { agentYaml } from '../support/executions.ts'
import { startKeyedServer } from '../support/keyed-server.ts'

/** An agent is registered for more than its caller may do, in the real program. */
const made = agentYaml('made', '  task: { instruction: "Work." }\n')
const smith = agentYaml(
  'smith',
  '  security_context: aegis-system-agent-runtime\n  task: { instruction: "Deploy it." }\n  tools: [aegis.agent.create]\n',
)

describe('an agent that an operator registered for the system', () => {
  test.each([
    ['user', []],
    ['system', ['made']],
  ] as const)('does for a starter of the tier %s no more than that tier may', async (tier, names) => {
    const { call, newKey } = await startKeyedServer((_, position) =>
      position === 0
        ? { toolCalls: [{ name: 'aegis_agent_create', arguments: { manifest_yaml: made } }] }
        : { text: 'done' },
    )
    await call('aegis.agent.create', { manifest_yaml: smith })
    const key = await newKey({ tier })
    const { execution_id } = await call('aegis.task.execute', { agent_id: 'smith' }, key)
    await call('aegis.task.wait', { execution_id, timeout_seconds: 40 }, key)
    const { agents } = (await call('aegis.agent.list', {})) as unknown as { agents: { name: string }[] }
    expect(agents.map(({ name }) => name)).toEqual([...names, 'smith'].sort())
  })
})
