import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'thought_record_list',
  toolset: 'ledger',
  trust: { carries: { as: 'task', fields: ['task_id'] } },
  title: 'List thoughts',
  description:
    'Read the thoughts of a task or of an audit session in the order they were recorded, and on request verify their hashes and links.',
  permission: 'trail:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    task_id: params.taskId.optional(),
    session_id: params.sessionId.optional(),
    type: params.thoughtType.optional(),
    limit: params.limit(100, 500),
    offset: params.offset,
    verify_chain: z.boolean().default(false).describe('Also verify hashes and links.'),
  }),
  output: z.strictObject({
    task_id: z.string().optional(),
    session_id: z.string().optional(),
    thought_count: z.int().describe('How many match, over all pages.'),
    thoughts: z.array(
      z.strictObject({
        thought_id: z.string(),
        task_id: z.string(),
        type: params.thoughtType,
        content: z.string(),
        hash: fields.hash,
        previous_hash: fields.hash.nullable(),
        recorded_at: fields.time,
        recorded_by: z.string(),
        chain_position: z.int(),
        branch: z.string().optional(),
        commit_sha: z.string().optional(),
        tests_run: z.array(z.string()).optional(),
        blockers: z.array(z.string()).optional(),
        metadata: z.record(z.string(), z.unknown()).optional(),
      }),
    ),
    chain_valid: z.boolean().optional(),
    invalid_links: z.array(z.int()).optional().describe('Chain positions that do not verify.'),
  }),
  run: (input, { trail, call }) => trail.listThoughts(call, input),
})
