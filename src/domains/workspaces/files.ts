import { Readable } from 'node:stream'
import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { counted } from '../../kernel/counted.ts'
import { eachMatch } from '../../kernel/find-bytes.ts'
import { createKeyedMutex } from '../../kernel/keyed-mutex.ts'
import type { FileContent, WorkspaceFiles } from './backend.ts'
import { type Core, sharedWhileRunning } from './core.ts'
import { permissionText, wholeCharacters } from './file-rules.ts'
import { decodeStrictly } from './output-text.ts'
import type { Workspace } from './ports.ts'
import { fileMode, identityOf, invalid, LOCAL_OWNER, quoted } from './rules.ts'

type OfWorkspace = Readonly<{ workspace_id: string }>
type AtPath = OfWorkspace & Readonly<{ path: string }>
type FileWriteInput = AtPath & Readonly<{ content: string; mode?: string | undefined }>
type FileReadInput = AtPath & Readonly<{ offset?: number | undefined; limit?: number | undefined }>
type FileEditInput = AtPath & Readonly<{ old_string: string; new_string: string }>
type FileListInput = AtPath & Readonly<{ limit?: number | undefined }>
type FileTransferInput = OfWorkspace &
  Readonly<{ direction: 'upload' | 'download'; host_path: string; guest_path: string }>

/** The files of a running workspace. */
export function createFiles(core: Core, resolve: (call: Call, reference: string) => Promise<Workspace>) {
  // A file can have many paths, so the lock is per workspace.
  const { withLock } = createKeyedMutex()

  async function withFiles<T>(
    call: Call,
    reference: string,
    work: (files: WorkspaceFiles, workspace: Workspace) => Promise<T>,
  ): Promise<T> {
    const workspace = await resolve(call, reference)
    return await sharedWhileRunning(core, call, workspace, () => work(core.backend.files(workspace.id), workspace))
  }

  const writeFile = (call: Call, input: FileWriteInput) =>
    withFiles(call, input.workspace_id, async (files, { id }) => {
      const mode = input.mode === undefined ? {} : { mode: fileMode(input.mode) }
      const content = Buffer.from(input.content, 'utf8')
      const { bytes } = await withLock(id, () => files.write(input.path, content, mode))
      call.record({ kind: 'workspace_file_written', body: { workspace_id: id, path: input.path, bytes } })
      return { path: input.path, bytes_written: bytes, message: `Wrote ${counted(bytes, 'byte')} to ${input.path}.` }
    })

  const readFile = (call: Call, input: FileReadInput) =>
    withFiles(call, input.workspace_id, async (files) => {
      const offset = input.offset ?? 0
      const length = input.limit ?? limits.fileReadBytesDefault
      const { size, stream } = await files.read(input.path, { offset, length })
      const bytes = await gather(stream, length)
      const isEnd = offset + bytes.length >= size
      const whole = wholeCharacters(bytes, { startsInside: offset > 0, endsInside: !isEnd })
      const content = decodeStrictly(whole)
      if (content === undefined) throw notText(input.path)
      const start = offset + (whole.byteOffset - bytes.byteOffset)
      const end = start + whole.length
      // A part smaller than one character would never make progress.
      if (whole.length === 0 && !isEnd)
        throw invalid('limit', 'is smaller than the character at this offset; use 4 or more')
      return {
        path: input.path,
        content,
        size,
        offset: start,
        bytes: whole.length,
        truncated: end < size,
        next_offset: end < size ? end : null,
      }
    })

  /** A whole file, for other domains. */
  const readBytes = (call: Call, input: AtPath & Readonly<{ bytesMax: number }>) =>
    withFiles(call, input.workspace_id, async (files) => {
      const { bytesMax } = input
      const { size, stream } = await files.read(input.path)
      if (size > bytesMax) {
        stream.destroy()
        throw new AppError(
          'ERR_TOO_LARGE',
          `path: a file of ${size} bytes is larger than ${bytesMax}; read it in parts with file_read`,
          { field: 'path', size, limit: bytesMax },
        )
      }
      const bytes = await gather(stream, bytesMax)
      return { bytes, text: decodeStrictly(bytes) }
    })

  const editFile = (call: Call, input: FileEditInput) =>
    withFiles(call, input.workspace_id, async (files, { id }) => {
      if (input.old_string === '') throw invalid('old_string', 'give the text to replace')
      const { bytes, occurrences } = await withLock(id, () => replaceFirst(files, input))
      call.record({ kind: 'workspace_file_edited', body: { workspace_id: id, path: input.path, bytes } })
      const others = occurrences === 1 ? '' : ` ${occurrences - 1} more remain.`
      return {
        path: input.path,
        occurrences,
        replaced: 1,
        bytes_written: bytes,
        message: `Replaced the first occurrence in ${input.path}.${others}`,
      }
    })

  const listFiles = (call: Call, input: FileListInput) =>
    withFiles(call, input.workspace_id, async (files) => {
      const { entries, truncated } = await files.list(input.path, input.limit ?? LIST_DEFAULT)
      return {
        path: input.path,
        entries: entries
          .toSorted((left, right) => (left.name < right.name ? -1 : 1))
          .map(({ name, kind, size, mode, modifiedMs }) => ({
            name,
            kind,
            size,
            permissions: permissionText(mode),
            modified: Math.floor(modifiedMs / 1000),
          })),
        truncated,
      }
    })

  const transferFile = (call: Call, input: FileTransferInput) =>
    withFiles(call, input.workspace_id, async (files, { id }) => {
      const { tenant } = call.principal
      const { direction, host_path, guest_path } = input
      const { signal } = call
      const bytesMax = core.settings.transferBytesMax
      const move = async (): Promise<Readonly<{ bytes: number }>> => {
        const inFolder = `transfer:${core.transfers.nameOf(tenant, host_path)}` as const
        if (direction === 'download') {
          await call.writesTo?.(inFolder)
          const content = bounded(await files.read(guest_path, undefined, signal), 'guest_path', bytesMax)
          const owner = identityOf(call.principal)
          const whose = { tenant, owner: owner === LOCAL_OWNER ? null : owner }
          return await core.transfers.write(whose, host_path, content, signal)
        }
        await call.bringsInto?.(id, inFolder)
        const content = bounded(await core.transfers.read(tenant, host_path), 'host_path', bytesMax)
        return await files.write(guest_path, content.stream, { signal }).finally(() => content.stream.destroy())
      }
      const { bytes } = await move()
      call.record({
        kind: 'workspace_file_transferred',
        body: { workspace_id: id, direction, host_path, guest_path, bytes },
      })
      const way = direction === 'upload' ? `${host_path} to ${guest_path}` : `${guest_path} to ${host_path}`
      return { direction, host_path, guest_path, bytes, message: `Copied ${counted(bytes, 'byte')} from ${way}.` }
    })

  /** Excludes concurrent changes of files. */
  const withFileLock = <T>({ id }: Pick<Workspace, 'id'>, work: () => Promise<T>): Promise<T> => withLock(id, work)

  return { writeFile, readFile, readBytes, editFile, listFiles, transferFile, withFileLock }
}

