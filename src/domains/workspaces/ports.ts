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

/** Where a fork comes from, as it was then: the source may be gone or have another name by now. */
type Lineage = Readonly<{ workspaceId: string; workspaceName: string; snapshotName: string }>

/**
 * `operation` names the server process that is changing the workspace at present; it is set before a back end acts, so
 * that a crash leaves a trace, and cleared with the outcome. `wanted` is the state that the owner asked for last.
 * `boundTo` names the server process whose call made the workspace for itself: when that process is gone, nobody waits for it.
 * `layers` are what the workspace's own changes lie on, oldest first. `currentSnapshotId` is what the present state descends from.
 */
export type Workspace = Readonly<{
  tenant: TenantId
  id: string
  name: string
  owner: string
  state: WorkspaceState
  wanted: 'running' | 'stopped'
  image: string
  vcpus: number
  memoryMb: number
  diskGb: number
  /** Empty until the back end has given one. */
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
 * Every method answers for one tenant only, except those that name a node: an address, a host port and a place on the
 * machine are shared by all tenants, and the reaper must know every row. Nothing of what they answer is shown to callers.
 */
export type WorkspaceStore = Readonly<{
  insertWorkspace(tx: WriteTx, tenant: TenantId, workspace: Workspace): Promise<void>
  /** Writes everything that can change, which is all but id, node, image, mounts, lineage and creation. */
  saveWorkspace(tx: WriteTx, tenant: TenantId, workspace: Workspace): Promise<void>
  /** With its snapshots. Answers whether it was there. */
  deleteWorkspace(tx: WriteTx, tenant: TenantId, id: string): Promise<boolean>
  findWorkspace(tx: ReadTx, tenant: TenantId, id: string): Promise<Workspace | undefined>
  findWorkspaceByName(tx: ReadTx, tenant: TenantId, name: string): Promise<Workspace | undefined>
  /** Oldest first. */
  listWorkspaces(tx: ReadTx, tenant: TenantId): Promise<Workspace[]>
  /** What the owner's workspaces were given, in whatever state they are; of archived ones only the disk counts. */
  usageOf(tx: ReadTx, tenant: TenantId, owner: string): Promise<Usage>
  insertSnapshot(tx: WriteTx, tenant: TenantId, snapshot: Snapshot): Promise<void>
  /** Writes parent, size and state. */
  saveSnapshot(tx: WriteTx, tenant: TenantId, snapshot: Snapshot): Promise<void>
  deleteSnapshot(tx: WriteTx, tenant: TenantId, id: string): Promise<boolean>
  findSnapshot(tx: ReadTx, tenant: TenantId, workspaceId: string, name: string): Promise<Snapshot | undefined>
  /** By sequence, those in the making included. */
  listSnapshots(tx: ReadTx, tenant: TenantId, workspaceId: string): Promise<Snapshot[]>
  /** Every layer that a row of the tenant names. */
  layersInUse(tx: ReadTx, tenant: TenantId): Promise<ReadonlySet<string>>
  /** Holds every other admission to the node back until the transaction ends. */
  lockNode(tx: WriteTx, node: string): Promise<void>
  /** Without those that are archived. */
  countOnNode(tx: ReadTx, node: string): Promise<number>
  hostPortsOnNode(tx: ReadTx, node: string): Promise<ReadonlySet<number>>
  workspacesOnNode(tx: ReadTx, node: string): Promise<Workspace[]>
  /** Each once, of the workspaces that run. */
  ownersOnNode(tx: ReadTx, node: string): Promise<readonly Readonly<{ tenant: TenantId; owner: string }>[]>
  layersOnNode(tx: ReadTx, node: string): Promise<ReadonlySet<string>>
}>

/**
 * The one folder of this machine through which files come and go. A path is relative to the tenant's part of it, or
 * absolute inside it; no link and no race leads out of it. Failures are AppErrors that name the path as it was given.
 */
export type TransferFolder = Readonly<{
  read(tenant: TenantId, path: string): Promise<FileContent>
  /**
   * Whole or not at all; makes missing folders. Leaves the host's disk some room, even if others fill it meanwhile, and
   * refuses what would be more than the owner or its tenant may have there.
   */
  write(
    owner: TransferOwner,
    path: string,
    content: FileContent,
    signal: AbortSignal,
  ): Promise<Readonly<{ bytes: number }>>
}>

/** Whose a file in the transfer folder is; null for the person at this machine, who has no bounds. */
export type TransferOwner = Readonly<{ tenant: TenantId; owner: string | null }>
