import type { DiskWatch } from '../../contract/disk-watch.ts'
import type { UsageLimits } from '../../contract/usage-limits.ts'
import type { RateCategory } from '../../tools/runtime/define-tool.ts'
import { createGuard } from '../../tools/runtime/guard.ts'
import { createRateLimiter } from '../../tools/runtime/rate-limiter.ts'
import { createStages } from '../../tools/runtime/stages.ts'
import type { ToolViews } from '../../tools/runtime/tool-views.ts'
import type { AppDeps } from '../build-app.ts'
import type { OpenedPolicies } from './open-policies.ts'
import type { Guardrails } from './open-tool-policies.ts'

/** The pipeline for this configuration. */
export function chooseStages(
  { config, clock }: AppDeps,
  views: ToolViews,
  policies: OpenedPolicies,
  store: Readonly<{ disk: DiskWatch | undefined; accounting: UsageLimits; guardrails: Guardrails }> | undefined,
) {
  const limits = config.rate_limits
  const bucket = (category: RateCategory) => ({ perMinute: limits[category].per_minute, burst: limits[category].burst })
  return createStages({
    views,
    mode: config.mode,
    rateLimiter: createRateLimiter({
      clock,
      enabled: limits.enabled,
      limits: {
        create: bucket('create'),
        exec: bucket('exec'),
        default: bucket('default'),
        message: bucket('message'),
      },
    }),
    limitOwner: limits.owner.enabled,
    guard: createGuard({
      policies: policies.evaluator,
      toolPolicies: store?.guardrails.engine,
      trust: store?.guardrails.trust,
      approvals: store?.guardrails.approvals,
      sanitiser: store?.guardrails.sanitiser,
    }),
    disk: store?.disk,
    usage: store?.accounting,
  })
}
