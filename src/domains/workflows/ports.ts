import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

const workflowScopes = ['user', 'tenant', 'global'] as const
export type WorkflowScope = (typeof workflowScopes)[number]

/**
 * One version of a workflow. All versions of one have the same id, scope and owner. `tenant` is where it was registered,
 * also of a global one, which all tenants see.
 */
export type WorkflowVersion = Readonly<{
  tenant: TenantId
  id: string
  scope: WorkflowScope
  /** Whose it is in the scope `user`; empty otherwise. */
  owner: string
  name: string
  version: string
  description: string
  labels: Readonly<Record<string, string>>
  initialState: string
  /** As it was sent. */
  manifestText: string
  createdAtMs: number
  createdBy: string
  changedAtMs: number
}>

export type WorkflowStore = Readonly<{
  insertVersion(tx: WriteTx, tenant: TenantId, version: WorkflowVersion): Promise<void>
  /** Puts another text in place of the same version. */
  replaceVersion(tx: WriteTx, tenant: TenantId, version: WorkflowVersion): Promise<void>
  /** Every version of that name in the tenant, whatever its scope. */
  versionsNamed(tx: ReadTx | WriteTx, tenant: TenantId, name: string): Promise<readonly WorkflowVersion[]>
  versionsOf(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<readonly WorkflowVersion[]>
  /** Global ones of all tenants: the one look beyond a tenant, at what its owners made public. */
  globalVersionsNamed(tx: ReadTx | WriteTx, name: string): Promise<readonly WorkflowVersion[]>
  globalVersionsOf(tx: ReadTx | WriteTx, id: string): Promise<readonly WorkflowVersion[]>
  listVersions(tx: ReadTx, tenant: TenantId): Promise<readonly WorkflowVersion[]>
  listGlobalVersions(tx: ReadTx): Promise<readonly WorkflowVersion[]>
  /** All versions of it move together. */
  setScope(
    tx: WriteTx,
    tenant: TenantId,
    id: string,
    to: Readonly<{ scope: WorkflowScope; owner: string; atMs: number }>,
  ): Promise<void>
  deleteWorkflow(tx: WriteTx, tenant: TenantId, id: string): Promise<void>
}>
