import { z } from 'zod'
import { limits } from '../contract/limits.ts'
import { taskPriorities, taskStatuses } from '../domains/tasks/rules.ts'
import { thoughtTypes } from '../domains/trail/ports.ts'
import { vaultActions } from '../domains/vault/requests.ts'
import { workspaceStates } from '../domains/workspaces/rules.ts'

/** Recurring parameters and fields, each with its rule and its description for models. */
const text = (max: number) => z.string().min(1).max(max)
const visibleText = (max: number) =>
  text(max).refine((value) => /\S/.test(value), 'must contain a character that is not white space')

/**
 * Any parsed JSON. Depth and size are bounded before any schema is applied. An open schema, because clients that rewrite schemas
 * lose the definitions of a recursive one.
 */
export const anyJson = z.unknown() as z.ZodType<z.core.util.JSONType>

export const params = {
  taskId: text(64).describe('Task id, such as T-0042.'),
  sessionId: text(64).describe('Audit session id, such as A-0002.'),
  project: z
    .string()
    .regex(
      /^[a-z0-9][a-z0-9._-]{0,63}$/,
      'must be a slug: 1–64 of a–z, 0–9, dot, dash or underscore, beginning with a letter or digit',
    )
    .describe('Project slug, such as "castellan".'),
  title: visibleText(256).describe('Short title of the task.'),
  description: z.string().max(8000).describe('Body in Markdown.'),
  status: z.enum(taskStatuses),
  priority: z.enum(taskPriorities),
  progress: z.number().min(0).max(100).describe('Percentage complete.'),
  labels: z.array(text(64)).max(20).describe('Free tags.'),
  assignee: text(256).describe('Agent or user who does the task.'),
  dependsOn: z.array(text(64)).max(100).describe('Ids of the tasks that must be finished before this one.'),
  thoughtType: z.enum(thoughtTypes),
  thoughtContent: visibleText(5000).describe('What was decided or found, and why.'),
  isoTime: z
    .string()
    .max(40)
    .refine((value) => isoPattern.test(value) && !Number.isNaN(Date.parse(value)), 'must be an ISO-8601 timestamp')
    .meta({ format: 'date-time' }),
  workspaceState: z.enum(workspaceStates),
  vaultAction: z.enum(vaultActions),
  offset: z.int().min(0).max(1_000_000_000).default(0).describe('How many to skip.'),
  limit: (fallback: number, max: number) => z.int().min(1).max(max).default(fallback).describe('How many at most.'),
  /** A page of a list with `listed` in its answer. */
  page: {
    cursor: text(1_000).optional().describe('next_cursor of the page before.'),
    limit: z.int().min(1).max(limits.listedRowsMax).default(limits.listedRowsMax).describe('How many at most.'),
  },
  part: (of: string) => text(320).optional().describe(`Only those with this in ${of}, in any case.`),
  /** Values above `max` count as `max`. */
  cappedLimit: (fallback: number, max: number) =>
    z
      .int()
      .min(1)
      .max(1_000_000)
      .default(fallback)
      .transform((limit) => Math.min(limit, max))
      .describe(`How many at most; more than ${max} counts as ${max}.`),
  metadata: z
    .record(z.string().max(256), anyJson)
    .refine(
      (value) => JSON.stringify(value).length <= limits.metadataBytesMax,
      `must be at most ${limits.metadataBytesMax} bytes as JSON`,
    )
    .describe('Any JSON object to keep with the record.'),
} as const

/** How long a new key is valid. */
export const lifetimeParams = {
  expires_in: z
    .string()
    .min(1)
    .max(16)
    .optional()
    .describe('Lifetime in seconds, or with s, m, h or d, such as "90d".'),
  expires_at: params.isoTime
    .optional()
    .describe('Instant with its zone, such as 2030-01-31T12:00:00Z, instead of expires_in. Neither: no expiry.'),
} as const

const isoPattern = /^\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}:?\d{2})?)?$/

export const fields = {
  total: z.int().describe('How many there are, whatever the limit.'),
  /** The schema is defined by another party. */
  anyJson: z.unknown().meta({ type: ['object', 'array', 'string', 'number', 'boolean', 'null'] }),
  time: z.string().describe('ISO-8601, UTC.'),
  hash: z.string().describe('SHA-256, hex.'),
  listed: {
    total: z.int().describe('How many there are on all pages.'),
    truncated: z.boolean().describe('True when there are more; next_cursor leads to them.'),
    next_cursor: z.string().nullable().describe('For the next page; null if there is none.'),
  },
  event: {
    event_type: z.string(),
    aliases: z
      .array(z.string())
      .optional()
      .describe('Other names of the event, as streams and earlier versions have them.'),
  },
} as const
