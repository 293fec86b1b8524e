import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'log_recover',
  toolset: 'log',
  title: 'Recover a halted log',
  description:
    'Resume logs that do not extend their checkpoint, after a restore from a backup or a loss of checkpoints. The old checkpoint is kept as evidence and the decision is in the log. Find out why first: castellan verify.',
  permission: 'auditLog:recover',
  tier: 'operator',
  effect: 'external',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  onHaltedLog: 'answer',
  input: z.strictObject({
    tenant: z
      .string()
      .min(1)
      .max(64)
      .optional()
      .describe('The tenant whose log is resumed; all halted logs if left out.'),
    reason: z.string().min(1).max(1000).describe('Why this is right, for readers of the log.'),
  }),
  output: z.strictObject({
    recovered: z.array(
      z.strictObject({
        tenant: z.string(),
        problem: z.string(),
        size: z.int(),
        root: fields.hash,
        evidence: z.string().nullable().describe('The file with the old checkpoint, if there was one.'),
      }),
    ),
  }),
  run: (input, { log, call }) => log.recover(call, input),
})
