import { createCipheriv, createDecipheriv } from 'node:crypto'
import type { Random } from '../../kernel/random.ts'
import type { SecretKey } from './ports.ts'

const NONCE_BYTES = 12
const TAG_BYTES = 16

/** AES-256-GCM. `aad` is authenticated with the value, so that a sealed value moved to another row cannot be opened. */
export function seal(key: SecretKey, aad: string, value: string, random: Random): string {
  const nonce = random.bytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key.bytes, nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(Buffer.from(aad))
  const body = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()])
  return Buffer.concat([nonce, body, cipher.getAuthTag()]).toString('base64')
}

/** Undefined if the text was changed, belongs to another row, or was sealed with another key. */
export function open(key: SecretKey, aad: string, sealed: string): string | undefined {
  const bytes = Buffer.from(sealed, 'base64')
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined
  const decipher = createDecipheriv('aes-256-gcm', key.bytes, bytes.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  })
  decipher.setAAD(Buffer.from(aad))
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
  try {
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString('utf8')
  } catch {
    return undefined
  }
}
