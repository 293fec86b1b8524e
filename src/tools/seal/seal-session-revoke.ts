import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { sealSessionView } from './seal-session-view.ts'

export default defineTool({
  name: 'seal_session_revoke',
  toolset: 'identity',
  trust: { carries: { as: 'seal_session', fields: ['session_id'] } },
  title: 'Revoke a SEAL session',
  description:
    'End a SEAL session at once: calls signed in it are no longer accepted. Your own, or any of the tenant for administrators. Revoking again changes nothing. To end all sessions of an API key, revoke the key with api_key_revoke.',
  permission: 'seal:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({ session_id: z.string().min(1).max(128).describe('From seal_session_list.') }),
  output: sealSessionView,
  run: ({ session_id }, { seal, call }) => seal.revokeSession(call, session_id),
})
