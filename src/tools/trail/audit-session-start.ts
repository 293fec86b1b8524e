import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'audit_session_start',
  toolset: 'ledger',
  title: 'Start an audit session',
  description:
    'Open an audit of a task. From now until merkle_finalize it covers the thoughts and the changes of the task (deep: of its sub-tasks too). Sessions may overlap; verifying does not end one.',
  permission: 'trail:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    task_id: params.taskId.describe('Task to audit.'),
    auditor_id: z.string().min(1).max(256).describe('Who conducts the audit.'),
    reason: z.string().max(2000).optional().describe('Why, such as "proof review".'),
    scope: z.enum(['shallow', 'deep']).default('shallow').describe('shallow: this task; deep: its sub-tasks too.'),
  }),
  output: z.strictObject({
    session_id: z.string(),
    task_id: z.string(),
    auditor_id: z.string(),
    started_at: fields.time,
    scope: z.enum(['shallow', 'deep']),
  }),
  run: (input, { trail, call }) => trail.startSession(call, input),
})
