import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { WorkspaceFiles } from '../domains/workspaces/backend.ts'

/**
 * Which workspaces had files on their way when a supervisor was killed: what was written of those lies under a name of
 * ours beside its place, and nobody else removes it. One empty file for each, for as long as something is written.
 */
type CutWrites = Readonly<{
  /** The same files, with each write noted. */
  noting(id: string, files: WorkspaceFiles): WorkspaceFiles
  /** Before it starts: calls `clear` if a write was cut off and nobody has cleared up after it. */
  clearUp(id: string, clear: (id: string) => Promise<void>): Promise<void>
  forget(id: string): void
  initProcesses(): Promise<readonly string[]>
}>

export async function openCutWrites(folder: string): Promise<CutWrites> {
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
    noting: (id, files) => ({ ...files, write: (...args) => during(id, () => files.write(...args)) }),
    async clearUp(id, clear) {
      if (underWay.has(id) || !existsSync(join(folder, id))) return
      await clear(id)
      forget(id)
    },
    forget,
    initProcesses: () => readdir(folder),
  }
}
