import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'thought_record',
  toolset: 'ledger',
  trust: { carries: { as: 'task', fields: ['task_id'] } },
  title: 'Record a thought',
  description:
    "Append a thought (decision, reflection, discovery, risk or blockers) to a task's hash-chained trail. It can never be changed or removed; every record names the hash of the one before it.",
  permission: 'trail:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    task_id: params.taskId,
    type: params.thoughtType,
    content: params.thoughtContent,
    branch: z.string().max(256).optional().describe('Git branch.'),
    commit_sha: z.string().max(128).optional().describe('Git commit.'),
    tests_run: z.array(z.string().max(500)).max(200).optional().describe('Tests that were run.'),
    blockers: z.array(z.string().max(1000)).max(100).optional().describe('What stands in the way.'),
    metadata: params.metadata.optional(),
  }),
  output: z.strictObject({
    thought_id: z.string(),
    task_id: z.string(),
    type: params.thoughtType,
    hash: fields.hash,
    previous_hash: fields.hash.nullable().describe("Hash of the task's record before this one; null for the first."),
    recorded_at: fields.time,
    recorded_by: z.string(),
    chain_position: z.int().describe("Place in the task's chain, from 1."),
  }),
  run: (input, { trail, call }) => trail.recordThought(call, input),
})
