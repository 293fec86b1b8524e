import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

const workflowScopes = ['user', 'tenant', 'global'] as const
export type WorkflowScope = (typeof workflowScopes)[number]

/**
 * One version of a workflow. All versions share id, scope and owner. `tenant` is the tenant that registered it, even for a global
 * workflow, which all tenants see.
 */
export type WorkflowVersion = Readonly<{
  tenant: TenantId
  id: string
  scope: WorkflowScope
  /** The owner in the scope `user`; empty otherwise. */
  owner: string
  name: string
  version: string
  description: string
  labels: Readonly<Record<string, string>>
  initialState: string
  /** Exactly as submitted. */
  manifestText: string
  createdAtMs: number
  createdBy: string
  changedAtMs: number
}>

export type WorkflowStore = Readonly<{
  insertVersion(tx: WriteTx, tenant: TenantId, version: WorkflowVersion): Promise<void>
  /** Replaces the text of the same version. */
  replaceVersion(tx: WriteTx, tenant: TenantId, version: WorkflowVersion): Promise<void>
  /** Every version of that name in the tenant, in any scope. */
  versionsNamed(tx: ReadTx | WriteTx, tenant: TenantId, name: string): Promise<readonly WorkflowVersion[]>
  versionsOf(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<readonly WorkflowVersion[]>
  /** Global versions of all tenants: the only read across tenants, of what their owners published. */
  globalVersionsNamed(tx: ReadTx | WriteTx, name: string): Promise<readonly WorkflowVersion[]>
  globalVersionsOf(tx: ReadTx | WriteTx, id: string): Promise<readonly WorkflowVersion[]>
  listVersions(tx: ReadTx, tenant: TenantId): Promise<readonly WorkflowVersion[]>
  listGlobalVersions(tx: ReadTx): Promise<readonly WorkflowVersion[]>
  /** All versions change scope together. */
  setScope(
    tx: WriteTx,
    tenant: TenantId,
    id: string,
    to: Readonly<{ scope: WorkflowScope; owner: string; atMs: number }>,
  ): Promise<void>
  deleteWorkflow(tx: WriteTx, tenant: TenantId, id: string): Promise<void>
}>
