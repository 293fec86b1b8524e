import type { Approvals } from '../../contract/approvals.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { SYSTEM_TENANT } from '../../contract/principal.ts'
import type { Sanitiser } from '../../contract/sanitiser.ts'
import { createApprovalKeeper } from '../../domains/approvals/keeper.ts'
import type { Models } from '../../domains/executions/model.ts'
import { openPolicyEngine, type PolicyEngine } from '../../domains/policies/engine.ts'
import { createSanitiser } from '../../domains/sanitising/service.ts'
import { createTrustPruning } from '../../domains/trust/pruning.ts'
import { openTrust, type TrustKeeper } from '../../domains/trust/service.ts'
import { sqlApprovalStore } from '../../stores/sql/approval-store.ts'
import { sqlPolicyStore } from '../../stores/sql/policy-store.ts'
import { sqlProfileStore } from '../../stores/sql/profile-store.ts'
import { sqlTrustStore } from '../../stores/sql/trust-store.ts'
import type { AppDeps } from '../build-app.ts'
import { redactedValuesOf } from '../redacted-values.ts'

const HOUR_MS = 60 * 60 * 1_000

export type Guardrails = Readonly<{
  engine: PolicyEngine
  trust: TrustKeeper
  approvals: Approvals
  sanitiser: Sanitiser
  close(): Promise<void>
}>

/** Judges every call by the policies of its tenant, and tracks which contexts are untrusted. */
export async function openToolPolicies(
  { config, clock, logger, random }: Pick<AppDeps, 'config' | 'clock' | 'logger' | 'random'>,
  database: Database,
  models: Models,
): Promise<Guardrails> {
  const engine = await openPolicyEngine({ store: sqlPolicyStore, database, governance: config.governance, logger })
  const isShared = database.kind !== 'sqlite'
  const trust = await openTrust({
    store: sqlTrustStore,
    database,
    isShared,
    clock,
    async isProfileUntrusted(tenant, id) {
      const found =
        (await sqlProfileStore.findProfile(database.read, tenant, id)) ??
        (await sqlProfileStore.findProfile(database.read, SYSTEM_TENANT, id))
      return found?.contextUntrusted === true
    },
  })
  const polling = isShared
    ? setInterval(() => void engine.refresh().catch(() => {}), limits.policyVersionPollMs).unref()
    : undefined
  const pruning = createTrustPruning({ store: sqlTrustStore, database, clock, logger })
  pruning.run()
  const timer = setInterval(pruning.run, limits.trustPruneMs).unref()
  const sanitiser = createSanitiser({ models, roundsMax: config.sanitiser.rounds })
  const redacted = redactedValuesOf(config)
  const approvals = createApprovalKeeper({
    ...{ store: sqlApprovalStore, database, trust, random },
    inRuns: config.approvals.in_runs,
    // With four eyes nobody answers their own request, and the person at the client is the requester.
    asksClients: config.approvals.ask_client && !config.approvals.four_eyes,
    pendingMs: config.approvals.open_hours * HOUR_MS,
    redactorFor: (tenant) => redacted({ tenant }),
  })
  return {
    ...{ engine, trust, approvals, sanitiser },
    async close() {
      clearInterval(polling)
      clearInterval(timer)
      await pruning.settled()
    },
  }
}
