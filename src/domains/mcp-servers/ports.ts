import type { TenantId } from '../../contract/principal.ts'
import type { Sharing } from '../../contract/sharing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { ServerConfig } from './rules.ts'
import type { TaskSupport } from './runtime.ts'

const serverTypes = ['local', 'remote', 'builtin'] as const
export type ServerType = (typeof serverTypes)[number]

/** A server that can be deployed: what it is, and how it is run or reached. Values that differ by deployment are not here. */
export type CatalogItem = Readonly<{
  tenant: TenantId
  id: string
  name: string
  /** What the names of its tools begin with. */
  slug: string
  sharing: Sharing
  description: string | null
  icon: string | null
  docsUrl: string | null
  repository: string | null
  version: string | null
  instructions: string | null
  labels: readonly Readonly<{ key: string; value: string }>[]
  environmentId: string | null
  serverType: ServerType
  config: ServerConfig
  createdAtMs: number
  updatedAtMs: number
}>

const deploymentStatuses = ['pending', 'discovering-tools', 'success', 'error'] as const
export type DeploymentStatus = (typeof deploymentStatuses)[number]

/** A catalogue item in use, with the values that it needs. One of the scope `team` has one team. */
export type Deployment = Readonly<{
  tenant: TenantId
  id: string
  catalogId: string
  sharing: Sharing
  status: DeploymentStatus
  /** Why it is not usable, in our words and perhaps those of the server. */
  error: string | null
  /** By the name of the field: plain values, and references to secrets. */
  values: Readonly<Record<string, string>>
  /** The secret that has the tokens which a person obtained for it; null where there are none. */
  grant: string | null
  createdAtMs: number
  updatedAtMs: number
}>

/** A tool as a server last listed it. What the server does not list any more stays as a row with `removedAtMs`. */
export type StoredTool = Readonly<{
  tenant: TenantId
  id: string
  catalogId: string
  upstreamName: string
  name: string
  aliases: readonly string[]
  title: string | null
  description: string
  inputSchema: Readonly<Record<string, unknown>>
  outputSchema: Readonly<Record<string, unknown>> | null
  annotations: Readonly<Record<string, unknown>> | null
  taskSupport: TaskSupport | null
  /** The version of the tenant's tools in which it was last changed. */
  listVersion: number
  removedAtMs: number | null
}>

export type NamedTool = Pick<StoredTool, 'id' | 'catalogId' | 'name' | 'aliases'>

/** Every method answers for one tenant only. */
export type McpServerStore = Readonly<{
  insertItem(tx: WriteTx, tenant: TenantId, item: CatalogItem): Promise<void>
  /** Writes all but id, author and creation. */
  saveItem(tx: WriteTx, tenant: TenantId, item: CatalogItem): Promise<void>
  /** With its deployments, its tools and their assignments. Answers whether it was there. */
  deleteItem(tx: WriteTx, tenant: TenantId, id: string): Promise<boolean>
  findItem(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<CatalogItem | undefined>
  /** By name. */
  listItems(tx: ReadTx | WriteTx, tenant: TenantId): Promise<CatalogItem[]>
  insertDeployment(tx: WriteTx, tenant: TenantId, deployment: Deployment): Promise<void>
  /** Writes status, error, values, grant and the time of the change. */
  saveDeployment(tx: WriteTx, tenant: TenantId, deployment: Deployment): Promise<void>
  deleteDeployment(tx: WriteTx, tenant: TenantId, id: string): Promise<boolean>
  findDeployment(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<Deployment | undefined>
  /** Oldest first; of one catalogue item, or of all. */
  listDeployments(tx: ReadTx | WriteTx, tenant: TenantId, catalogId?: string): Promise<Deployment[]>
  putTool(tx: WriteTx, tenant: TenantId, tool: StoredTool): Promise<void>
  /** With its assignments. */
  deleteTool(tx: WriteTx, tenant: TenantId, id: string): Promise<void>
  findTool(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<StoredTool | undefined>
  /** By name, removed ones included; of one catalogue item, or of all. */
  listTools(tx: ReadTx | WriteTx, tenant: TenantId, catalogId?: string): Promise<StoredTool[]>
  /** What every tool of the tenant is called, removed ones included; without the schemas, which take most of the time. */
  listToolNames(tx: ReadTx | WriteTx, tenant: TenantId): Promise<NamedTool[]>
  /** Counts the changes of what the tenant's callers may see of the tools. Answers the new number. */
  raiseVersion(tx: WriteTx, tenant: TenantId): Promise<number>
  /** Of every tenant that has one: for the start, before anybody asks. */
  versions(tx: ReadTx): Promise<ReadonlyMap<TenantId, number>>
}>

const requestStatuses = ['pending', 'approved', 'declined'] as const
export type RequestStatus = (typeof requestStatuses)[number]

/** A server that a requester would like to have in the registry, as described by the requester. */
export type WantedServer = Readonly<{
  name: string
  reason: string | null
  serverUrl: string | null
  repository: string | null
  catalogId: string | null
}>
type RequestNote = Readonly<{ author: string; text: string; atMs: number }>

export type InstallationRequest = Readonly<{
  tenant: TenantId
  id: string
  /** The identity of the requester. */
  author: string
  wanted: WantedServer
  status: RequestStatus
  notes: readonly RequestNote[]
  decidedBy: string | null
  decidedAtMs: number | null
  createdAtMs: number
}>

/** Every method answers for one tenant only. */
export type InstallationRequestStore = Readonly<{
  insertRequest(tx: WriteTx, tenant: TenantId, request: InstallationRequest): Promise<void>
  /** Writes status, notes and decision. */
  saveRequest(tx: WriteTx, tenant: TenantId, request: InstallationRequest): Promise<void>
  findRequest(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<InstallationRequest | undefined>
  /** Newest first; of one author, or of all. */
  listRequests(tx: ReadTx, tenant: TenantId, author: string | undefined, limit: number): Promise<InstallationRequest[]>
  countRequests(tx: ReadTx | WriteTx, tenant: TenantId): Promise<number>
}>
