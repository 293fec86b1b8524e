import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { policyParams } from './policy-fields.ts'

const actions = z.array(z.enum(['allow', 'deny', 'require_approval']))

export default defineTool({
  name: 'policy_simulate',
  toolset: 'policies',
  title: 'Try policies on recorded calls',
  description:
    'Say which calls of the log other policies would answer otherwise: the stored ones with some more or fewer, or only those you give. Nothing changes. Calls of which too little is known are counted as undecided, with the reason. Use policy_explain for one call.',
  permission: 'toolPolicy:read',
  alsoNeeds: ['log:read'],
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    policies: z
      .array(
        z.strictObject({
          toolId: policyParams.toolId,
          conditions: policyParams.invocationConditions,
          action: policyParams.invocationAction,
        }),
      )
      .max(100)
      .default([])
      .describe('Tool invocation policies to add.'),
    remove: z.array(policyParams.id).max(100).optional().describe('Ids of stored policies to leave out.'),
    only: z.boolean().default(false).describe('Whether the stored policies are left out altogether.'),
    untrusted: z
      .boolean()
      .optional()
      .describe('Whether the contexts had read untrusted data; if left out, as far as the log tells.'),
    from_seq: z.int().min(0).optional().describe('Position in the log to begin at; the newest entries if left out.'),
    limit: params.limit(1_000, limits.simulatedEntriesMax),
  }),
  output: z.strictObject({
    from_seq: z.int(),
    next_seq: z.int().nullable().describe('Where the next page begins; null at the end of the log.'),
    calls: z.int().describe('Recorded calls that were looked at.'),
    unchanged: z.int().describe('Calls with the same answer, whatever is not known of them.'),
    changes: z.array(
      z.strictObject({
        seq: z.int(),
        call_id: z.string(),
        at: z.string(),
        tool: z.string(),
        actor: z.string(),
        code: z.string().nullable().describe('With which the call was refused then.'),
        before: actions.describe('What the stored policies say of it.'),
        after: actions.describe('What the other policies say of it.'),
      }),
    ),
    changes_left_out: z.int(),
    undecided_calls: z.int().describe('Calls of which too little is known.'),
    undecided_policies: z.array(z.string()).describe('Policies for which too little is known of some calls.'),
    undecided: z
      .array(
        z.strictObject({
          policy: z.string(),
          calls: z.int().describe('Calls that it would decide, or not.'),
          why: z
            .array(z.enum(['arguments', 'trust', 'teams', 'external_agent']))
            .describe('What is not known of them.'),
        }),
      )
      .describe('Why, by policy; given-1 is the first of those you gave.'),
    note: z.string(),
  }),
  run: (input, { policies, call }) => policies.simulate(call, input),
})
