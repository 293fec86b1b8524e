import { z } from 'zod'
import { fields } from '../params.ts'

export const contextParam = z
  .string()
  .min(1)
  .max(512)
  .describe('Context, such as session:…, execution:…, workspace:…, conversation:… or caller:….')

/** What made a context untrusted; all null for one that is trusted. */
export const contextFields = {
  context: z.string(),
  since: fields.time.nullable(),
  cause: z
    .strictObject({
      kind: z.enum(['tool_result', 'inherited', 'workspace', 'profile', 'run', 'unseen']),
      tool: z.string().nullable(),
      call_id: z.string().nullable(),
      policy: z.string().nullable(),
      from: z.string().nullable().describe('The context that it was inherited from.'),
    })
    .nullable(),
} as const
