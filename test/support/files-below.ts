import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Larger ones are disks of workspaces, where a command may write what it likes. */
const FILE_BYTES_MAX = 2 ** 28

/** Every file below a folder that is no disk of workspaces. Links are not followed: they may lead to what other tests have. */
export function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return filesBelow(path)
    return entry.isFile() && statSync(path).size < FILE_BYTES_MAX ? [path] : []
  })
}
