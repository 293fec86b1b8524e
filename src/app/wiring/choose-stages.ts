import type { DiskWatch } from '../../contract/disk-watch.ts'
import type { RateCategory } from '../../tools/runtime/define-tool.ts'
import { createRateLimiter } from '../../tools/runtime/rate-limiter.ts'
import { createStages } from '../../tools/runtime/stages.ts'
import type { ToolViews } from '../../tools/runtime/tool-views.ts'
import type { AppDeps } from '../build-app.ts'
import type { OpenedPolicies } from './open-policies.ts'

/** The pipeline as the configuration wants it. */
export function chooseStages(
  { config, clock }: AppDeps,
  views: ToolViews,
  policies: OpenedPolicies,
  disk: DiskWatch | undefined,
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
    policies: policies.evaluator,
    disk,
  })
}
