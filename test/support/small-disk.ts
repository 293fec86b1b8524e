import { execFileSync } from 'node:child_process'
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export type SmallDisk = Readonly<{
  /** An empty folder on it. */
  folder: string
  freeBytes(): number
  /** Takes all room but so much; answers how to give it back. */
  fillBut(bytes: number): () => void
  /** Takes what is left, to the last block. */
  fillUp(): void
  remove(): void
}>

/** A disk of its own, of the size given, in a file. Needs root. */
export function makeSmallDisk(megabytes: number): SmallDisk {
  const directory = mkdtempSync(join(tmpdir(), 'castellan-disk-'))
  const image = join(directory, 'image')
  const mounted = join(directory, 'mounted')
  mkdirSync(mounted)
  execFileSync('truncate', ['-s', `${megabytes}M`, image])
  execFileSync('mkfs.ext4', ['-q', '-m', '0', image])
  execFileSync('mount', ['-o', 'loop', image, mounted])
  const folder = join(mounted, 'data')
  mkdirSync(folder, { mode: 0o700 })
  const freeBytes = (): number => {
    const { bavail, bsize } = statfsSync(mounted)
    return bavail * bsize
  }
  return {
    folder,
    freeBytes,
    fillBut(bytes) {
      const ballast = join(mounted, 'ballast')
      execFileSync('fallocate', ['-l', String(freeBytes() - bytes), ballast])
      return () => rmSync(ballast)
    },
    fillUp() {
      const rest = openSync(join(mounted, 'rest'), 'w')
      try {
        for (;;) writeSync(rest, Buffer.alloc(1024))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      } finally {
        closeSync(rest)
      }
    },
    remove() {
      execFileSync('umount', ['-l', mounted])
      rmSync(directory, { recursive: true })
    },
  }
}
