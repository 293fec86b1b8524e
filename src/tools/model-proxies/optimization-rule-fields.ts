import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { ruleEntities } from '../../contract/optimization-rules.ts'
import { fields } from '../params.ts'

const modelName = z.string().min(1).max(limits.interactionModelCharsMax)

/** A rule as the tools of this set take and answer it. */
export const optimizationRuleFields = {
  rule: z.string().min(1).max(64).describe('Id of the rule, or its name.'),
  name: z.string().min(1).max(64),
  entityType: z.enum(ruleEntities),
  targetModel: modelName.describe('Model of the same provider that is used instead.'),
  conditions: {
    max_tokens: z
      .int()
      .min(1)
      .max(10_000_000)
      .optional()
      .describe('Only requests of at most so many tokens, estimated by size.'),
    has_tools: z.boolean().optional().describe('Only requests with tools, or only those without.'),
    models: z
      .array(modelName)
      .min(1)
      .max(limits.optimizationRuleModelsMax)
      .optional()
      .describe('Only requests for these models; "*" at the end stands for any rest.'),
  },
  enabled: z.boolean().describe('Whether it is applied.'),
  view: z.strictObject({
    id: z.string(),
    name: z.string(),
    entity_type: z.enum(ruleEntities),
    entity_id: z.string(),
    provider: z.string(),
    max_tokens: z.int().nullable(),
    has_tools: z.boolean().nullable(),
    models: z.array(z.string()).nullable(),
    target_model: z.string(),
    enabled: z.boolean(),
    created_at: fields.time,
    created_by: z.string(),
  }),
} as const
