import { describe, expect, it } from 'vitest'
import { tenantId } from '../../contract/principal.ts'
import type { SealSession } from './ports.ts'
import { createTokenSigner } from './token.ts'

const session: SealSession = {
  tenant: tenantId('acme'),
  id: 'seal_1',
  identity: 'key_1',
  tokenHash: '',
  publicKey: '',
  context: 'zaru-pro',
  agentId: 'agent-1',
  executionId: 'run-1',
  workloadId: 'workload-1',
  taskSummary: 'Fix the test.',
  createdAtMs: 1_771_338_721_000,
  createdBy: 'ann',
  expiresAtMs: 1_771_342_321_000,
  revokedAtMs: null,
}
const signer = createTokenSigner(Buffer.alloc(32, 7))
const partsOf = (token: string) =>
  token.split('.').map((part, index) => (index === 2 ? part : JSON.parse(Buffer.from(part, 'base64url').toString())))

describe('a session token', () => {
  it('is a JWT with the documented claims', () => {
    const [header, claims] = partsOf(signer.issue(session))
    expect(header).toMatchObject({ alg: 'EdDSA', typ: 'JWT' })
    expect(claims).toEqual({
      sub: 'agent-1',
      scp: 'zaru-pro',
      security_context: 'zaru-pro',
      wid: 'workload-1',
      exec_id: 'run-1',
      iat: 1_771_338_721,
      exp: 1_771_342_321,
      jti: 'seal_1',
      iss: 'aegis-orchestrator',
      aud: 'aegis-agents',
      tenant_id: 'acme',
      task_summary: 'Fix the test.',
    })
    expect(signer.read(signer.issue(session))).toEqual({ tenant: 'acme', sessionId: 'seal_1' })
  })

  it('is nothing once anything in it was changed, or if another key or algorithm made it', () => {
    const token = signer.issue(session)
    const [header, claims, signature] = token.split('.') as [string, string, string]
    const none = Buffer.from(JSON.stringify({ alg: 'none', typ: 'JWT' })).toString('base64url')
    const admin = Buffer.from(JSON.stringify({ ...partsOf(token)[1], jti: 'seal_2' })).toString('base64url')
    for (const forged of [
      `${none}.${claims}.`,
      `${none}.${claims}.${signature}`,
      `${header}.${admin}.${signature}`,
      `${header}.${claims}.${'A'.repeat(86)}`,
      `${header}.${claims}`,
      `${token}.`,
      ` ${token}`,
      createTokenSigner(Buffer.alloc(32, 8)).issue(session),
      '',
    ]) {
      expect(signer.read(forged)).toBeUndefined()
    }
  })
})
