import { createModelAccounting } from '../../src/app/wiring/model-accounting.ts'
import type { Interaction } from '../../src/contract/interaction.ts'
import type { OptimizationRules } from '../../src/contract/optimization-rules.ts'
import type { ProviderKeys } from '../../src/contract/provider-keys.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import type { ModelAccounting } from '../../src/models/ports.ts'

/** The accounting of models for a test without limits and without a store; `noted` has what it was told. */
export function unlimitedAccounting(noted: Interaction[] = []): () => Promise<ModelAccounting> {
  const accounting = createModelAccounting({
    limits: { reserveCost: () => ({ settle() {} }), countCall() {} },
    interactions: { add: (interaction) => void noted.push(interaction), keepsBodies: false, space: () => undefined },
    clock: systemClock,
    defaultOutputTokens: 4_096,
  })
  return async () => accounting
}

/** Nobody stored a key of a provider. */
export const noStoredKeys: ProviderKeys = { find: () => undefined }

/** No organisation has a rule for models. */
export const noOptimization: OptimizationRules = { choose: () => undefined }
