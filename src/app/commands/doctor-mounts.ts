import { realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Config } from '../config.ts'
import { type Finding, note } from './findings.ts'

/** The folders of the host that the supervisor does not show to workspaces as the configuration wants; see folders.pl. */
export function mountFindings(mounts: Config['workspaces']['mounts']): Finding[] {
  return mounts.flatMap(({ mode, path }) => {
    const problem = problemOf(path, mode === 'rw')
    return problem === undefined ? [] : [note('mounts', `${path} is ${problem}`)]
  })
}

function problemOf(path: string, isWritable: boolean): string | undefined {
  try {
    if (!statSync(path).isDirectory()) return 'not shown, because it is not a folder'
    if (!isWritable || isClosed(realpathSync(path))) return undefined
    return 'not shown for writing, because other users of this machine may enter it; run chmod o-x on it'
  } catch (error) {
    return `not shown, because it cannot be looked at (${(error as NodeJS.ErrnoException).code})`
  }
}

/** Whether the folder or one above it denies access to others. */
function isClosed(path: string): boolean {
  if ((statSync(path).mode & 0o001) === 0) return true
  return path !== dirname(path) && isClosed(dirname(path))
}
