import type { FSWatcher } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename } from 'node:path'

/** The part of `fs.watch` that is used. */
export type WatchFolder = (
  path: string,
  options: { persistent: false },
  listener: (event: string, file: string | null) => void,
) => FSWatcher

const GATHER_MS = 50
const BELOW_MAX = 1_000

type FolderWatch = Readonly<{
  /** Grows with every reported change: what was read at an older revision may be stale. */
  revision(): number
  /** False if some folder could not be watched: then only reading again tells. */
  complete(): boolean
  /** Between `begin` and `end` every folder of interest is named by `watch`; the others are released. */
  begin(): void
  /** Call it before reading the folder, so that no change falls between. Missing folders are ignored. */
  watch(path: string): Promise<void>
  /** Watches a folder below a named one while that one is named. Folders beyond a bound are not watched. */
  watchBelow(owner: string, path: string): Promise<void>
  end(): void
  /** Called once per burst of changes. */
  onChange(listener: () => void): () => void
  close(): void
}>

/**
 * Watches a changing set of folders without keeping the process alive. Hidden files do not count: editors leave them everywhere,
 * and no skill has any.
 */
export function createFolderWatch(watchFolder: WatchFolder): FolderWatch {
  const watched = new Map<string, { identity: string; watcher: FSWatcher; owner?: string }>()
  const signal = createChangeSignal()
  let named = new Set<string>()
  let failures = 0
  let closed = false

  const release = (path: string): void => {
    watched.get(path)?.watcher.close()
    watched.delete(path)
  }

  const open = (path: string): FSWatcher => {
    const watcher = watchFolder(path, { persistent: false }, (event, file) => {
      if (file?.startsWith('.') === true) return
      // The folder itself was moved or removed: this watch would follow the old one.
      if (event === 'rename' && file === basename(path)) release(path)
      signal.changed()
    })
    watcher.on('error', () => {
      release(path)
      signal.changed()
    })
    return watcher
  }

  const ensure = async (path: string, owner?: string): Promise<void> => {
    const found = await stat(path, { bigint: true }).catch(() => undefined)
    if (found === undefined || closed) return
    const identity = `${found.dev}:${found.ino}:${found.birthtimeNs}`
    if (watched.get(path)?.identity === identity) return
    release(path)
    try {
      watched.set(path, { identity, watcher: open(path), ...(owner === undefined ? {} : { owner }) })
    } catch {
      failures++
    }
  }

  return {
    revision: signal.revision,
    complete: () => failures === 0,
    begin() {
      named = new Set()
      failures = 0
    },
    async watch(path) {
      named.add(path)
      await ensure(path)
    },
    async watchBelow(owner, path) {
      if (watched.size < named.size + BELOW_MAX) await ensure(path, owner)
    },
    end() {
      for (const [path, { owner }] of watched) if (!named.has(owner ?? path)) release(path)
    },
    onChange: signal.onChange,
    close() {
      closed = true
      signal.close()
      for (const path of [...watched.keys()]) release(path)
    },
  }
}

/** Counts changes at once and notifies listeners a little later, once for a burst. */
function createChangeSignal() {
  const listeners = new Set<() => void>()
  let revision = 0
  let timer: NodeJS.Timeout | undefined

  return {
    revision: () => revision,
    changed(): void {
      revision++
      if (listeners.size === 0 || timer !== undefined) return
      timer = setTimeout(() => {
        timer = undefined
        for (const listener of [...listeners]) listener()
      }, GATHER_MS).unref()
    },
    onChange(listener: () => void): () => void {
      listeners.add(listener)
      return () => {
        listeners.delete(listener)
      }
    },
    close(): void {
      clearTimeout(timer)
      listeners.clear()
    },
  }
}
