import { z } from 'zod'
import { cleanupIntervals, entityTypes, limitTypes } from '../../contract/limit-kinds.ts'
import { limits } from '../../contract/limits.ts'
import { fields } from '../params.ts'

export const limitParams = {
  id: z.string().min(1).max(128).describe('Id of the limit.'),
  entityType: z.enum(entityTypes),
  entityId: z.string().min(1).max(256),
  limitType: z.enum(limitTypes),
  limitValue: z.number().min(0).max(limits.usageLimitValueMax),
  interval: z.enum(cleanupIntervals),
} as const

const limit = z.strictObject({
  id: z.string(),
  entityType: limitParams.entityType,
  entityId: z.string(),
  limitType: limitParams.limitType,
  limitValue: z.number().describe('US dollars for token_cost, calls for the other types.'),
  cleanupInterval: limitParams.interval,
  model: z.array(z.string()).nullable().describe('The models that count; null for all of them.'),
  mcpServerName: z.string().nullable(),
  toolName: z.string().nullable(),
  entityName: z
    .string()
    .nullable()
    .describe('Name of the entity, or the e-mail address of a user; null if you see no such entity.'),
  used: z.number().describe('Used in this period, with what calls in progress have reserved.'),
  remaining: z.number().describe('Left in this period.'),
  resetsAt: fields.time.describe('When the next period begins.'),
})

export const limitFields = { limit } as const
