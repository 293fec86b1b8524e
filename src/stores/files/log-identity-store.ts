import { readFile } from 'node:fs/promises'
import { generateKey, parseSignerKey } from '../../audit/checkpoint.ts'
import { AppError } from '../../contract/app-error.ts'
import type { LogIdentity } from '../../domains/log/ports.ts'
import type { Random } from '../../kernel/random.ts'
import { writeFileAtomically } from './atomic-file.ts'

/** The log's name and private key, made on first use and then kept: checkpoints are worth nothing under a changing key. */
export async function loadLogIdentity(path: string, random: Random): Promise<LogIdentity> {
  const existing = await readLogIdentity(path)
  if (existing !== undefined) return existing
  const logId = random.bytes(8).toString('hex')
  const { signerKey } = generateKey(`castellan-${logId}`, random)
  await writeFileAtomically(path, `${JSON.stringify({ log_id: logId, signer_key: signerKey })}\n`, { durable: true })
  return { logId, signer: parseSignerKey(signerKey) }
}

/** The identity when there is one; for those who only check. */
export async function readLogIdentity(path: string): Promise<LogIdentity | undefined> {
  const existing = await readIfThere(path)
  return existing === undefined ? undefined : parseIdentity(path, existing)
}

function parseIdentity(path: string, text: string): LogIdentity {
  try {
    const parsed = JSON.parse(text) as { log_id: string; signer_key: string }
    return { logId: parsed.log_id, signer: parseSignerKey(parsed.signer_key) }
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
    throw error
  }
}
