import type { Readable } from 'node:stream'
import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import { requireWorkspacePath, WORKSPACE_FOLDER } from '../../contract/workspace-path.ts'
import { coversPath } from '../../kernel/path-pattern.ts'
import type { FileKind, WorkspaceFiles } from '../workspaces/backend.ts'
import { decodeStrictly } from '../workspaces/output-text.ts'
import type { PersonalWorkspaces } from '../workspaces/personal.ts'
import type { Workspace } from '../workspaces/ports.ts'
import type { WorkspaceService } from '../workspaces/service.ts'
import { applyEdits, type Edit } from './apply-edits.ts'
import { naming, tooLarge } from './file-errors.ts'
import { type Found, glob, grep, type SearchRequest } from './search.ts'

type FileServiceDeps = Readonly<{
  workspaces: Pick<WorkspaceService, 'withFiles' | 'runRaw' | 'withFileLock'>
  personalWorkspaces: PersonalWorkspaces
  /** The boundaries of a tool's paths by the caller's contexts; undefined without any. */
  boundariesOf(principal: Principal, tool: string): readonly (readonly string[])[]
}>

type AtPath = Readonly<{ path: string }>
type Within = readonly (readonly string[])[]
export type FileService = ReturnType<typeof createFileService>

/**
 * The operations of fs.* on the files of the caller's workspace. Every path is checked against its boundary where it really
 * leads.
 */
