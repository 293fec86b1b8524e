import { AppError } from '../../contract/app-error.ts'
import type { Models } from '../../domains/executions/model.ts'
import type { Clock } from '../../kernel/clock.ts'
import { createModels } from '../../models/create-models.ts'
import type { ModelAccounting, ModelSettings, ModelsSettings, ProviderSettings } from '../../models/ports.ts'
import type { Config } from '../config.ts'
import { unsetVariables } from '../unset-variables.ts'

/** The models of the configuration. Keys come from the environment; what asks them is loaded at the first question. */
export const openModels = (
  { config, clock }: Readonly<{ config: Config; clock: Clock }>,
  accounting: () => Promise<ModelAccounting>,
): Models =>
  createModels({
    settings: settingsOf(config),
    clock,
    accounting,
    ask: async (...args) => (await import('../../models/ask-provider.ts')).askProvider(...args),
  })

type ModelsConfig = Config['models']

/** Refuses what no variable of the environment would mend. */
export function requireModels({ providers, ...input }: ModelsConfig): void {
  for (const field of ['default_provider', 'fallback_provider'] as const) {
    const name = input[field]
    if (name === undefined || providers.some((provider) => provider.enabled && provider.name === name)) continue
    throw badSetting(field, `there is no enabled provider '${name}' in models.providers`)
  }
}

/** Those that are enabled and whose keys are there. */
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
  const disabled = enabled.filter(({ name }) => unset.has(name))
  return {
    providers: enabled.filter(({ name }) => !unset.has(name)).map(providerOf),
    disabled: disabled.map(({ name, models }) => ({
      name,
      variable: unset.get(name)!,
      aliases: models.map(({ alias }) => alias),
    })),
    defaultProvider: input.default_provider ?? null,
    fallbackProvider: input.fallback_provider ?? null,
    retriesMax: input.max_retries,
    retryDelayMs: input.retry_delay_ms,
    overallTimeoutMs: input.overall_timeout_secs * 1000,
  }
}

function providerOf({
  name,
  type,
  endpoint,
  api_key,
  stream,
  models,
}: ModelsConfig['providers'][number]): ProviderSettings {
  const apiKey = api_key === undefined ? null : process.env[api_key.slice('env:'.length)]!
  return { name, type, endpoint: endpoint ?? null, apiKey, isStreamed: stream, models: models.map(modelOf) }
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
  }
}

const badSetting = (field: string, rule: string): AppError =>
  new AppError('ERR_CONFIG_INVALID', `models.${field}: ${rule}.`, { field: `models.${field}` })
