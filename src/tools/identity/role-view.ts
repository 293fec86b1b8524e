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

export const tenantOfRoles = z
  .string()
  .min(1)
  .max(64)
  .optional()
  .describe("Tenant whose roles are meant; your own when left out. Another's is for operators of the tenant local.")
