import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

const claim = (description: string) => z.string().min(1).max(256).optional().describe(description)

export default defineTool({
  name: 'seal_session_create',
  toolset: 'identity',
  title: 'Start a SEAL session',
  description:
    'Attest a caller from outside: give its Ed25519 public key and get a token for calls that it signs itself (POST /v1/seal/invoke). A session lasts an hour, never has more rights than your own identity, and is narrowed by its security context. Programs mostly use POST /v1/seal/attest instead; for a long-lived credential use api_key_create.',
  permission: 'seal:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  input: z.strictObject({
    public_key: z
      .string()
      .min(1)
      .max(1_024)
      .describe('Ed25519 public key: its 32 bytes in base64, or its SPKI form as PEM or base64.'),
    security_context: claim('Name of the security context; the narrowest one when left out.'),
    zaru_tier: claim('free, pro, business or enterprise: chooses the context when security_context is left out.'),
    agent_id: claim('What the caller says it is.'),
    execution_id: claim('The execution that the caller says it belongs to.'),
    workload_id: claim('The workload that the caller says it belongs to.'),
    task_summary: z
      .string()
      .max(limits.sealTaskSummaryCharsMax)
      .optional()
      .describe('What the session is for, in a sentence.'),
    tenant_id: claim('Your own tenant, or nothing.'),
  }),
  output: z.strictObject({
    session_id: z.string(),
    security_token: z.string().describe('Goes into each envelope. Shown once.'),
    security_context: z.string(),
    expires_at: fields.time,
  }),
  run: (input, { seal, call }) => seal.attest(call, input),
})
