import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { AppError } from '../contract/app-error.ts'
import { sha256Bytes } from '../kernel/hash.ts'
import { type Random, systemRandom } from '../kernel/random.ts'

/**
 * C2SP signed notes and tlog checkpoints with Ed25519 keys.
 * Verifier key: `name+hhhhhhhh+base64(0x01 ‖ public key)`. Signer key: `PRIVATE+KEY+name+hhhhhhhh+base64(0x01 ‖ seed)`.
 * The eight hex digits are the key id: the first four bytes of SHA-256(name ‖ 0x0A ‖ 0x01 ‖ public key).
 */
export type Checkpoint = Readonly<{ origin: string; size: number; root: Buffer }>
type KeyPair = Readonly<{ signerKey: string; verifierKey: string }>

/** Parsed keys; parse once where many notes are signed or opened. */
export type NoteVerifier = Readonly<{ name: string; keyId: string; publicKey: KeyObject }>
export type NoteSigner = Readonly<{ name: string; keyId: string; privateKey: KeyObject; verifierKey: string }>

const ED25519 = 0x01
const SIGNER_PREFIX = 'PRIVATE+KEY+'
const PKCS8_HEADER = Buffer.from('302e020100300506032b657004220420', 'hex')
const SPKI_HEADER = Buffer.from('302a300506032b6570032100', 'hex')
const NOTE_CHARACTERS_MAX = 1_000_000
const SIGNATURES_MAX = 100
const NAME_PATTERN = /^[^\s+\p{Cc}]+$/u
const KEY_PATTERN = /^([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+={0,2})$/
const ORIGIN_PATTERN = /^castellan\/([^/]+)\/(.+)$/u

/** The log of one tenant. A log id contains no slash, so that the tenant can be parsed from it. */
export function checkpointOrigin(logId: string, tenant: string): string {
  const origin = `castellan/${logId}/${tenant}`
  if (logId === '' || tenant === '' || logId.includes('/') || !isLine(origin)) {
    throw new AppError('ERR_INVALID_INPUT', 'The log id and the tenant must each be one non-empty line of text.', {
      field: 'origin',
    })
  }
  return origin
}

export function originTenant(origin: string): string | undefined {
  return ORIGIN_PATTERN.exec(origin)?.[2]
}

export function formatCheckpoint({ origin, size, root }: Checkpoint): string {
  if (!isLine(origin)) throw badNote('origin', 'the origin must be one non-empty line of text')
  if (!Number.isSafeInteger(size) || size < 0) throw badNote('size', 'the size must be a whole number, 0 or more')
  if (root.length !== 32) throw badNote('root', 'the root hash must be 32 bytes long')
  return `${origin}\n${size}\n${root.toString('base64')}\n`
}

/** Parses the text of an opened note. Extension lines are allowed and ignored. */
export function parseCheckpoint(text: string): Checkpoint {
  const lines = text.split('\n')
  const [origin, size, root] = lines
  if (lines.length < 4 || lines.pop() !== '' || lines.some((line) => line === '')) {
    throw badNote('checkpoint', 'it must have at least three non-empty lines, each ending with a line feed')
  }
  if (!isLine(origin!)) throw badNote('origin', 'line 1 must be the origin')
  if (!/^(0|[1-9][0-9]{0,15})$/.test(size!) || !Number.isSafeInteger(Number(size))) {
    throw badNote('size', 'line 2 must be the size, a decimal number without leading zeros')
  }
  const rootBytes = decodeBase64(root!)
  if (rootBytes?.length !== 32) throw badNote('root', 'line 3 must be the root hash, 32 bytes in base64')
  return { origin: origin!, size: Number(size), root: rootBytes }
}

export function generateKey(name: string, random: Random = systemRandom): KeyPair {
  if (!NAME_PATTERN.test(name) || !name.isWellFormed()) {
    throw badKey('name', 'the key name must not be empty and must not contain white space or "+"')
  }
  const seed = random.bytes(32)
  const publicKey = publicBytes(privateKeyOf(seed))
  const keyId = keyIdOf(name, publicKey)
  return {
    signerKey: `${SIGNER_PREFIX}${encodeKey(name, keyId, seed)}`,
    verifierKey: encodeKey(name, keyId, publicKey),
  }
}

export function parseVerifierKey(verifierKey: string): NoteVerifier {
  if (verifierKey.startsWith(SIGNER_PREFIX)) {
    throw badKey(
      'key',
      'this is the private signer key. Pass the verifier key instead, and consider the signer key compromised',
    )
  }
  const { name, keyId, bytes } = decodeKey(verifierKey)
  if (keyIdOf(name, bytes) !== keyId) throw badKey('key', 'the key id does not match the name and the key')
  return { name, keyId, publicKey: publicKeyOf(bytes) }
}

export function parseSignerKey(signerKey: string): NoteSigner {
  if (!signerKey.startsWith(SIGNER_PREFIX)) throw badKey('key', `a signer key must begin with ${SIGNER_PREFIX}`)
  const { name, keyId, bytes } = decodeKey(signerKey.slice(SIGNER_PREFIX.length))
  const privateKey = privateKeyOf(bytes)
  const publicKey = publicBytes(privateKey)
  if (keyIdOf(name, publicKey) !== keyId) throw badKey('key', 'the key id does not match the name and the key')
  return { name, keyId, privateKey, verifierKey: encodeKey(name, keyId, publicKey) }
}

export function signNote(text: string, signerKey: string | NoteSigner): string {
  const problem = textProblem(text)
  if (problem !== undefined) throw badNote('text', problem)
  const { name, keyId, privateKey } = typeof signerKey === 'string' ? parseSignerKey(signerKey) : signerKey
  const signature = sign(null, Buffer.from(text, 'utf8'), privateKey)
  return `${text}\n— ${name} ${Buffer.concat([Buffer.from(keyId, 'hex'), signature]).toString('base64')}\n`
}

type OpenedNote = Readonly<{ text: string; signedBy: string }>

/**
 * Returns the text of a note that the key has signed. Signatures of other keys are ignored; a signature of this key that does not
 * verify makes the whole note invalid, whatever else signs it.
 */
export function openNote(note: string, verifierKey: string | NoteVerifier): OpenedNote {
  const verifier = typeof verifierKey === 'string' ? parseVerifierKey(verifierKey) : verifierKey
  const { text, signatures } = splitNote(note)
  const bytes = Buffer.from(text, 'utf8')
  let verified = false
  for (const { name, keyId, signature } of signatures) {
    if (name !== verifier.name || keyId !== verifier.keyId) continue
    if (signature.length !== 64 || !verify(null, bytes, verifier.publicKey, signature)) {
      throw badNote(
        'signature',
        `the signature of ${name} (key ${keyId}) is invalid, so the text was changed after it was signed`,
      )
    }
    verified = true
  }
  if (!verified) {
    const signers = signatures.map(({ name, keyId }) => `${name} (key ${keyId})`).join(', ')
    throw badNote(
      'signer',
      `it must be signed by ${verifier.name} (key ${verifier.keyId}), but it is signed by ${signers}`,
    )
  }
  return { text, signedBy: verifier.name }
}

export const signCheckpoint = (checkpoint: Checkpoint, signerKey: string | NoteSigner): string =>
  signNote(formatCheckpoint(checkpoint), signerKey)

export const openCheckpoint = (note: string, verifierKey: string | NoteVerifier): Checkpoint =>
  parseCheckpoint(openNote(note, verifierKey).text)

type NoteSignature = Readonly<{ name: string; keyId: string; signature: Buffer }>

function splitNote(note: string): { text: string; signatures: NoteSignature[] } {
  if (note.length > NOTE_CHARACTERS_MAX) throw badNote('note', `it is longer than ${NOTE_CHARACTERS_MAX} characters`)
  const split = note.lastIndexOf('\n\n')
  if (split < 0) throw badNote('note', 'the blank line between text and signatures is missing')
  const text = note.slice(0, split + 1)
  const problem = textProblem(text)
  if (problem !== undefined) throw badNote('text', problem)
  if (!note.endsWith('\n')) throw badNote('signature', 'the last signature line must end with a line feed')
  const lines = note.slice(split + 2, -1).split('\n')
  if (lines.length > SIGNATURES_MAX) throw badNote('signature', `it has more than ${SIGNATURES_MAX} signatures`)
  return { text, signatures: lines.map(parseSignature) }
}

function parseSignature(line: string): NoteSignature {
  const [dash, name, encoded, ...rest] = line.split(' ')
  const bytes = encoded === undefined ? undefined : decodeBase64(encoded)
  if (dash !== '—' || name === undefined || !NAME_PATTERN.test(name) || rest.length > 0 || (bytes?.length ?? 0) < 5) {
    throw badNote('signature', 'a signature line must be "— name base64"')
  }
  return { name, keyId: bytes!.subarray(0, 4).toString('hex'), signature: bytes!.subarray(4) }
}

function textProblem(text: string): string | undefined {
  if (text === '' || !text.endsWith('\n')) return 'the text must end with a line feed'
  if (!text.isWellFormed() || /[\u0000-\u0009\u000b-\u001f]/.test(text)) return 'the text contains a control character'
  return undefined
}

const isLine = (value: string): boolean => value !== '' && value.isWellFormed() && !/[\u0000-\u001f]/.test(value)

/** Only the one canonical encoding of the bytes is accepted. */
function decodeBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : undefined
}

