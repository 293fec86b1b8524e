import { constants } from 'node:fs'
import { type FileHandle, open, rename, unlink } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { AppError } from '../../contract/app-error.ts'
import type { Random } from '../../kernel/random.ts'
import { fileError, unless } from './file-errors.ts'
import { entryPath, type InodeHandle } from './inode-handles.ts'
import type { ByteString, RequestedPath } from './requested-path.ts'

export type Owner = Readonly<{ uid: number; gid: number }>

const NEW_FILE_MODE = 0o644
/** Without set-user-ID, set-group-ID and sticky: new content does not inherit them. */
const RETAINED_MODE_BITS = 0o777

type ContentPlan = Readonly<{
  random: Random
  owner: Owner | undefined
  directory: InodeHandle
  name: ByteString
  /** The file that the content replaces. */
  replaced: InodeHandle | undefined
  mode: number | undefined
  requested: RequestedPath
}>

/**
 * Writes the content under an unpredictable temporary name and renames it, so that the name always leads to the old or to the new
 * content. Returns how many bytes were written.
 */
export async function writeContent(plan: ContentPlan, content: Readable | Uint8Array): Promise<number> {
  const { directory, name, random, requested } = plan
  const temporaryPath = entryPath(directory, `.castellan-${random.bytes(16).toString('hex')}.tmp`)
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
  const file = await open(temporaryPath, flags, 0o600)
  try {
    let byteCount: number
    try {
      byteCount = await copyContent(file, content, requested)
      await giveAway(file, plan)
      await file.chmod(plan.mode ?? retainedMode(plan.replaced))
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporaryPath, entryPath(directory, name))
    return byteCount
  } catch (error) {
    await unlink(temporaryPath).catch(() => {})
    throw error
  }
}

const retainedMode = (replaced: InodeHandle | undefined): number =>
  replaced === undefined ? NEW_FILE_MODE : Number(replaced.info.mode) & RETAINED_MODE_BITS

/** The new file gets the owner of the old one. Ids that are not mapped here cannot be set, which is no error. */
async function giveAway(file: FileHandle, { owner, replaced }: ContentPlan): Promise<void> {
  if (owner !== undefined) await file.chown(owner.uid, owner.gid)
  if (replaced === undefined) return
  const [uid, gid] = [Number(replaced.info.uid), Number(replaced.info.gid)]
  const now = await file.stat()
  if (now.uid !== uid || now.gid !== gid) await unless(['EPERM', 'EINVAL'], file.chown(uid, gid))
}

async function copyContent(
  file: FileHandle,
  content: Readable | Uint8Array,
  requested: RequestedPath,
): Promise<number> {
  if (content instanceof Uint8Array) {
    await writeAll(file, content)
    return content.byteLength
  }
  let byteCount = 0
  for await (const chunk of chunksOf(content, requested)) {
    await writeAll(file, chunk)
    byteCount += chunk.byteLength
  }
  return byteCount
}

/** Distinguishes a failure of the source from one of the disk. The source is destroyed when its consumer stops early. */
async function* chunksOf(content: Readable, requested: RequestedPath): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of content) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk
  } catch (error) {
    if (error instanceof AppError) throw error
    throw fileError('ERR_CANCELLED', requested, 'was not written: its content ended before it was complete', error)
  }
}

async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let written = 0; written < bytes.byteLength; ) {
    written += (await file.write(bytes, written, bytes.byteLength - written)).bytesWritten
  }
}
