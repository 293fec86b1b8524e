import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { signedText } from '../../src/domains/seal/envelope.ts'

/** A caller that signs what it is told to, right or wrong. */
export type SealSigner = Readonly<{ publicKey: string; privateKey: KeyObject }>

export function newSigner(): SealSigner {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const der = publicKey.export({ format: 'der', type: 'spki' })
  return { publicKey: der.subarray(-32).toString('base64'), privateKey }
}

export type SignedCall = Readonly<{
  protocol: string
  security_token: string
  signature: string
  payload: Readonly<Record<string, unknown>>
  timestamp: string
}>

let lastId = 0

export const toolCall = (name: string, args: unknown = {}): Record<string, unknown> => ({
  jsonrpc: '2.0',
  id: ++lastId,
  method: 'tools/call',
  params: { name, arguments: args },
})

export function seal(
  { privateKey }: SealSigner,
  token: string,
  payload: Readonly<Record<string, unknown>>,
  atMs: number,
): SignedCall {
  const timestamp = new Date(atMs).toISOString()
  const text = signedText({ payload, token, timestampSeconds: Math.floor(atMs / 1000) })
  const signature = sign(null, Buffer.from(text), privateKey).toString('base64')
  return { protocol: 'seal/v1', security_token: token, signature, payload, timestamp }
}
