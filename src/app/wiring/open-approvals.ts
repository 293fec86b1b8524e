import { createApprovalService } from '../../domains/approvals/service.ts'
import { userBehind } from '../../domains/identity/user-behind.ts'
import type { TrustKeeper } from '../../domains/trust/service.ts'
import type { WorkflowService } from '../../domains/workflows/service.ts'
import type { Engine } from '../../engine/ports.ts'
import { sqlApiKeyStore } from '../../stores/sql/api-key-store.ts'
import { sqlApprovalStore } from '../../stores/sql/approval-store.ts'
import type { AppDeps } from '../build-app.ts'

const MINUTE_MS = 60_000

/** The questions to people, and their answers. */
export const openApprovals = (
  { config }: AppDeps,
  { trust, engine, workflows }: Readonly<{ trust: TrustKeeper; engine: Engine; workflows: WorkflowService }>,
) =>
  createApprovalService({
    ...{ store: sqlApprovalStore, trust, engine },
    humanStates: { ...workflows.approvals, answer: workflows.executions.signal },
    usableMs: config.approvals.use_minutes * MINUTE_MS,
    fourEyes: config.approvals.four_eyes,
    userBehind: (...args) => userBehind(sqlApiKeyStore, ...args),
  })
