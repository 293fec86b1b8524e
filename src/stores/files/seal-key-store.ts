import { readFile } from 'node:fs/promises'
import { AppError } from '../../contract/app-error.ts'
import { inWords } from '../../contract/system-fault.ts'
import type { Random } from '../../kernel/random.ts'
import { writeFileAtomically } from './atomic-file.ts'
import { createKeyFile } from './key-file.ts'

type KeyFile = Readonly<{ ed25519_seed: string }>
const SEED_BYTES = 32

/**
 * The private key that signs the tokens of SEAL sessions, created on first use. Of two processes that create it at once the first
 * wins. Losing it only ends the existing sessions.
 */
export async function openSealKey(path: string, random: Random): Promise<Buffer> {
  const stored = await readKey(path)
  if (stored !== undefined) return stored
  const file: KeyFile = { ed25519_seed: random.bytes(SEED_BYTES).toString('base64') }
  await createKeyFile(path, random, (draft) =>
    writeFileAtomically(draft, `${JSON.stringify(file)}\n`, { durable: true }),
  )
  return (await readKey(path))!
}

async function readKey(path: string): Promise<Buffer | undefined> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw inWords(error, path)
  }
  const seed = seedOf(text)
  if (seed?.length === SEED_BYTES) return seed
  throw new AppError('ERR_INIT_FAILED', `The key of SEAL sessions in ${path} cannot be read. Restore or remove it.`)
}

function seedOf(text: string): Buffer | undefined {
  try {
    return Buffer.from((JSON.parse(text) as KeyFile).ed25519_seed, 'base64')
  } catch {
    return undefined
  }
}
