import { type Stats, statSync } from 'node:fs'

/**
 * Whether the folder that we work on is still the one in use: not after it was removed, nor when another lies in its place. One
 * that was moved goes on, since it is reached where it is now. `path` is its name on the host; where that is hidden from us, launch.sh looks.
 */
export function createOwnFolder(root: string, path: string): Readonly<{ isLost(): boolean }> {
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
