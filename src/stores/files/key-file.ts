import { link, rm } from 'node:fs/promises'
import { inWords } from '../../contract/system-fault.ts'
import type { Random } from '../../kernel/random.ts'

/**
 * Of several processes that create the file at once the first wins; the others read its content. `write` writes a draft beside
 * it.
 */
export async function createKeyFile(
  path: string,
  random: Random,
  write: (draft: string) => Promise<void>,
): Promise<void> {
  const draft = `${path}.${random.bytes(6).toString('hex')}`
  await write(draft)
  try {
    await link(draft, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw inWords(error, path)
  } finally {
    await rm(draft, { force: true })
  }
}
