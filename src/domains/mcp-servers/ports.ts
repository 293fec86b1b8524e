import type { AfterNewest, PagedRows } from '../../contract/list-page.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { Sharing } from '../../contract/sharing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { ServerConfig } from './rules.ts'
import type { TaskSupport } from './runtime.ts'

const serverTypes = ['local', 'remote', 'builtin'] as const
export type ServerType = (typeof serverTypes)[number]

/** A server that can be deployed: what it is, and how it is run or reached, without the values of deployments. */
export type CatalogItem = Readonly<{
  tenant: TenantId
  id: string
  name: string
  /** The prefix of its tools' names. */
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

/** A catalogue item in use, with its values. One of the scope `team` has one team. */
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
  /** The secret with the tokens that a person obtained for it; null without any. */
  grant: string | null
  /** The list that it gave when it was last connected; null before. Written by `setToolList` alone. */
  toolList: string | null
  createdAtMs: number
  updatedAtMs: number
}>

/**
 * What a tool is called here, whatever its deployments say of it. A tool that none of them lists stays as a row with
 * `removedAtMs`.
 */
export type StoredTool = Readonly<{
  tenant: TenantId
  id: string
  catalogId: string
  upstreamName: string
  name: string
  aliases: readonly string[]
  /** The version of the tenant's tools in which it was last changed. */
  listVersion: number
  removedAtMs: number | null
}>

export type NamedTool = Pick<StoredTool, 'id' | 'catalogId' | 'name' | 'aliases'>

/** What a server says of a tool. Deployments that say the same share it, under a digest of it. */
export type ToolDefinition = Readonly<{
  title: string | null
  description: string
  inputSchema: Readonly<Record<string, unknown>>
  outputSchema: Readonly<Record<string, unknown>> | null
  annotations: Readonly<Record<string, unknown>> | null
  taskSupport: TaskSupport | null
}>

/** The digest of the definition of each tool, by its id. Deployments of a server with equal lists share one. */
export type ToolList = ReadonlyMap<string, string>

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
  /** Writes author, status, error, values, grant and the time of the change. */
  saveDeployment(tx: WriteTx, tenant: TenantId, deployment: Deployment): Promise<void>
  deleteDeployment(tx: WriteTx, tenant: TenantId, id: string): Promise<boolean>
  findDeployment(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<Deployment | undefined>
  /** Oldest first; of one catalogue item, or of all. */
  listDeployments(tx: ReadTx | WriteTx, tenant: TenantId, catalogId?: string): Promise<Deployment[]>
  setToolList(tx: WriteTx, tenant: TenantId, deploymentId: string, listId: string): Promise<void>
  /** An existing list of this id is the same. */
  putToolList(tx: WriteTx, tenant: TenantId, catalogId: string, id: string, list: ToolList): Promise<void>
  deleteToolList(tx: WriteTx, tenant: TenantId, catalogId: string, id: string): Promise<void>
  findToolList(tx: ReadTx | WriteTx, tenant: TenantId, catalogId: string, id: string): Promise<ToolList | undefined>
  /** Of one catalogue item, by id. */
  toolLists(tx: ReadTx | WriteTx, tenant: TenantId, catalogId: string): Promise<ReadonlyMap<string, ToolList>>
  putDefinition(
    tx: WriteTx,
    tenant: TenantId,
    catalogId: string,
    digest: string,
    definition: ToolDefinition,
  ): Promise<void>
  deleteDefinition(tx: WriteTx, tenant: TenantId, catalogId: string, digest: string): Promise<void>
  findDefinition(
    tx: ReadTx | WriteTx,
    tenant: TenantId,
    catalogId: string,
    digest: string,
  ): Promise<ToolDefinition | undefined>
  /** Of one catalogue item, by digest. */
  definitions(tx: ReadTx | WriteTx, tenant: TenantId, catalogId: string): Promise<ReadonlyMap<string, ToolDefinition>>
  /** Those of its definitions, without what takes most of the time. */
  definitionDigests(tx: ReadTx | WriteTx, tenant: TenantId, catalogId: string): Promise<ReadonlySet<string>>
  putTool(tx: WriteTx, tenant: TenantId, tool: StoredTool): Promise<void>
  /** With its assignments. */
  deleteTool(tx: WriteTx, tenant: TenantId, id: string): Promise<void>
  findTool(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<StoredTool | undefined>
  /** By name, removed ones included; of one catalogue item, or of all. */
  listTools(tx: ReadTx | WriteTx, tenant: TenantId, catalogId?: string): Promise<StoredTool[]>
  /**
   * The names of all tools of the tenant, removed ones included. Tools of several servers may have one name.
   */
  listToolNames(tx: ReadTx | WriteTx, tenant: TenantId): Promise<NamedTool[]>
  /** By the id of each item that has tools, a text that is another one whenever the stored tools of the item have changed. */
  toolListMarks(tx: ReadTx, tenant: TenantId): Promise<ReadonlyMap<string, string>>
  /** Counts changes of the tools that the tenant's callers may see. Returns the new number. */
  raiseVersion(tx: WriteTx, tenant: TenantId): Promise<number>
  /** Of every tenant that has one: read at the start. */
  versions(tx: ReadTx): Promise<ReadonlyMap<TenantId, number>>
}>

const requestStatuses = ['pending', 'approved', 'declined'] as const
export type RequestStatus = (typeof requestStatuses)[number]

/** A server that a requester would like in the registry, as the requester describes it. */
export type RequestedServer = Readonly<{
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
  server: RequestedServer
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
  /** Newest first; of one author, or of all; with the status. */
  listRequests(
    tx: ReadTx,
    tenant: TenantId,
    filter: Readonly<{ author: string | undefined; status?: string | undefined }>,
  ): PagedRows<InstallationRequest, AfterNewest>
  countRequests(tx: ReadTx | WriteTx, tenant: TenantId): Promise<number>
}>
