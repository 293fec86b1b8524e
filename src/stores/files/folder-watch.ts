import type { FSWatcher } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename } from 'node:path'

/** What is used of `fs.watch`. */
export type WatchFolder = (
  path: string,
  options: { persistent: false },
  listener: (event: string, file: string | null) => void,
) => FSWatcher

const GATHER_MS = 50

export type FolderWatch = Readonly<{
  /** Grows with every reported change: what was read at an older revision may be stale. */
  revision(): number
  /** False when some folder could not be watched: then only reading again tells. */
  complete(): boolean
  /** Between `begin` and `end` every folder of interest is named by `watch`; the others are let go. */
  begin(): void
  /** Call it before reading the folder, so that no change falls between. Missing folders are ignored. */
  watch(path: string): Promise<void>
  end(): void
  /** Called once per burst of changes. */
  onChange(listener: () => void): () => void
  close(): void
}>

/** Watches a changing set of folders without keeping the process alive. */
export function createFolderWatch(watchFolder: WatchFolder): FolderWatch {
  const watched = new Map<string, { identity: string; watcher: FSWatcher }>()
  const listeners = new Set<() => void>()
  let named = new Set<string>()
  let revision = 0
  let failures = 0
  let timer: NodeJS.Timeout | undefined
  let closed = false

  const release = (path: string): void => {
    watched.get(path)?.watcher.close()
    watched.delete(path)
  }

  const changed = (): void => {
    revision++
    if (listeners.size === 0 || timer !== undefined) return
    timer = setTimeout(() => {
      timer = undefined
      for (const listener of [...listeners]) listener()
    }, GATHER_MS).unref()
  }

  const open = (path: string, identity: string): void => {
    const watcher = watchFolder(path, { persistent: false }, (event, file) => {
      // The folder itself was moved or removed: this watch would follow the old one.
      if (event === 'rename' && file === basename(path)) release(path)
      changed()
    })
    watcher.on('error', () => {
      release(path)
      changed()
    })
    watched.set(path, { identity, watcher })
  }

  return {
    revision: () => revision,
    complete: () => failures === 0,
    begin() {
      named = new Set()
      failures = 0
    },
    async watch(path) {
      if (closed) return
      named.add(path)
      const found = await stat(path, { bigint: true }).catch(() => undefined)
      if (found === undefined || closed) return
      const identity = `${found.dev}:${found.ino}:${found.birthtimeNs}`
      if (watched.get(path)?.identity === identity) return
      release(path)
      try {
        open(path, identity)
      } catch {
        failures++
      }
    },
    end() {
      for (const path of watched.keys()) if (!named.has(path)) release(path)
    },
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    close() {
      closed = true
      clearTimeout(timer)
      for (const path of [...watched.keys()]) release(path)
      listeners.clear()
    },
  }
}