/** Limits the size, also of a file that grows while it is read. */
function bounded({ size, stream }: FileContent, field: 'guest_path' | 'host_path', bytesMax: number): FileContent {
  const tooLarge = (found: number): AppError =>
    new AppError(
      'ERR_TOO_LARGE',
      `${field}: a file of ${found} bytes is larger than the ${bytesMax} that file_transfer copies; split it, or ask the operator for more (workspaces.max_transfer_mb)`,
      { field, size: found, limit: bytesMax },
    )
  if (size > bytesMax) {
    stream.destroy()
    throw tooLarge(size)
  }
  async function* counted(): AsyncGenerator<Uint8Array> {
    let read = 0
    for await (const chunk of stream as AsyncIterable<Uint8Array>) {
      read += chunk.length
      if (read > bytesMax) throw tooLarge(read)
      yield chunk
    }
  }
  // A stream that was never read does not destroy its source by itself.
  const outer = Readable.from(counted(), { objectMode: false }).once('close', () => stream.destroy())
  return { size, stream: outer }
}

const LIST_DEFAULT = 1_000

async function replaceFirst(files: WorkspaceFiles, input: FileEditInput) {
  const { size, stream } = await files.read(input.path)
  if (size > limits.fileEditBytesMax) {
    stream.destroy()
    throw new AppError('ERR_TOO_LARGE', `path: a file of ${size} bytes is too large to edit; use exec`, {
      field: 'path',
      size,
      rule: `at most ${limits.fileEditBytesMax} bytes`,
    })
  }
  const before = await gather(stream, limits.fileEditBytesMax)
  const oldBytes = Buffer.from(input.old_string, 'utf8')
  const { at, occurrences } = matchesOf(before, oldBytes)
  if (occurrences === 0) {
    throw invalid('old_string', `does not occur in ${quoted(input.path)}; read the file and copy the text exactly`)
  }
  const after = Buffer.concat([
    before.subarray(0, at),
    Buffer.from(input.new_string, 'utf8'),
    before.subarray(at + oldBytes.length),
  ])
  const { bytes } = await files.write(input.path, after)
  return { bytes, occurrences }
}

async function gather(stream: Readable, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    size += chunk.length
    if (size >= bytesMax) break
  }
  return Buffer.concat(chunks).subarray(0, bytesMax)
}

/** The first offset, and the number of occurrences that do not overlap. */
function matchesOf(bytes: Buffer, pattern: Buffer): Readonly<{ at: number; occurrences: number }> {
  let [first, occurrences, end] = [-1, 0, 0]
  eachMatch(bytes, pattern, (at) => {
    if (first < 0) first = at
    if (at >= end) {
      occurrences++
      end = at + pattern.length
    }
    return true
  })
  return { at: first, occurrences }
}

const notText = (path: string): AppError =>
  new AppError('ERR_NOT_TEXT', `${quoted(path)} is not UTF-8 text; fetch it with file_transfer`, { path })
