import { z } from 'zod'
import { params } from '../params.ts'

export const toolRow = z.strictObject({
  name: z.string(),
  description: z.string(),
  source: z.literal('builtin'),
  category: z.string(),
  tags: z.array(z.string()),
  skip_judge: z.boolean(),
})

/** Filters that apply in addition to the query. All must match. */
export const toolFilters = {
  source: z.string().max(64).optional().describe('Where they come from; all here are builtin.'),
  category: z.string().max(64).optional().describe('The group they are in, such as fs, agent or workflow.'),
  tags: z
    .array(z.string().max(64))
    .max(16)
    .optional()
    .describe('Words that each has among its tags, such as read-only.'),
  limit: z.int().min(1).max(1_000).optional().describe('How many at most; all if left out.'),
  offset: params.offset,
} as const
