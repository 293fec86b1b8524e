import { z } from 'zod'
import type { Decision } from '../../contract/decision.ts'
import { type InteractionLabels, interactionOutcomes, interactionSources } from '../../contract/interaction.ts'
import { providerKeyScopes } from '../../contract/provider-keys.ts'
import { fields } from '../params.ts'

/** What is shown as it was noted must have every member that can be noted. */
type MembersOf<Noted> = Readonly<Record<keyof Noted, z.ZodType>>

const tokens = z
  .strictObject({
    input: z.int().describe('All that was read, with what came from the cache or went into it.'),
    output: z.int(),
    cache_read: z.int(),
    cache_write: z.int(),
    reasoning: z.int().describe('A part of output.'),
    estimated: z.boolean().describe('The provider did not say; this is reckoned from what passed.'),
  })
  .nullable()
  .describe('Null if the request was not answered.')

const summary = {
  id: z.string(),
  at: fields.time.describe('When it began.'),
  actor: z.string().describe('Who asked.'),
  source: z.enum(interactionSources),
  proxy_id: z.string().nullable(),
  agent_id: z.string().nullable(),
  run_id: z.string().nullable(),
  provider: z.string(),
  model: z.string().nullable().describe('The model that answered, or that was asked for.'),
  outcome: z
    .enum(interactionOutcomes)
    .describe('cut_off: it ended before the answer was complete. refused: it was not sent to the provider.'),
  error_code: z.string().nullable(),
  tokens,
  cost_usd: z.number().nullable().describe('US dollars; null if the price of the model is not known.'),
  first_token_ms: z.int().nullable().describe('Until the first part of the answer came.'),
  duration_ms: z.int(),
  session: z.string().nullable().describe('What the caller calls its session. It proves nothing.'),
} as const

const details = {
  ...summary,
  owner: z.string(),
  authenticated_by: z.string(),
  user_id: z.string().nullable(),
  key_id: z.string().nullable(),
  virtual_key_id: z.string().nullable(),
  provider_key: z
    .enum(providerKeyScopes)
    .nullable()
    .describe('Whose key the provider was shown: the caller brought it, it is stored, or it is of the configuration.'),
  teams: z.array(z.string()),
  operation: z.string(),
  requested_model: z.string().nullable(),
  used_model: z.string().nullable(),
  rule: z
    .strictObject({ id: z.string().nullable(), name: z.string() })
    .nullable()
    .describe('The rule that replaced the requested model; without an id it is one of the configuration.'),
  saved_usd: z.number().nullable().describe('US dollars by which the requested model would have cost more.'),
  stream: z.boolean(),
  http_status: z.int().nullable().describe('Of the provider.'),
  request_bytes: z.int(),
  answer_bytes: z.int(),
  decisions: z
    .array(
      z.strictObject({
        stage: z.string(),
        verdict: z.string(),
        tool: z.string().optional().describe('The name that the model used, or ours for one of our tools.'),
        policy: z.string().optional(),
        reason: z.string().optional(),
      } satisfies MembersOf<Decision>),
    )
    .describe('What policies and limits said.'),
  labels: z
    .strictObject({
      session: z.string().optional(),
      agent: z.string().optional(),
      user: z.string().optional(),
      run: z.string().optional(),
    } satisfies MembersOf<InteractionLabels>)
    .describe('What the caller says of itself. It proves nothing.'),
  trace_id: z.string().nullable(),
  bodies: z
    .strictObject({
      request: z.string().nullable(),
      answer: z.string().nullable(),
      whole: z.boolean().describe('Whether nothing was cut off at the end.'),
      redacted: z.boolean(),
    })
    .nullable()
    .describe('Null unless interactions.bodies keeps them, and for those of others unless you may read the log.'),
} as const

export const interactionFields = {
  summary: z.strictObject(summary),
  details: z.strictObject(details),
  usage: z.strictObject({
    id: z.string(),
    totalInputTokens: z.int(),
    totalOutputTokens: z.int(),
    totalTokens: z.int(),
  }),
} as const
