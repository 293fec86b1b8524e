import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { WorkspaceFiles } from '../domains/workspaces/backend.ts'

/**
 * Tracks workspaces that have file writes under way. If the supervisor is killed during a write, the temporary file stays in the
 * workspace, and nothing else removes it. An empty marker file exists for each workspace that has a write under way.
 */
type InterruptedWrites = Readonly<{
  /** Wraps `files` so that a marker exists during each write. */
  tracking(id: string, files: WorkspaceFiles): WorkspaceFiles
  /** Called before a workspace starts. Calls `clear` if a write of this workspace was interrupted and has not been cleaned up. */
  cleanUp(id: string, clear: (id: string) => Promise<void>): Promise<void>
  forget(id: string): void
  workspaceIds(): Promise<readonly string[]>
}>

export async function openInterruptedWrites(folder: string): Promise<InterruptedWrites> {
  await mkdir(folder, { recursive: true })
  const underWay = new Map<string, number>()
  const forget = (id: string): void => rmSync(join(folder, id), { force: true })
  async function during<T>(id: string, write: () => Promise<T>): Promise<T> {
    const before = underWay.get(id) ?? 0
    if (before === 0) writeFileSync(join(folder, id), '')
    underWay.set(id, before + 1)
    try {
      return await write()
    } finally {
      const left = underWay.get(id)! - 1
      if (left > 0) underWay.set(id, left)
      else {
        underWay.delete(id)
        forget(id)
      }
    }
  }
  return {
    tracking: (id, files) => ({ ...files, write: (...args) => during(id, () => files.write(...args)) }),
    async cleanUp(id, clear) {
      if (underWay.has(id) || !existsSync(join(folder, id))) return
      await clear(id)
      forget(id)
    },
    forget,
    workspaceIds: () => readdir(folder),
  }
}
