import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { CredentialMode } from '../../contract/upstream-tools.ts'

/**
 * A tool of a gateway or an agent. `toolId` is the id of an upstream tool, or the name of one of ours, which needs no
 * credentials. `deploymentId` is set only for an upstream tool in the mode `static`.
 */
export type StoredAssignment = Readonly<{
  tenant: TenantId
  profileId: string
  toolId: string
  mode: CredentialMode
  deploymentId: string | null
  createdAtMs: number
  updatedAtMs: number
}>

/** Every method answers for one tenant only. */
export type AssignmentStore = Readonly<{
  /** Adds it, or changes mode, deployment and change time of the existing one. */
  putAssignment(tx: WriteTx, tenant: TenantId, assignment: StoredAssignment): Promise<void>
  /** Answers whether it was there. */
  deleteAssignment(tx: WriteTx, tenant: TenantId, profileId: string, toolId: string): Promise<boolean>
  findAssignment(
    tx: ReadTx | WriteTx,
    tenant: TenantId,
    profileId: string,
    toolId: string,
  ): Promise<StoredAssignment | undefined>
  /** In the order in which they were added. */
  listAssignments(tx: ReadTx | WriteTx, tenant: TenantId, profileId: string): Promise<StoredAssignment[]>
}>
