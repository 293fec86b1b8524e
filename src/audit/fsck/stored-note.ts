import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import { AppError } from '../../contract/app-error.ts'
import { sha256Bytes } from '../../kernel/hash.ts'

export type LogKey = Readonly<{ name: string; id: Buffer; publicKey: KeyObject }>
export type StoredNote = Readonly<{
  origin: string
  size: number
  root: Buffer
  isSignedBy(key: LogKey): boolean
}>

const NOTE =
  /^(([^\n]+)\n(0|[1-9]\d{0,15})\n([A-Za-z0-9+/]{43}=)\n(?:[^\n]+\n)*)\n((?:— [^\s+]+ [A-Za-z0-9+/]+={0,2}\n)+)$/u
const SPKI_HEADER = Buffer.from('302a300506032b6570032100', 'hex')

/** Throws ERR_INVALID_INPUT for a key that is not `name+hash+base64` of an Ed25519 key. */
export function readLogKey(text: string): LogKey {
  const [, name, id, encoded] = /^([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})$/u.exec(text) ?? []
  const bytes = Buffer.from(encoded ?? '', 'base64')
  const idBytes = Buffer.from(id ?? '', 'hex')
  const expectedId = sha256Bytes(Buffer.concat([Buffer.from(`${name}\n`), bytes])).subarray(0, 4)
  if (name === undefined || bytes[0] !== 1 || !idBytes.equals(expectedId)) {
    throw new AppError('ERR_INVALID_INPUT', 'The verifier key of the log must have the form name+hash+base64.', {
      field: 'key',
    })
  }
  const spki = Buffer.concat([SPKI_HEADER, bytes.subarray(1)])
  return { name, id: idBytes, publicKey: createPublicKey({ key: spki, format: 'der', type: 'spki' }) }
}

export function readStoredNote(note: string): StoredNote | undefined {
  const [, text, origin, size, root, signatures] = NOTE.exec(note) ?? []
  if (text === undefined || !Number.isSafeInteger(Number(size))) return undefined
  return {
    origin: origin!,
    size: Number(size),
    root: Buffer.from(root!, 'base64'),
    isSignedBy(key) {
      const own = signatures!
        .trimEnd()
        .split('\n')
        .map((line) => line.split(' '))
        .map(([, name, encoded]) => ({ name, bytes: Buffer.from(encoded!, 'base64') }))
        .filter(({ name, bytes }) => name === key.name && bytes.subarray(0, 4).equals(key.id))
      return (
        own.length > 0 && own.every(({ bytes }) => verify(null, Buffer.from(text), key.publicKey, bytes.subarray(4)))
      )
    },
  }
}
