import { z } from 'zod'

export const toolRow = z.strictObject({
  name: z.string(),
  description: z.string(),
  source: z.literal('builtin'),
  skip_judge: z.boolean(),
})
