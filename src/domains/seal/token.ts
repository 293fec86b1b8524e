import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { type TenantId, tenantId } from '../../contract/principal.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { SealSession } from './ports.ts'

/** A token names a session, under our signature. Only the session's row decides; the rest is informative. */
export type TokenSigner = Readonly<{
  issue(session: SealSession): string
  /** Undefined for anything that this key did not sign. */
  read(token: string): Readonly<{ tenant: TenantId; sessionId: string }> | undefined
}>

const PKCS8_HEADER = Buffer.from('302e020100300506032b657004220420', 'hex')
const ISSUER = 'aegis-orchestrator'
const AUDIENCE = 'aegis-agents'
const TOKEN = /^[A-Za-z0-9_-]{1,1024}\.([A-Za-z0-9_-]{1,4096})\.([A-Za-z0-9_-]{86})$/

/** `seed` is the private key: 32 random bytes. */
export function createTokenSigner(seed: Buffer): TokenSigner {
  const privateKey = createPrivateKey({ key: Buffer.concat([PKCS8_HEADER, seed]), format: 'der', type: 'pkcs8' })
  const publicKey: KeyObject = createPublicKey(privateKey)
  const keyId = sha256Hex(publicKey.export({ format: 'der', type: 'spki' })).slice(0, 16)
  const header = base64url({ alg: 'EdDSA', typ: 'JWT', kid: keyId })

  return {
    issue(session) {
      const signed = `${header}.${base64url(claimsOf(session))}`
      return `${signed}.${sign(null, Buffer.from(signed), privateKey).toString('base64url')}`
    },
    read(token) {
      const parts = TOKEN.exec(token)
      // We write only one header, so there is no choice of algorithm to get wrong.
      if (parts === null || !token.startsWith(`${header}.`)) return undefined
      const signed = token.slice(0, token.lastIndexOf('.'))
      if (!verify(null, Buffer.from(signed), publicKey, Buffer.from(parts[2]!, 'base64url'))) return undefined
      const claims = JSON.parse(Buffer.from(parts[1]!, 'base64url').toString()) as Claims
      return { tenant: tenantId(claims.tenant_id), sessionId: claims.jti }
    },
  }
}

type Claims = ReturnType<typeof claimsOf>

const claimsOf = (session: SealSession) => ({
  sub: session.agentId ?? session.id,
  scp: session.context,
  security_context: session.context,
  ...(session.workloadId === null ? {} : { wid: session.workloadId }),
  ...(session.executionId === null ? {} : { exec_id: session.executionId }),
  iat: Math.floor(session.createdAtMs / 1000),
  exp: Math.floor(session.expiresAtMs / 1000),
  jti: session.id,
  iss: ISSUER,
  aud: AUDIENCE,
  tenant_id: session.tenant as string,
  ...(session.taskSummary === null ? {} : { task_summary: session.taskSummary }),
})

const base64url = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
