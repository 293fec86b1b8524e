import type { Database } from '../../contract/database.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ToolPolicies } from '../../contract/tool-policies.ts'
import type { WriteTx } from '../../contract/tx.ts'
import type { Logger } from '../../kernel/logger.ts'
import { compilePolicies, noPolicies, type PolicySet } from './compile.ts'
import { type Governance, judgeCall, judgeResult, needsTrust } from './evaluate.ts'
import type { PolicyStore } from './ports.ts'
import { viewsOf } from './result-views.ts'

export type PolicyEngine = ToolPolicies &
  Readonly<{
    governance: Governance
    /** The policies of the tenant as they hold now. */
    policiesOf(tenant: TenantId): PolicySet | Promise<PolicySet>
    /** Whether a person may have to approve a call; answered at once, and carefully where memory does not know. */
    mayRequireApproval(tenant: TenantId): boolean
    /** In the transaction that changes a policy. What is judged after its commit is judged by what it left. */
    noteChange(tx: WriteTx, tenant: TenantId): Promise<void>
    /** Finds out what other processes changed. */
    refresh(): Promise<void>
  }>

export type PolicyEngineDeps = Readonly<{
  store: Pick<PolicyStore, 'listPolicies' | 'versions' | 'raiseVersion'>
  database: Pick<Database, 'read' | 'flush'>
  governance: Governance
  logger: Logger
}>

/**
 * The policies of each tenant, compiled and kept in memory under the number of their last change. A tenant that has never had one
 * costs nothing.
 */
export async function openPolicyEngine(deps: PolicyEngineDeps): Promise<PolicyEngine> {
  const { store, database, governance, logger } = deps
  let versions = await store.versions(database.read)
  const compiled = new Map<TenantId, Readonly<{ version: number; policies: PolicySet }>>()
  /** Tenants with a change that may not be committed yet: for these nothing is taken from memory. */
  const changing = new Map<TenantId, number>()

  function policiesOf(tenant: TenantId): PolicySet | Promise<PolicySet> {
    if (changing.has(tenant)) return load(tenant)
    const version = versions.get(tenant)
    if (version === undefined) return noPolicies
    const known = compiled.get(tenant)
    return known?.version === version ? known.policies : load(tenant)
  }

  async function load(tenant: TenantId): Promise<PolicySet> {
    // The number is read first: what is loaded is then at least as new as it says.
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

  /** A store that fails leaves the tenant among those that are read anew for every call, until it works again. */
  async function settle(tenant: TenantId): Promise<void> {
    try {
      await database.flush()
      await load(tenant)
    } catch (error) {
      logger.warn('policies are read anew for each call: a change was not taken up', { cause: String(error) })
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
        // Nobody looks into a result for which there is no policy, and it may be long.
        const isRead = tool.id !== undefined && policies.trustedData.has(tool.id)
        return judgeResult(policies, subject, tool, isRead ? viewsOf(result) : [undefined])
      }),
  }
}
