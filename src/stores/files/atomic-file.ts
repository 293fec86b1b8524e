import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { inWords } from '../../contract/system-fault.ts'
import { fault } from '../../kernel/fault.ts'

/**
 * Replaces a file so that a reader, or the next start after a crash or a power cut, sees the old content or the new, never a
 * mixture. With `durable` the new content is on disk before this resolves.
 */
export async function writeFileAtomically(path: string, content: string, options: { durable: boolean }): Promise<void> {
  const directory = dirname(path)
  await mkdir(directory, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    throw inWords(error, directory)
  })
  const temporary = join(directory, `.${process.pid}-${randomBytes(6).toString('hex')}.tmp`)
  try {
    const file = await open(temporary, 'wx', 0o600)
    try {
      fault('file.write')
      await file.writeFile(content)
      await file.sync()
    } finally {
      await file.close()
    }
    fault('file.replace')
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {})
    throw inWords(error, path)
  }
  if (!options.durable) return
  const folder = await open(directory, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

const temporaryName = /^\.(\d+)-[0-9a-f]{12}\.tmp$/

/** Removes temporary files of processes that died while replacing a file. */
export async function removeAbandonedFiles(directory: string): Promise<void> {
  const names = await readdir(directory).catch(() => [])
  for (const name of names) {
    const pid = Number(temporaryName.exec(name)?.[1])
    if (pid > 0 && !isAlive(pid)) await rm(join(directory, name), { force: true })
  }
}

/** A process of another user is alive too, although it may not be signalled. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}
