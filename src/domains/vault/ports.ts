import type { TenantId } from '../../contract/principal.ts'

/** A path below the root of a vault, checked by `rules.ts`: names joined by `/`, none of them `..` or empty. */
export type VaultPath = string & { readonly __brand: 'VaultPath' }

export type VaultEntry = Readonly<{ path: string; isFolder: boolean; sizeBytes: number; modifiedMs: number }>

/** A file as a change finds it. `read` refuses one that is larger than a note may be. */
export type VaultCurrent = Readonly<{ sizeBytes: number; read(): Promise<Uint8Array> }>

/** The result of a change: new content, or undefined to leave the file, and a value for the caller. */
type VaultChange<T> = Readonly<{ content: Uint8Array | undefined; answer: T }>

export type VaultMove = 'moved' | 'replaced' | 'missing' | 'exists'

export type VaultWalk = Readonly<{
  /** Whether a folder is listed, and entered. An unlisted folder is not entered. */
  isListed(path: string, name: string): boolean
  isEntered(path: string): boolean
}>

/**
 * The files of the vaults. Each tenant has its own folder, which other programs may use at the same time. A symbolic link below
 * its root is refused anywhere in a path, and no race can lead out of the root. Every change holds the file's lock: one change at
 * a time among all processes on the same folder. A reader sees the content before or after a change, never a mixture, even after
 * a power cut; an answered change is on disk.
 */
export type VaultStore = Readonly<{
  /** Undefined when there is no such file. */
  read(tenant: TenantId, path: VaultPath): Promise<Uint8Array | undefined>
  /**
   * Runs `change` with the file's lock and writes its content, creating missing folders. `change` runs again on the new content
   * if a program without locks changed the file meanwhile.
   */
  update<T>(
    tenant: TenantId,
    path: VaultPath,
    change: (current: VaultCurrent | undefined) => Promise<VaultChange<T>>,
    signal: AbortSignal,
  ): Promise<T>
  /** False when there is no such file. */
  remove(tenant: TenantId, path: VaultPath, signal: AbortSignal): Promise<boolean>
  /** A folder with entries, or anything else, stays. */
  removeEmptyFolder(tenant: TenantId, path: VaultPath): Promise<void>
  move(tenant: TenantId, from: VaultPath, to: VaultPath, overwrite: boolean, signal: AbortSignal): Promise<VaultMove>
  /** Files and folders below a folder (`''` is the root), in the order of their names; no links, no devices. */
  walk(tenant: TenantId, folder: VaultPath | '', walk: VaultWalk): AsyncGenerator<VaultEntry, void, undefined>
}>
