import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { fields } from '../params.ts'
import { scheduleFields } from '../schedule-fields.ts'

export const agentParams = {
  manifest: z.string().min(1).max(limits.manifestCharsMax).describe('The whole manifest, in YAML.'),
  force: (description: string) => z.boolean().default(false).describe(description),
  scope: z
    .enum(['tenant', 'global'])
    .optional()
    .describe('tenant, unless you say global: then every tenant sees it. For operators.'),
  agent: (description: string) => z.string().min(1).max(128).describe(description),
  version: z.string().min(1).max(128).optional().describe('Version; the latest if left out.'),
  tenantId: z.string().min(1).max(128).optional().describe('Your own tenant; it can be left out.'),
  labels: z
    .record(z.string().max(256), z.string().max(256))
    .optional()
    .describe('Only those that have all of these labels.'),
} as const

export const agentFields = {
  row: {
    id: z.string(),
    name: z.string(),
    version: z.string(),
    description: z.string(),
    labels: z.record(z.string(), z.string()),
  },
  details: {
    created_at: fields.time.nullable().describe('Null for templates that come with the program.'),
    updated_at: fields.time.nullable(),
    tenant_id: z.string(),
    input_schema: fields.anyJson.describe('JSON Schema of its input; null if it declares none.'),
    execution_count: z.int(),
  },
  scope: z.enum(['tenant', 'global']),
  status: z.enum(['active', 'paused', 'archived', 'failed']),
  deployed: z.strictObject({
    agent_id: z.string(),
    deployed: z.boolean(),
    name: z.string(),
    version: z.string(),
    schedule: scheduleFields.ofDeployed,
    status: z.literal('conflict').optional(),
    hint: z.string().optional(),
  }),
} as const
