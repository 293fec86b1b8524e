import type { Database } from '../../contract/database.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ToolPolicies } from '../../contract/tool-policies.ts'
import type { WriteTx } from '../../contract/tx.ts'
import type { Logger } from '../../kernel/logger.ts'
import { compilePolicies, noPolicies, type PolicySet, policiesFor } from './compile.ts'
import { type Governance, judgeCall, judgeResult, needsTrust } from './evaluate.ts'
import type { PolicyStore } from './ports.ts'
import { viewsOf } from './result-views.ts'

export type PolicyEngine = ToolPolicies &
  Readonly<{
    governance: Governance
    /** The policies of the tenant in force. */
    policiesOf(tenant: TenantId): PolicySet | Promise<PolicySet>
    /** Whether a call may need a person's approval; answered at once, and true if memory does not know. */
    mayRequireApproval(tenant: TenantId): boolean
    /** In the transaction that changes a policy. Calls after its commit are judged by the changed policies. */
    noteChange(tx: WriteTx, tenant: TenantId): Promise<void>
    /** Loads changes by other processes. */
    refresh(): Promise<void>
  }>

type PolicyEngineDeps = Readonly<{
  store: Pick<PolicyStore, 'listPolicies' | 'versions' | 'raiseVersion'>
  database: Pick<Database, 'read' | 'flush'>
  governance: Governance
  logger: Logger
}>

/** The policies of each tenant, compiled and cached in memory under a version. A tenant that has never had one costs nothing. */
export async function openPolicyEngine(deps: PolicyEngineDeps): Promise<PolicyEngine> {
  const { store, database, governance, logger } = deps
  let versions = await store.versions(database.read)
  const compiled = new Map<TenantId, Readonly<{ version: number; policies: PolicySet }>>()
  /** Tenants with a change that may not be committed yet: their cache is not used. */
  const changing = new Map<TenantId, number>()

  function policiesOf(tenant: TenantId): PolicySet | Promise<PolicySet> {
    if (changing.has(tenant)) return load(tenant)
    const version = versions.get(tenant)
    if (version === undefined) return noPolicies
    const known = compiled.get(tenant)
    return known?.version === version ? known.policies : load(tenant)
  }

  async function load(tenant: TenantId): Promise<PolicySet> {
    // The version is read first, so that the loaded policies are at least as new.
    versions = await store.versions(database.read)
    const version = versions.get(tenant)
    if (version === undefined) return noPolicies
    const policies = compilePolicies(await store.listPolicies(database.read, tenant))
    compiled.set(tenant, { version, policies })
    return policies
  }

  async function noteChange(tx: WriteTx, tenant: TenantId): Promise<void> {
    await store.raiseVersion(tx, tenant)
    changing.set(tenant, (changing.get(tenant) ?? 0) + 1)
    void settle(tenant)
  }

  /** If the store fails, the tenant's policies are read again for every call, until it works. */
  async function settle(tenant: TenantId): Promise<void> {
    try {
      await database.flush()
      await load(tenant)
    } catch (error) {
      logger.warn('policies are reloaded for each call, because a change could not be loaded', {
        cause: String(error),
      })
      return
    }
    const left = changing.get(tenant)! - 1
    if (left === 0) changing.delete(tenant)
    else changing.set(tenant, left)
  }

  const using = <T>(tenant: TenantId, judge: (policies: PolicySet) => T): T | Promise<T> => {
    const policies = policiesOf(tenant)
    return policies instanceof Promise ? policies.then(judge) : judge(policies)
  }

  return {
    governance,
    policiesOf,
    noteChange,
    mayRequireApproval(tenant) {
      const policies = policiesOf(tenant)
      if (!(policies instanceof Promise)) return policies.requiresApproval
      policies.catch(() => {})
      return true
    },
    versionOf: (tenant) => versions.get(tenant) ?? 0,
    async refresh() {
      versions = await store.versions(database.read)
    },
    needsTrust: (tenant, tool) => using(tenant, (policies) => needsTrust(policies, governance, tool)),
    judgeCall: (subject, tool, args) =>
      using(subject.principal.tenant, (policies) => judgeCall(policies, governance, subject, tool, args)),
    judgeResult: (subject, tool, result) =>
      using(subject.principal.tenant, (policies) => {
        // A result without a policy is not parsed, because it may be long.
        const isRead = policiesFor(policies.trustedData, tool) !== undefined
        return judgeResult(policies, subject, tool, isRead ? viewsOf(result) : [undefined])
      }),
  }
}
