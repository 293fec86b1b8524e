import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { scheduleFields } from '../schedule-fields.ts'
import { agentFields, agentParams } from './agent-params.ts'

export default defineTool({
  name: 'agent_info',
  toolset: 'agents',
  title: 'Show an agent',
  description:
    'Show one agent with all its versions, the input that it takes, how many executions of it you can see, when it runs by itself, and its manifest. Use aegis.agent.list to see which agents there are.',
  permission: 'agent:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'agent', fields: ['agent_id', 'id'] } },
  otherNames: { agent: 'agent_id' },
  input: z.strictObject({
    agent_id: agentParams.agent('Id of the agent, or its name.'),
    version: agentParams.version,
  }),
  output: z.strictObject({
    ...agentFields.row,
    status: agentFields.status,
    scope: agentFields.scope,
    ...agentFields.details,
    versions: z
      .array(
        z.strictObject({
          version: z.string(),
          created_at: fields.time.nullable(),
          created_by: z.string().nullable(),
          latest: z.boolean(),
        }),
      )
      .describe('The highest first.'),
    schedule: scheduleFields.displayed,
    manifest_yaml: z.string(),
  }),
  run: (input, { agents, call }) => agents.info(call, input),
})
