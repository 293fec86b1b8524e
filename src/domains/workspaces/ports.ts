import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { FileContent, HostMount, PortForward } from './backend.ts'
import type { SnapshotState, Usage, WorkspaceState } from './rules.ts'

export type NetworkPolicy = Readonly<{
  allowInternet: boolean
  allowInterVm: boolean
  allowedPorts: readonly number[]
  allowedDomains: readonly string[]
}>

/** The source of a fork at that time. It may have been removed or renamed since. */
type Lineage = Readonly<{ workspaceId: string; workspaceName: string; snapshotName: string }>

/**
 * `operation` names the server process that is changing the workspace at present; it is set before a back end acts, so that a
 * crash leaves a trace, and cleared with the outcome. `desiredState` is the state that the owner requested last. `boundTo` names
 * the server process whose call created the workspace for itself: when that process ends, the workspace is abandoned. `layers`
 * are the base of the workspace's own changes, oldest first. `currentSnapshotId` is the ancestor of the present state.
 */
export type Workspace = Readonly<{
  tenant: TenantId
  id: string
  name: string
  owner: string
  state: WorkspaceState
  desiredState: 'running' | 'stopped'
  image: string
  vcpus: number
  memoryMb: number
  diskGb: number
  /** Empty until the back end has assigned one. */
  ip: string
  network: NetworkPolicy
  forwards: readonly PortForward[]
  env: Readonly<Record<string, string>>
  layers: readonly string[]
  mounts: readonly HostMount[]
  forkedFrom: Lineage | null
  currentSnapshotId: string | null
  node: string
  operation: string | null
  team: string | null
  boundTo: string | null
  createdAtMs: number
  createdBy: string
}>

/** `layers` are the workspace's at that moment and, last, its own. `sequence` counts the snapshots of a workspace. */
export type Snapshot = Readonly<{
  tenant: TenantId
  id: string
  workspaceId: string
  sequence: number
  name: string
  layerId: string
  layers: readonly string[]
  parentId: string | null
  bytes: number
  hasMemory: boolean
  state: SnapshotState
  createdAtMs: number
  createdBy: string
}>

/**
 * Every method answers for one tenant only, except those that name a node: addresses, host ports and capacity of the machine are
 * shared by all tenants, and recovery must know every row. Their results are never shown to callers.
 */
export type WorkspaceStore = Readonly<{
  insertWorkspace(tx: WriteTx, tenant: TenantId, workspace: Workspace): Promise<void>
  /** Writes all mutable columns: all but id, node, image, mounts, lineage and creation. */
  saveWorkspace(tx: WriteTx, tenant: TenantId, workspace: Workspace): Promise<void>
  /** Deletes its snapshots too. Returns whether it existed. */
  deleteWorkspace(tx: WriteTx, tenant: TenantId, id: string): Promise<boolean>
  findWorkspace(tx: ReadTx, tenant: TenantId, id: string): Promise<Workspace | undefined>
  findWorkspaceByName(tx: ReadTx, tenant: TenantId, name: string): Promise<Workspace | undefined>
  /** Oldest first. */
  listWorkspaces(tx: ReadTx, tenant: TenantId): Promise<Workspace[]>
  /** The resources of the owner's workspaces, in any state; of archived ones only the disk counts. */
  usageOf(tx: ReadTx, tenant: TenantId, owner: string): Promise<Usage>
  insertSnapshot(tx: WriteTx, tenant: TenantId, snapshot: Snapshot): Promise<void>
  /** Writes parent, size and state. */
  saveSnapshot(tx: WriteTx, tenant: TenantId, snapshot: Snapshot): Promise<void>
  deleteSnapshot(tx: WriteTx, tenant: TenantId, id: string): Promise<boolean>
  findSnapshot(tx: ReadTx, tenant: TenantId, workspaceId: string, name: string): Promise<Snapshot | undefined>
  /** By sequence, unfinished ones included. */
  listSnapshots(tx: ReadTx, tenant: TenantId, workspaceId: string): Promise<Snapshot[]>
  /** Every layer that a row of the tenant names. */
  layersInUse(tx: ReadTx, tenant: TenantId): Promise<ReadonlySet<string>>
  /** Blocks every other admission to the node until the transaction ends. */
  lockNode(tx: WriteTx, node: string): Promise<void>
  /** Without archives. */
  countOnNode(tx: ReadTx, node: string): Promise<number>
  hostPortsOnNode(tx: ReadTx, node: string): Promise<ReadonlySet<number>>
  workspacesOnNode(tx: ReadTx, node: string): Promise<Workspace[]>
  /** Distinct owners of running workspaces. */
  ownersOnNode(tx: ReadTx, node: string): Promise<readonly Readonly<{ tenant: TenantId; owner: string }>[]>
  layersOnNode(tx: ReadTx, node: string): Promise<ReadonlySet<string>>
}>

/**
 * The one folder of this machine for file transfers. A path is relative to the tenant's part of it, or absolute inside it; no
 * link and no race leads out of it. Failures are AppErrors that name the path as given.
 */
export type TransferFolder = Readonly<{
  read(tenant: TenantId, path: string): Promise<FileContent>
  /** The path from the tenant's part of the folder on, the same however it was written. */
  nameOf(tenant: TenantId, path: string): string
  /**
   * Atomic; creates missing folders. Leaves free space on the host's disk, even if others fill it meanwhile, and enforces the
   * quotas of the owner and its tenant.
   */
  write(
    owner: TransferOwner,
    path: string,
    content: FileContent,
    signal: AbortSignal,
  ): Promise<Readonly<{ bytes: number }>>
}>

/** The owner of a file in the transfer folder; null for the local owner, who has no quota. */
export type TransferOwner = Readonly<{ tenant: TenantId; owner: string | null }>
