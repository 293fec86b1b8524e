import { type Stats, statSync } from 'node:fs'

/**
 * Detects that the state directory was removed, or replaced by another. A directory that was moved is still in use, because the
 * supervisor holds it open. `path` is its path on the host; where that path is hidden from the supervisor, launch.sh watches it
 * instead.
 */
export function watchStateFolder(root: string, path: string): Readonly<{ isLost(): boolean }> {
  return {
    isLost() {
      const own = statSync(root)
      if (own.nlink === 0) return true
      const named = tryStat(path)
      return named !== undefined && (named.ino !== own.ino || named.dev !== own.dev)
    },
  }
}

function tryStat(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}
