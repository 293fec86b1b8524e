import { readFile } from 'node:fs/promises'
import { generateKey, parseSignerKey } from '../../audit/checkpoint.ts'
import { AppError } from '../../contract/app-error.ts'
import { inWords } from '../../contract/system-fault.ts'
import type { LogIdentity } from '../../domains/log/ports.ts'
import type { Random } from '../../kernel/random.ts'
import { writeFileAtomically } from './atomic-file.ts'

/** `isClaimed`: a store has recorded that its log is this one. */
type StoredLogIdentity = LogIdentity & Readonly<{ isClaimed: boolean }>

/** The log's name and private key, created on first use and permanent: checkpoints are worthless under a changing key. */
export async function createLogIdentity(path: string, random: Random): Promise<LogIdentity> {
  const logId = random.bytes(8).toString('hex')
  const { signerKey } = generateKey(`castellan-${logId}`, random)
  await writeIdentity(path, { log_id: logId, signer_key: signerKey })
  return { logId, signer: parseSignerKey(signerKey) }
}

/** The identity when there is one. */
export async function readLogIdentity(path: string): Promise<StoredLogIdentity | undefined> {
  const text = await readIfThere(path)
  if (text === undefined) return undefined
  const { log_id, signer_key, claimed } = parseIdentity(path, text)
  return { logId: log_id, signer: parseSignerKey(signer_key), isClaimed: claimed === true }
}

/** Records that a store has this log, so that no other store begins a second one under the same name. */
export async function claimLogIdentity(path: string): Promise<void> {
  const text = await readIfThere(path)
  if (text !== undefined) await writeIdentity(path, { ...parseIdentity(path, text), claimed: true })
}

type IdentityFile = Readonly<{ log_id: string; signer_key: string; claimed?: boolean }>

const writeIdentity = (path: string, identity: IdentityFile): Promise<void> =>
  writeFileAtomically(path, `${JSON.stringify(identity)}\n`, { durable: true })

function parseIdentity(path: string, text: string): IdentityFile {
  try {
    const parsed = JSON.parse(text) as IdentityFile
    parseSignerKey(parsed.signer_key)
    return parsed
  } catch (cause) {
    throw new AppError(
      'ERR_INIT_FAILED',
      `The log key in ${path} cannot be read. Restore it from a backup.`,
      {},
      { cause },
    )
  }
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw inWords(error, path)
  }
}
