import { z } from 'zod'
import { fields } from '../params.ts'

export const roleView = z.strictObject({
  name: z.string(),
  description: z.string(),
  permissions: z.array(z.string()),
  built_in: z.boolean().describe('Whether every tenant has it.'),
  created_at: fields.time.nullable(),
  created_by: z.string().nullable(),
})
