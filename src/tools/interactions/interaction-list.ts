import { z } from 'zod'
import { interactionOutcomes, interactionSources } from '../../contract/interaction.ts'
import { params } from '../params.ts'
import { profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { interactionFields } from './interaction-fields.ts'

const label = (what: string) => z.string().min(1).max(256).optional().describe(what)

export default defineTool({
  name: 'interaction_list',
  toolset: 'interactions',
  title: 'List requests to language models',
  description:
    'List requests to language models, the newest first: who asked, which model, tokens, cost, time and outcome, of programs at the model proxy and of agents. With totals it sums tokens and cost over all that match. You see your own; with log:read those of your whole organisation. Use interaction_get for one, get_limits for budgets.',
  permission: 'llmProxy:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    agent: profileParams.idOrName('Only those of this agent: its id or name.').optional(),
    proxy: profileParams.idOrName('Only those through this model proxy: its id or name.').optional(),
    run_id: label('Only those of this execution.'),
    session: label('Only those with this label of a session.'),
    provider: label('Only those to this provider, by its name in the configuration.'),
    model: label('Only those that this model answered.'),
    outcome: z.enum(interactionOutcomes).optional().describe('Only those that ended so.'),
    source: z
      .enum(interactionSources)
      .optional()
      .describe('Only those of programs at the proxy, of agents, or of this server for sanitising.'),
    since: params.isoTime.optional().describe('Only those that began at this time or later.'),
    until: params.isoTime.optional().describe('Only those that began before this time.'),
    mine: z.boolean().default(false).describe('Only your own, also if you may see more.'),
    totals: z.boolean().default(false).describe('Also sum over all that match, which takes longer.'),
    cursor: z.string().min(1).max(64).optional().describe('next_cursor of the page before.'),
    limit: params.limit(50, 500),
  }),
  output: z.strictObject({
    interactions: z.array(interactionFields.summary),
    next_cursor: z.string().nullable().describe('For the next page; null if there is none.'),
    totals: z
      .strictObject({
        interactions: z.int(),
        input_tokens: z.int(),
        output_tokens: z.int(),
        cache_read_tokens: z.int(),
        cache_write_tokens: z.int(),
        reasoning_tokens: z.int(),
        cost_usd: z.number(),
        saved_usd: z.number().describe('What rules for cheaper models saved.'),
        without_known_cost: z.int().describe('How many are not in cost_usd.'),
      })
      .optional(),
  }),
  run: (input, { interactions, call }) => interactions.list(call, input),
})