export function createFileService({ workspaces, personalWorkspaces, boundariesOf }: FileServiceDeps) {
  function boundaryOf(call: Call, tool: string): Within {
    const supplied = boundariesOf(call.principal, tool)
    return supplied.length === 0 ? [[WORKSPACE_FOLDER]] : supplied
  }

  async function at<T>(
    call: Call,
    tool: string,
    input: AtPath,
    work: (path: string, files: WorkspaceFiles, workspace: Workspace, within: Within) => Promise<T>,
  ): Promise<T> {
    const path = requireWorkspacePath('path', input.path)
    const workspace = await personalWorkspaces.of(call)
    const within = boundaryOf(call, tool)
    return await naming(() =>
      workspaces.withFiles(call, workspace, within, (files) => work(path, files, workspace, within)),
    )
  }

  const read = (call: Call, input: AtPath) =>
    at(call, 'fs.read', input, async (path, files) => {
      const bytes = await wholeFile(files, path)
      const content = decodeStrictly(bytes)
      if (content === undefined) {
        throw new AppError('ERR_NOT_TEXT', `'path' is not UTF-8 text. Inspect it with cmd.run.`, { path })
      }
      return { status: 'success' as const, path, content, size_bytes: bytes.length }
    })

  const write = (call: Call, input: AtPath & Readonly<{ content: string }>) =>
    at(call, 'fs.write', input, async (path, files, workspace) => {
      const content = Buffer.from(input.content, 'utf8')
      const { bytes } = await workspaces.withFileLock(workspace, () => files.write(path, content))
      call.record({ kind: 'workspace_file_written', body: { workspace_id: workspace.id, path, bytes } })
      return { status: 'success' as const, path, bytes_written: bytes }
    })

  const list = (call: Call, input: AtPath) =>
    at(call, 'fs.list', input, async (path, files) => {
      const { entries, truncated } = await files.list(path, limits.fileListEntriesMax)
      if (truncated) call.warn(`Only the first ${limits.fileListEntriesMax} entries are listed.`)
      const displayed: { name: string; file_type: 'file' | 'directory' }[] = []
      for (const { name, kind } of entries) {
        const isFolder = kind === 'dir' || (kind === 'symlink' && (await leadsToFolder(files, `${path}/${name}`)))
        displayed.push({ name, file_type: isFolder ? 'directory' : 'file' })
      }
      return { status: 'success' as const, path, entries: displayed, truncated }
    })

  const createDirectory = (call: Call, input: AtPath, tool: 'fs.create_dir' | 'fs.create.dir') =>
    at(call, tool, input, async (path, files, { id }) => {
      await files.makeDirectory(path)
      call.record({ kind: 'workspace_directory_made', body: { workspace_id: id, path } })
      return { status: 'success' as const, path }
    })

  const remove = (call: Call, input: AtPath & Readonly<{ recursive: boolean }>) =>
    at(call, 'fs.delete', input, async (path, files, workspace) => {
      if (path === WORKSPACE_FOLDER) {
        throw new AppError('ERR_INVALID_INPUT', `'path' is ${WORKSPACE_FOLDER} itself. Delete its contents instead.`, {
          field: 'path',
        })
      }
      const { recursive } = input
      await workspaces.withFileLock(workspace, () => files.remove(path, { recursive }))
      call.record({ kind: 'workspace_file_deleted', body: { workspace_id: workspace.id, path, recursive } })
      return { status: 'success' as const, path }
    })

  async function change(
    call: Call,
    tool: string,
    input: AtPath,
    edits: readonly Edit[],
    fieldOf: (n: number) => string,
  ) {
    return await at(call, tool, input, (path, files, workspace) =>
      workspaces.withFileLock(workspace, async () => {
        const after = await applyEdits(await wholeFile(files, path), edits, fieldOf)
        const { bytes } = await files.write(path, after)
        call.record({ kind: 'workspace_file_edited', body: { workspace_id: workspace.id, path, bytes } })
        return path
      }),
    )
  }

  async function edit(call: Call, input: AtPath & Edit) {
    const path = await change(call, 'fs.edit', input, [input], () => 'target_content')
    return { status: 'success' as const, path, message: 'File edited successfully' }
  }

  async function multiEdit(call: Call, input: AtPath & Readonly<{ edits: readonly Edit[] }>) {
    const path = await change(call, 'fs.multi_edit', input, input.edits, (index) => `edits.${index}.target_content`)
    return { status: 'success' as const, path, applied: input.edits.length }
  }

  const search =
    (tool: 'fs.grep' | 'fs.glob', search: (request: SearchRequest) => Promise<Found>) =>
    (call: Call, input: AtPath & Readonly<{ pattern: string }>) =>
      at(call, tool, input, async (path, files, workspace, within) => {
        // The target of the path is judged here; results below it are judged by name.
        requireSearchable(tool, path, (await files.stat(path)).kind)
        const isAllowed = (name: string) => within.every((list) => list.some((pattern) => coversPath(pattern, name)))
        const { pattern } = input
        const { signal } = call
        const found = await search({ run: workspaces.runRaw, at: workspace, pattern, path, isAllowed, signal })
        if (found.truncated)
          call.warn('There are more results. Search a smaller folder, or use a more specific pattern.')
        return { result: found.lines.join('\n'), count: found.lines.length, truncated: found.truncated }
      })

  return {
    read,
    write,
    list,
    createDirectory,
    remove,
    edit,
    multiEdit,
    grep: search('fs.grep', grep),
    glob: search('fs.glob', glob),
  }
}

/** A search on a pipe would wait for a writer. */
function requireSearchable(tool: 'fs.grep' | 'fs.glob', path: string, kind: FileKind): void {
  if (kind === 'dir' || (kind === 'file' && tool === 'fs.grep')) return
  if (tool === 'fs.glob') {
    throw new AppError('ERR_NOT_A_DIRECTORY', "'path' is not a folder. Give the folder to search.", {
      field: 'path',
      path,
    })
  }
  throw new AppError(
    'ERR_FILE_REFUSED',
    "'path' is a device, a pipe or a socket; only files and folders are searched.",
    {
      field: 'path',
      path,
    },
  )
}

async function wholeFile(files: WorkspaceFiles, path: string): Promise<Buffer> {
  const { size, stream } = await files.read(path)
  if (size > limits.agentFileBytesMax) {
    stream.destroy()
    throw tooLarge('path', size, limits.agentFileBytesMax)
  }
  const chunks: Buffer[] = []
  for await (const chunk of stream as Readable & AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** A link that leads nowhere, or outside, is listed as an entry that is not a folder. */
async function leadsToFolder(files: WorkspaceFiles, path: string): Promise<boolean> {
  try {
    return (await files.stat(path)).kind === 'dir'
  } catch (error) {
    if (error instanceof AppError) return false
    throw error
  }
}
