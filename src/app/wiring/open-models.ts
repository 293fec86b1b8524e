import { AppError } from '../../contract/app-error.ts'
import type { OptimizationRules } from '../../contract/optimization-rules.ts'
import type { ProviderKeys } from '../../contract/provider-keys.ts'
import type { Models } from '../../domains/executions/model.ts'
import type { Clock } from '../../kernel/clock.ts'
import { createModels } from '../../models/create-models.ts'
import type {
  ModelAccounting,
  ModelRouting,
  ModelSettings,
  ModelsSettings,
  ProviderSettings,
} from '../../models/ports.ts'
import type { Config } from '../config.ts'
import { unsetVariables } from '../unset-variables.ts'
import { configuredModelRules } from './configured-model-rules.ts'

/** The configured models. Keys come from the environment; their code is loaded with the first request. */
export const openModels = (
  { config, clock }: Readonly<{ config: Config; clock: Clock }>,
  /** Available once the state is open. */
  usage: () => Readonly<{
    modelAccounting(): Promise<ModelAccounting>
    storedKeys: ProviderKeys
    optimization: OptimizationRules
  }>,
): Models =>
  createModels({
    settings: settingsOf(config),
    clock,
    accounting: () => usage().modelAccounting(),
    optimization: { choose: (...args) => usage().optimization.choose(...args) },
    routing: routingOf(config, clock),
    storedKeys: { find: (...args) => usage().storedKeys.find(...args) },
    ask: async (...args) => (await import('../../models/call-provider.ts')).callProvider(...args),
  })

/** The rules of the configuration. Conditions on headers never match, because agents send none. */
function routingOf(config: Config, clock: Clock): ModelRouting {
  const rules = configuredModelRules(config)
  if (rules.length === 0) return async () => []
  return async ({ providers, ...shape }) => {
    const { minuteOfDayIn, modelsFor } = await import('../../model-proxy/rules/model-rules.ts')
    const minuteOfDay = minuteOfDayIn(config.limits.time_zone)(clock.nowMs())
    return modelsFor(rules, { ...shape, provider: providers[0]!, headers: {}, minuteOfDay })
  }
}

type ModelsConfig = Config['models']

/** Refuses what no environment variable could fix. */
export function requireModels({ providers, ...input }: ModelsConfig): void {
  for (const field of ['default_provider', 'fallback_provider'] as const) {
    const name = input[field]
    if (name === undefined || providers.some((provider) => provider.enabled && provider.name === name)) continue
    throw badSetting(field, `there is no enabled provider '${name}' in models.providers`)
  }
}

/** Enabled providers. */
export const providersOf = (config: Config): readonly ProviderSettings[] => settingsOf(config).providers

function settingsOf(config: Config): ModelsSettings {
  const input = config.models
  requireModels(input)
  const unset = new Map(
    unsetVariables(config)
      .filter(({ field }) => field === 'models.providers')
      .map(({ name, variable }) => [name, variable]),
  )
  const enabled = input.providers.filter((provider) => provider.enabled)
  return {
    providers: enabled.map((provider) => providerOf(provider, unset.get(provider.name))),
    defaultProvider: input.default_provider ?? null,
    fallbackProvider: input.fallback_provider ?? null,
    retriesMax: input.max_retries,
    retryDelayMs: input.retry_delay_ms,
    overallTimeoutMs: input.overall_timeout_secs * 1000,
  }
}

function providerOf(
  { name, type, endpoint, api_key, stream, models }: ModelsConfig['providers'][number],
  unsetVariable: string | undefined,
): ProviderSettings {
  const apiKey = api_key === undefined ? undefined : process.env[api_key.slice('env:'.length)]
  return {
    ...{ name, type, endpoint: endpoint ?? null, apiKey: apiKey === '' ? null : (apiKey ?? null), unsetVariable },
    ...{ isStreamed: stream, models: models.map(modelOf) },
  }
}

function modelOf(input: ModelsConfig['providers'][number]['models'][number]): ModelSettings {
  const flat = input.cost_per_1k_tokens === undefined ? null : input.cost_per_1k_tokens * 1000
  return {
    alias: input.alias,
    model: input.model,
    maxOutputTokens: input.max_output_tokens ?? null,
    temperature: input.temperature ?? null,
    inputCost: input.input_cost_per_million ?? flat,
    outputCost: input.output_cost_per_million ?? flat,
    cacheReadCost: input.cache_read_cost_per_million ?? null,
    cacheWriteCost: input.cache_write_cost_per_million ?? null,
    contextWindow: input.context_window ?? null,
  }
}

const badSetting = (field: string, rule: string): AppError =>
  new AppError('ERR_CONFIG_INVALID', `models.${field}: ${rule}.`, { field: `models.${field}` })
