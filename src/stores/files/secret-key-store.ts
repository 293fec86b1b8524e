import { readFile, stat } from 'node:fs/promises'
import { AppError } from '../../contract/app-error.ts'
import { inWords } from '../../contract/system-fault.ts'
import type { SecretKey, SecretKeys } from '../../domains/secrets/ports.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { Random } from '../../kernel/random.ts'
import { writeFileAtomically } from './atomic-file.ts'
import { createKeyFile } from './key-file.ts'

type KeyFile = Readonly<{ aes256_keys: readonly string[] }>
type Loaded = Readonly<{ version: string; keys: readonly SecretKey[] }>
const KEY_BYTES = 32

/** The keys of the secrets in a file beside the store. Of two processes that create it at once the first wins. */
export function createSecretKeyFile(path: string, random: Random): SecretKeys {
  let loaded: Loaded | undefined

  async function load(): Promise<readonly SecretKey[]> {
    const version = (await versionOf(path)) ?? (await begin())
    if (loaded?.version !== version) loaded = { version, keys: await readKeys(path) }
    return loaded.keys
  }

  /** A process that finds the file has the keys of the process that wrote it. */
  async function begin(): Promise<string> {
    await createKeyFile(path, random, (draft) => write(draft, [newKey()]))
    return (await versionOf(path))!
  }

  const newKey = (): SecretKey => keyOf(random.bytes(KEY_BYTES))
  return {
    load,
    add: async () => await write(path, [newKey(), ...(await load())]),
    keepFirst: async () => await write(path, (await load()).slice(0, 1)),
  }
}

/** Keys that the operator chose: the first encrypts. To rotate, put a new one before the old one. */
export function secretKeysFrom(text: string): SecretKeys {
  const keys = text.split(',').map((part) => keyFromText(part.trim()))
  return { load: async () => keys, add: undefined, keepFirst: undefined }
}

function keyFromText(text: string): SecretKey {
  const bytes = /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : Buffer.from(text, 'base64')
  if (bytes.length === KEY_BYTES) return keyOf(bytes)
  throw new AppError(
    'ERR_CONFIG_INVALID',
    'CASTELLAN_SECRET_KEY: must be 32 bytes in base64 or hexadecimal, or a list of such keys. Create one with: openssl rand -base64 32',
    { field: 'CASTELLAN_SECRET_KEY' },
  )
}

const keyOf = (bytes: Buffer): SecretKey => ({ id: sha256Hex(bytes).slice(0, 16), bytes })

async function write(path: string, keys: readonly SecretKey[]): Promise<void> {
  const file: KeyFile = { aes256_keys: keys.map(({ bytes }) => bytes.toString('base64')) }
  try {
    await writeFileAtomically(path, `${JSON.stringify(file)}\n`, { durable: true })
  } catch (cause) {
    const message = 'The key that encrypts secrets could not be written. Nothing was changed.'
    throw new AppError('ERR_STORE_UNAVAILABLE', message, {}, { cause })
  }
}

async function versionOf(path: string): Promise<string | undefined> {
  try {
    const { ino, mtimeMs, size } = await stat(path)
    return `${ino} ${mtimeMs} ${size}`
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw inWords(error, path)
  }
}

async function readKeys(path: string): Promise<readonly SecretKey[]> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw inWords(error, path)
  })
  const keys = keysIn(text)
  if (keys !== undefined) return keys
  throw new AppError(
    'ERR_INIT_FAILED',
    `The keys that encrypt secrets, in ${path}, cannot be read. Restore the file from a backup.`,
  )
}

function keysIn(text: string): readonly SecretKey[] | undefined {
  try {
    const keys = (JSON.parse(text) as KeyFile).aes256_keys.map((key) => Buffer.from(key, 'base64'))
    return keys.length > 0 && keys.every(({ length }) => length === KEY_BYTES) ? keys.map(keyOf) : undefined
  } catch {
    return undefined
  }
}
