import { verify } from 'node:crypto'
import { AppError } from '../../contract/app-error.ts'
import { canonicalJson } from '../../kernel/canonical-json.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { keyObjectOf } from './public-key.ts'

const SEAL_PROTOCOL = 'seal/v1'

/** A signed call as received; nothing about it is verified. */
export type Envelope = Readonly<{
  token: string
  signature: Buffer
  payload: Readonly<Record<string, unknown>>
  /** Whole seconds: the signed form has no fraction. */
  timestampSeconds: number
}>

export type EnvelopeCall = Readonly<{ name: string; args: Readonly<Record<string, unknown>> }>
export type RequestId = string | number | null

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/
const SIGNATURE = /^[A-Za-z0-9+/]{86}==$/

export function readEnvelope(value: unknown): Envelope {
  if (!isObject(value)) throw malformed('envelope', 'must be an object')
  const { protocol, security_token, signature, payload, timestamp } = value
  if (protocol !== undefined && protocol !== SEAL_PROTOCOL) throw malformed('protocol', `must be "${SEAL_PROTOCOL}"`)
  if (typeof security_token !== 'string' || security_token === '') {
    throw malformed('security_token', 'must be the token that the attestation returned')
  }
  if (typeof signature !== 'string' || !SIGNATURE.test(signature)) {
    throw malformed('signature', 'must be 64 bytes in base64')
  }
  if (!isObject(payload)) throw malformed('payload', 'must be an object')
  const ms = typeof timestamp === 'string' && INSTANT.test(timestamp) ? Date.parse(timestamp) : Number.NaN
  if (Number.isNaN(ms)) throw malformed('timestamp', 'must be an instant such as 2030-01-31T12:00:00Z')
  return {
    token: security_token,
    signature: Buffer.from(signature, 'base64'),
    payload,
    timestampSeconds: Math.floor(ms / 1000),
  }
}

/** The signed content: canonical JSON of exactly these three. */
export const signedText = ({ payload, token, timestampSeconds }: Omit<Envelope, 'signature'>): string =>
  canonicalJson({ payload, security_token: token, timestamp: timestampSeconds })

export const isSignedBy = (text: string, signature: Uint8Array, publicKey: Uint8Array): boolean =>
  verify(null, Buffer.from(text), keyObjectOf(publicKey), signature)

/**
 * The key under which a message is remembered. Not its signature: one message can have several that verify. A token is
 * part of the signed content, so no two sessions have a message in common.
 */
export const messageDigest = (text: string): string => sha256Hex(text)

/** The tool that a payload calls. A method that is not `tools/call` is the tool's name itself, and `params` its arguments. */
export function readCall(payload: Envelope['payload']): EnvelopeCall {
  const { method, params } = payload
  if (typeof method !== 'string' || method === '') throw malformed('payload.method', 'must be "tools/call"')
  const direct = method === 'tools/call' ? params : { name: method, arguments: params }
  if (!isObject(direct)) throw malformed('payload.params', 'must be an object with name and arguments')
  const { name, arguments: args = {} } = direct
  if (typeof name !== 'string' || name === '') throw malformed('payload.params.name', 'must be the name of a tool')
  if (!isObject(args)) throw malformed('payload.params.arguments', 'must be an object')
  return { name, args }
}

/** The id for the answer, if the body has one. */
export function requestIdOf(body: unknown): RequestId {
  const id = isObject(body) && isObject(body['payload']) ? body['payload']['id'] : undefined
  return typeof id === 'string' || typeof id === 'number' ? id : null
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const malformed = (field: string, rule: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `Malformed envelope: '${field}' ${rule}.`, { field, constraint: rule })
