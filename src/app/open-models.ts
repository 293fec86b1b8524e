import { AppError } from '../contract/app-error.ts'
import type { Models } from '../domains/executions/model.ts'
import type { Clock } from '../kernel/clock.ts'
import { createModels } from '../models/create-models.ts'
import type { ModelSettings, ModelsSettings, ProviderSettings } from '../models/ports.ts'
import type { Config } from './config.ts'

/** The models of the configuration. Keys come from the environment; what asks them is loaded at the first question. */
export const openModels = ({ config, clock }: Readonly<{ config: Config; clock: Clock }>): Models =>
  createModels({
    settings: settingsOf(config.models),
    clock,
    ask: async (...args) => (await import('../models/ask-provider.ts')).askProvider(...args),
  })

type Given = Config['models']

function settingsOf(given: Given): ModelsSettings {
  const providers = given.providers.filter(({ enabled }) => enabled).map(providerOf)
  for (const field of ['default_provider', 'fallback_provider'] as const) {
    const name = given[field]
    if (name === undefined || providers.some((provider) => provider.name === name)) continue
    throw badSetting(field, `there is no enabled provider '${name}' in models.providers`)
  }
  return {
    providers,
    defaultProvider: given.default_provider ?? null,
    fallbackProvider: given.fallback_provider ?? null,
    retriesMax: given.max_retries,
    retryDelayMs: given.retry_delay_ms,
    overallTimeoutMs: given.overall_timeout_secs * 1000,
  }
}

function providerOf({ name, type, endpoint, api_key, stream, models }: Given['providers'][number]): ProviderSettings {
  const variable = api_key?.slice('env:'.length)
  const apiKey = variable === undefined ? null : (process.env[variable] ?? '')
  if (apiKey === '') throw badSetting('providers', `'${name}' needs the variable ${variable}, which is not set`)
  return { name, type, endpoint: endpoint ?? null, apiKey, isStreamed: stream, models: models.map(modelOf) }
}

function modelOf(given: Given['providers'][number]['models'][number]): ModelSettings {
  const flat = given.cost_per_1k_tokens === undefined ? null : given.cost_per_1k_tokens * 1000
  return {
    alias: given.alias,
    model: given.model,
    maxOutputTokens: given.max_output_tokens ?? null,
    temperature: given.temperature ?? null,
    inputCost: given.input_cost_per_million ?? flat,
    outputCost: given.output_cost_per_million ?? flat,
  }
}

const badSetting = (field: string, rule: string): AppError =>
  new AppError('ERR_CONFIG_INVALID', `models.${field}: ${rule}.`, { field: `models.${field}` })
