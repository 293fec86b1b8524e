import type { TenantId } from '../../contract/principal.ts'

/** A path below the root of a vault that `rules.ts` has judged: names joined by `/`, none of them `..` or empty. */
export type VaultPath = string & { readonly __brand: 'VaultPath' }

export type VaultEntry = Readonly<{ path: string; isFolder: boolean; sizeBytes: number; modifiedMs: number }>

/** A file as a change finds it. `read` refuses one that is larger than a note may be. */
export type VaultCurrent = Readonly<{ sizeBytes: number; read(): Promise<Uint8Array> }>

/** What a change wants: new content, or to leave the file as it is, and what it tells its maker either way. */
type VaultChange<T> = Readonly<{ content: Uint8Array | undefined; answer: T }>

export type VaultMove = 'moved' | 'replaced' | 'missing' | 'exists'

export type VaultWalk = Readonly<{
  /** Whether a folder is listed, and entered. What is not listed is not entered either. */
  isListed(path: string, name: string): boolean
  isEntered(path: string): boolean
}>

/**
 * The files of the vaults. Each tenant has a folder of its own, which other programs may use at the same time. A symbolic
 * link below its root is refused wherever it stands in a path, and no race can lead out of the root.
 *
 * Whatever changes a file holds its lock: among all processes on the same folder, one change at a time. A reader sees the
 * content before a change or after it, never a mixture, also after a power cut; what was answered is on disk.
 */
export type VaultStore = Readonly<{
  /** Undefined when there is no such file. */
  read(tenant: TenantId, path: VaultPath): Promise<Uint8Array | undefined>
  /**
   * Runs `change` with the file's lock and puts its content in place, with missing folders. `change` runs again, on what
   * is there then, when another program that knows no locks changed the file meanwhile.
   */
  update<T>(
    tenant: TenantId,
    path: VaultPath,
    change: (current: VaultCurrent | undefined) => Promise<VaultChange<T>>,
    signal: AbortSignal,
  ): Promise<T>
  /** False when there is no such file. */
  remove(tenant: TenantId, path: VaultPath, signal: AbortSignal): Promise<boolean>
  /** One that has something in it, or is none, stays as it is. */
  removeEmptyFolder(tenant: TenantId, path: VaultPath): Promise<void>
  move(tenant: TenantId, from: VaultPath, to: VaultPath, overwrite: boolean, signal: AbortSignal): Promise<VaultMove>
  /** Files and folders below a folder (`''` is the root), in the order of their names; no links, no devices. */
  walk(tenant: TenantId, folder: VaultPath | '', walk: VaultWalk): AsyncGenerator<VaultEntry, void, undefined>
}>
