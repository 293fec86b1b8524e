import { timingSafeEqual } from 'node:crypto'
import { sha256Hex } from '../../kernel/hash.ts'
import type { Random } from '../../kernel/random.ts'

/**
 * A token is `cst_<prefix>_<secret>`, and `cvk_…` for a virtual key: a public prefix of 8 characters that finds the row, and 32
 * random bytes in base64url. Stored is the SHA-256 of the whole token. A slow password hash would add nothing: those exist for secrets
 * that can be guessed, and 256 random bits cannot.
 */
const TOKEN = /^(cst|cvk)_([0-9a-hjkmnp-tv-z]{8})_[A-Za-z0-9_-]{43}$/
/** Of API keys, and of virtual keys. */
type TokenKind = 'cst' | 'cvk'
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'

export const newPrefix = (random: Random): string =>
  Array.from(random.bytes(8), (byte) => ALPHABET[byte % ALPHABET.length]).join('')

export const newToken = (random: Random, prefix: string, kind: TokenKind = 'cst'): string =>
  `${kind}_${prefix}_${random.bytes(32).toString('base64url')}`

/** The public prefix, or undefined for anything that is not written like a token of the kind. */
export function tokenPrefix(token: string, kind: TokenKind = 'cst'): string | undefined {
  const match = TOKEN.exec(token)
  return match?.[1] === kind ? match[2] : undefined
}

export const hashToken = (token: string): string => sha256Hex(token)

/** Takes the same time wherever the two differ. */
export function hashMatches(storedHex: string, inputHex: string): boolean {
  const stored = Buffer.from(storedHex, 'hex')
  const input = Buffer.from(inputHex, 'hex')
  return stored.length === input.length && timingSafeEqual(stored, input)
}
