import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { sealSessionView } from './seal-session-view.ts'

export default defineTool({
  name: 'seal_session_list',
  toolset: 'identity',
  trust: { carries: { as: 'seal_session', fields: ['session_id'] } },
  title: 'List SEAL sessions',
  description:
    'List the sessions in which callers from outside sign their calls, newest first, ended ones included for a day. Administrators see those of the whole tenant, others their own. Use it to find the id for seal_session_revoke.',
  permission: 'seal:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({}),
  output: z.strictObject({
    sessions: z.array(sealSessionView),
    truncated: z.boolean().describe('There are more than are listed.'),
  }),
  run: (_input, { seal, call }) => seal.listSessions(call),
})
