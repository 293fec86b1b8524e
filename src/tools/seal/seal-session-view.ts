import { z } from 'zod'
import { fields } from '../params.ts'

export const sealSessionView = z.strictObject({
  session_id: z.string(),
  status: z.enum(['active', 'expired', 'revoked']),
  security_context: z.string(),
  identity: z.string().describe('Id of the API key that began it, or "owner".'),
  agent_id: z.string().nullable().describe('What the caller said it is; not proved.'),
  execution_id: z.string().nullable(),
  task_summary: z.string().nullable(),
  created_at: fields.time,
  expires_at: fields.time,
  revoked_at: fields.time.nullable(),
})
