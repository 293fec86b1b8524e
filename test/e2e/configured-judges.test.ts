import { describe, expect, test } from 'vitest'
import { ask } from '../support/castellan-client.ts'
import { agentYaml } from '../support/executions.ts'
import { setModelStage } from '../support/model-stage.ts'
import type { Line, SeenRequest } from '../support/scripted-model.ts'
import { workflowYaml } from '../support/workflows.ts'

/** Judges that the configuration or the program names are the platform's, whatever a tenant calls its own agents. */
const verdict = (score: number, reasoning: string): Line => ({
  text: JSON.stringify({ score, confidence: 1, reasoning }),
})
const isTame = ({ text }: SeenRequest): boolean => text.includes('Say yes.')
const tame = (name: string): string => agentYaml(name, '  task: { instruction: "Say yes." }\n')
const states = 'A: { kind: System, command: update_blackboard, transitions: [] }'

describe('a judge that a tenant made under the name of the platform’s', () => {
  test('is not asked about workflows, nor are its yeses counted with the no of the configured one', async () => {
    const stage = await setModelStage(
      (request) => (isTame(request) ? verdict(1, 'yes') : verdict(0.1, 'unsafe')),
      { workflows: { judge_agents: ['output-judge'] } },
      ['default', 'judge'],
    )
    const client = await stage.start()
    await ask(client, 'aegis.agent.create', { manifest_yaml: tame('output-judge') })
    await ask(client, 'aegis.agent.create', { manifest_yaml: tame('friend') })
    const create = (more: object = {}) =>
      client.call('aegis.workflow.create', { manifest_yaml: workflowYaml('w', states), ...more })
    const refused = { kind: 'failed', code: 'ERR_WORKFLOW_REJECTED' }
    expect(await create()).toMatchObject(refused)
    expect(await create({ judge_agents: ['output-judge', 'friend'] })).toMatchObject(refused)
    expect(await create({ min_score: 0, min_confidence: 0 })).toMatchObject(refused)
    expect(await ask(client, 'aegis.workflow.list')).toEqual({ workflows: [] })
  })

  test('is asked where the caller names it', async () => {
    const stage = await setModelStage((request) => (isTame(request) ? verdict(1, 'yes') : verdict(0.1, 'unsafe')))
    const client = await stage.start()
    await ask(client, 'aegis.agent.create', { manifest_yaml: tame('output-judge') })
    const args = { manifest_yaml: workflowYaml('w', states), judge_agents: ['output-judge'] }
    expect(await ask(client, 'aegis.workflow.create', args)).toMatchObject({ deployed: true })
  })

  test.each(['agent', 'workflow'] as const)('is not asked about a generated %s', async (kind) => {
    const made =
      kind === 'agent' ? agentYaml('made', '  task: { instruction: "Work." }\n') : workflowYaml('made', states)
    const stage = await setModelStage(
      (request) => {
        if (isTame(request)) return verdict(1, 'yes')
        return request.model === 'judge' ? verdict(0.1, 'unsafe') : { text: JSON.stringify({ manifest_yaml: made }) }
      },
      {},
      ['default', 'judge'],
    )
    const client = await stage.start()
    await ask(client, 'aegis.agent.create', { manifest_yaml: tame(`${kind}-generator-judge`) })
    const { execution_id } = await ask(client, `aegis.${kind}.generate`, { input: 'anything' })
    expect(await ask(client, 'aegis.task.wait', { execution_id })).toMatchObject({ status: 'failed' })
    expect(stage.requests.filter(isTame)).toEqual([])
  })
})
