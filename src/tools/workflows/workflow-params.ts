import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { fields } from '../params.ts'
import { waitingFields } from '../run-waiting.ts'
import { scheduleFields } from '../schedule-fields.ts'

const status = z.enum(['pending', 'running', 'completed', 'failed', 'cancelled'])

export const workflowParams = {
  manifest: z.string().min(1).max(limits.manifestCharsMax).describe('The whole manifest as YAML.'),
  force: z.boolean().default(false).describe('Replace the same version if it exists.'),
  name: z.string().min(1).max(128).describe('Name or id of the workflow.'),
  version: z.string().min(1).max(64).optional().describe('Semantic version; the latest when left out.'),
  tenant: z.string().min(1).max(128).optional().describe('Your own tenant, or left out.'),
  user: z.string().min(1).max(256).optional().describe('Whose workflows; you when left out.'),
  execution: z.string().min(1).max(64).describe('Id of the execution, from aegis.workflow.run.'),
  data: z.record(z.string().max(256), z.unknown()),
} as const

export const workflowFields = {
  deployed: z.strictObject({
    workflow_id: z.string(),
    deployed: z.boolean(),
    name: z.string(),
    version: z.string(),
    schedule: scheduleFields.ofDeployed,
    suggested_schedule: scheduleFields.suggested,
  }),
  scope: z.enum(['user', 'tenant', 'global']),
  labels: z.record(z.string(), z.string()),
  status,
  state: z.string().nullable().describe('State that it is in.'),
  data: z.record(z.string(), z.unknown()),
  error: z
    .strictObject({ code: z.string(), message: z.string(), details: z.record(z.string(), z.unknown()) })
    .nullable(),
  access: {
    execution_id: z.string(),
    workflow_id: z.string(),
    status,
    current_state: z.string().nullable().describe('State that it is in.'),
    started_at: fields.time,
    last_transition_at: fields.time,
    waiting_for: waitingFields,
  },
} as const
