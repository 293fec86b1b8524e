import type { TenantId } from './principal.ts'

/** A task of a client, with the process that has it. `view` is what its client is shown of it, as JSON. */
type ListedTask = Readonly<{ id: string; identity: string; process: string; view: string }>

/** Which tasks there are at which process, where several share a store. */
export type TaskDirectory = Readonly<{
  /** Adds it, or replaces its view. Removes those that no process has noted for long. */
  put(tenant: TenantId, task: ListedTask, atMs: number): Promise<void>
  /** Notes that the process is there, with all its tasks. */
  noteProcess(tenant: TenantId, process: string, atMs: number): Promise<void>
  /** The process that has it, if that was there since then. */
  processOf(tenant: TenantId, id: string, sinceMs: number): Promise<string | undefined>
  /** Those of an identity at other processes that were there since then. */
  listElsewhere(
    tenant: TenantId,
    identity: string,
    process: string,
    sinceMs: number,
  ): Promise<readonly Pick<ListedTask, 'process' | 'view'>[]>
  remove(tenant: TenantId, id: string): Promise<void>
}>

/** The names under which the processes on a store list what they have. */
export type ProcessNames = Readonly<{
  own: string
  /** Whether the process has certainly ended; false if that cannot be known from here. */
  hasEnded(name: string): boolean
}>
