import { createPublicKey, type KeyObject } from 'node:crypto'
import { AppError } from '../../contract/app-error.ts'

const SPKI_HEADER = Buffer.from('302a300506032b6570032100', 'hex')
const RAW_BYTES = 32
const PEM = /^-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----\s*$/
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/** The 32 bytes of an Ed25519 public key: as base64, or inside its SPKI form, which is PEM or base64 itself. */
export function readPublicKey(written: string): Buffer {
  const text = (PEM.exec(written.trim())?.[1] ?? written).replace(/\s+/g, '')
  const bytes = BASE64.test(text) ? Buffer.from(text, 'base64') : undefined
  const raw = bytes === undefined ? undefined : rawOf(bytes)
  if (raw === undefined || isWeak(raw)) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      'public_key: must be an Ed25519 public key: its 32 bytes in base64, or its SPKI form as PEM or base64.',
      { field: 'public_key' },
    )
  }
  return raw
}

function rawOf(bytes: Buffer): Buffer | undefined {
  if (bytes.length === RAW_BYTES) return bytes
  const isSpki =
    bytes.length === SPKI_HEADER.length + RAW_BYTES && bytes.subarray(0, SPKI_HEADER.length).equals(SPKI_HEADER)
  return isSpki ? bytes.subarray(SPKI_HEADER.length) : undefined
}

export const keyObjectOf = (raw: Uint8Array): KeyObject =>
  createPublicKey({ key: Buffer.concat([SPKI_HEADER, raw]), format: 'der', type: 'spki' })

/**
 * Points of small order, under which signatures can be made without a private key: the y coordinates of all eight, and
 * the other ways to write them. The sign bit does not matter.
 */
const WEAK_POINTS: ReadonlySet<string> = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
])

function isWeak(raw: Buffer): boolean {
  const unsigned = Buffer.from(raw)
  unsigned[RAW_BYTES - 1]! &= 0x7f
  return WEAK_POINTS.has(unsigned.toString('hex'))
}