function decodeKey(encoded: string): { name: string; keyId: string; bytes: Buffer } {
  const [, name, keyId, base64] = KEY_PATTERN.exec(encoded) ?? []
  const bytes = base64 === undefined ? undefined : decodeBase64(base64)
  if (bytes === undefined || !NAME_PATTERN.test(name!))
    throw badKey('key', 'the key must have the form name+hash+base64')
  if (bytes.length !== 33 || bytes[0] !== ED25519)
    throw badKey('key', 'only Ed25519 keys (type 1, 32 bytes) are supported')
  return { name: name!, keyId: keyId!, bytes: bytes.subarray(1) }
}

const encodeKey = (name: string, keyId: string, bytes: Buffer): string =>
  `${name}+${keyId}+${Buffer.concat([Buffer.of(ED25519), bytes]).toString('base64')}`

const keyIdOf = (name: string, publicKey: Buffer): string =>
  sha256Bytes(Buffer.concat([Buffer.from(`${name}\n`, 'utf8'), Buffer.of(ED25519), publicKey]))
    .subarray(0, 4)
    .toString('hex')

const privateKeyOf = (seed: Buffer): KeyObject =>
  createPrivateKey({ key: Buffer.concat([PKCS8_HEADER, seed]), format: 'der', type: 'pkcs8' })

const publicKeyOf = (bytes: Buffer): KeyObject =>
  createPublicKey({ key: Buffer.concat([SPKI_HEADER, bytes]), format: 'der', type: 'spki' })

const publicBytes = (privateKey: KeyObject): Buffer =>
  createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).subarray(SPKI_HEADER.length)

const badKey = (field: string, reason: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `The log key cannot be used: ${reason}.`, { field, rule: 'key' })

const badNote = (field: string, reason: string): AppError =>
  new AppError('ERR_LOG_INVALID', `The signed note is not valid: ${reason}.`, { field, rule: 'note' })
