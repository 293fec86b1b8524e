import { AppError } from '../../contract/app-error.ts'
import type { ModelRule, Target } from '../../model-proxy/rules/model-rules.ts'
import type { Config } from '../config.ts'

/** The rules of the configuration. Throws ERR_CONFIG_INVALID for a provider or a model that models.providers does not have. */
export function configuredModelRules({ models, model_proxy }: Config): readonly ModelRule[] {
  const names = new Set<string>()
  return model_proxy.rules.map(({ name, when, use, fall_back }, index) => {
    const field = `model_proxy.rules.${index}`
    if (names.has(name)) throw badRule(`${field}.name`, 'another rule already has this name')
    names.add(name)
    const targetOf = (target: Target, part: string): Target => {
      const provider = models.providers.find((known) => known.enabled && known.name === target.provider)
      if (provider === undefined) throw badRule(part, `there is no enabled provider '${target.provider}'`)
      if (provider.models.some(({ model }) => model === target.model)) return target
      throw badRule(part, `the provider '${target.provider}' has no model '${target.model}' in models.providers`)
    }
    const { provider } = when
    if (provider !== undefined && !models.providers.some((known) => known.enabled && known.name === provider)) {
      throw badRule(`${field}.when.provider`, `there is no enabled provider '${provider}'`)
    }
    return {
      name,
      when: {
        provider,
        models: when.models,
        maxTokens: when.max_tokens,
        hasTools: when.has_tools,
        headers: when.headers && lowerCased(when.headers),
        between: when.between && [minuteOf(when.between.from), minuteOf(when.between.to)],
      },
      use: use === undefined ? null : targetOf(use, `${field}.use`),
      fallBack: (fall_back ?? []).map((target) => targetOf(target, `${field}.fall_back`)),
    }
  })
}

const lowerCased = (headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

function minuteOf(time: string): number {
  const [hours, minutes] = time.split(':')
  return Number(hours) * 60 + Number(minutes)
}

const badRule = (field: string, problem: string): AppError =>
  new AppError('ERR_CONFIG_INVALID', `${field}: ${problem}.`, { field })
