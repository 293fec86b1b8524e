import { AppError } from '../contract/app-error.ts'
import { type OptimizationRules, type RequestShape, tokensBySize } from '../contract/optimization-rules.ts'
import type { ProviderKeyScope, ProviderKeys } from '../contract/provider-keys.ts'
import { usageSubjectOf } from '../contract/usage-limits.ts'
import type { ModelErrorClass, ModelFailure, ModelRequest, Models } from '../domains/executions/model.ts'
import type { Clock } from '../kernel/clock.ts'
import { pause } from '../kernel/pause.ts'
import {
  type Ask,
  type Candidate,
  keyNamesOf,
  type ModelAccounting,
  type ModelRouting,
  type ModelsSettings,
  type ProviderSettings,
  type ReplacedModel,
  type RoutedModel,
  requiresKey,
  TryFailure,
} from './ports.ts'

type ChosenCandidate = Candidate & Readonly<{ replaced?: ReplacedModel | undefined }>
type UsedKey = Readonly<{ value: string | null; scope: ProviderKeyScope | null }>

const RETRY_MS_MAX = 30_000
/** Errors that a retry would not change. */
const final: ReadonlySet<ModelErrorClass> = new Set(['authentication', 'invalid_input', 'model_not_found'])

/**
 * Models by alias. A failed attempt is retried with growing pauses, unless it would fail again; then the fallback provider is
 * tried in the same way. All of it has one time budget, and the caller's signal ends it at once.
 */
export function createModels(
  deps: Readonly<{
    settings: ModelsSettings
    ask: Ask
    accounting(): Promise<ModelAccounting>
    /** Those that people stored. */
    storedKeys: ProviderKeys
    /** What organisations say of models that are used in place of others. */
    optimization: OptimizationRules
    /** The rules of the operator, which come first. */
    routing: ModelRouting
    clock: Clock
  }>,
): Models {
  const { settings, ask, clock } = deps

  async function generate(request: ModelRequest) {
    const usable = await usableBy(request)
    const candidates = candidatesFor({ ...settings, providers: usable }, request.alias)
    if (candidates.length === 0) throw unavailable(settings, request.alias)
    const failures: ModelFailure[] = []
    let missingKey: AppError | undefined
    const untilMs = clock.monotonicMs() + settings.overallTimeoutMs
    for (const candidate of await routed(candidates, request, usable)) {
      for (let tries = 0; tries <= settings.retriesMax; tries++) {
        const leftMs = untilMs - clock.monotonicMs()
        if (leftMs <= 0) throw exhausted(request, failures, 'timeout')
        try {
          return { ...(await attempt(candidate, request, leftMs)), failures }
        } catch (error) {
          request.signal.throwIfAborted()
          if (error instanceof AppError && error.code === 'ERR_PROVIDER_KEY_MISSING') {
            missingKey ??= error
            break
          }
          if (error instanceof AppError && error.code === 'ERR_RATE_LIMITED') {
            // Nothing was sent: other requests have reserved what is left of a limit on cost, and return it when they end.
            const againMs = Number(error.details['retry_after_ms'])
            if (againMs >= untilMs - clock.monotonicMs()) throw error
            await pause(againMs, request.signal)
            tries--
            continue
          }
          if (!(error instanceof TryFailure)) throw error
          failures.push(failureOf(candidate, error))
          if (final.has(error.errorClass) || tries === settings.retriesMax) break
          const pauseMs = Math.min(error.retryAfterMs ?? settings.retryDelayMs * 2 ** tries, RETRY_MS_MAX)
          // A pause until the deadline would leave the fallback no time.
          if (pauseMs >= untilMs - clock.monotonicMs()) break
          await pause(pauseMs, request.signal)
        }
      }
    }
    throw failures.length === 0 ? missingKey! : exhausted(request, failures, failures.at(-1)!.error_class)
  }

  /** The key of the owner of a run, of its teams or its organisation; otherwise that of the operator. */
  async function keyFor(provider: ProviderSettings, { principal }: ModelRequest): Promise<UsedKey> {
    const stored = await deps.storedKeys.find(principal, keyNamesOf(settings.providers, provider))
    if (stored !== undefined) return stored
    if (provider.apiKey !== null) return { value: provider.apiKey, scope: 'configuration' }
    if (!requiresKey(provider)) return { value: null, scope: null }
    const message = `There is no key for the provider '${provider.name}' that the owner of the run can use. Store one with provider_key_create, or set api_key for it in models.providers.`
    throw new AppError('ERR_PROVIDER_KEY_MISSING', message, { provider: provider.name })
  }

  /** A provider whose key the operator did not set is there for those who have one. */
  async function usableBy({ principal }: ModelRequest): Promise<readonly ProviderSettings[]> {
    const { providers } = settings
    if (providers.every(({ unsetVariable }) => unsetVariable === undefined)) return providers
    const keyed = await Promise.all(
      providers.map(async (provider) => {
        if (provider.unsetVariable === undefined) return true
        return (await deps.storedKeys.find(principal, keyNamesOf(providers, provider))) !== undefined
      }),
    )
    return providers.filter((_, index) => keyed[index])
  }

  /** What rules make of the candidates: another model for the first, then those for when it fails, then the rest. */
  async function routed(
    [first, ...others]: readonly Candidate[],
    request: ModelRequest,
    usable: readonly ProviderSettings[],
  ): Promise<readonly ChosenCandidate[]> {
    const { system, messages, tools } = request
    const shapeOf = ({ provider, model }: Candidate): RequestShape => ({
      providers: keyNamesOf(settings.providers, provider),
      model: model.model,
      tokens: tokensBySize(Buffer.byteLength(JSON.stringify([system, messages, tools]))),
      hasTools: tools.length > 0,
    })
    const requested = first!
    const [byOperator, ...fallBacks] = await deps.routing(shapeOf(requested))
    const replacing = ({ target, rule }: RoutedModel, isCheaper: boolean): ChosenCandidate | undefined => {
      const provider = usable.find(({ name }) => name === target.provider)
      const model = provider?.models.find((found) => found.model === target.model)
      if (provider === undefined || model === undefined) return undefined
      if (provider === requested.provider && model.model === requested.model.model) return requested
      const replaced = { model: requested.model.model, rule, cheaperThan: isCheaper ? requested.provider : null }
      return { provider, model, replaced }
    }
    const chosen = byOperator && replacing(byOperator, true)
    const all: ChosenCandidate[] = [
      chosen ?? (await optimised(requested, request, shapeOf(requested))),
      ...fallBacks.flatMap((fallBack) => (fallBack && replacing(fallBack, false)) ?? []),
      ...(await Promise.all(others.map((other) => optimised(other, request, shapeOf(other))))),
    ]
    const nameOf = ({ provider, model }: Candidate): string => `${provider.name}\n${model.model}`
    return all.filter((one, index) => all.findIndex((other) => nameOf(other) === nameOf(one)) === index)
  }

  /** The same provider, with the model that a rule of the organisation says. */
  async function optimised(
    candidate: Candidate,
    { principal }: ModelRequest,
    shape: RequestShape,
  ): Promise<ChosenCandidate> {
    const { provider, model } = candidate
    const chosen = await deps.optimization.choose(usageSubjectOf(principal), shape)
    const other = chosen && provider.models.find((found) => found.model === chosen.model)
    if (other === undefined) return candidate
    return { provider, model: other, replaced: { model: model.model, rule: chosen!.rule, cheaperThan: provider } }
  }

  async function attempt(candidate: ChosenCandidate, request: ModelRequest, leftMs: number) {
    const { value: apiKey, scope: keyScope } = await keyFor(candidate.provider, request)
    // Waiting for other reservations to settle does not count as the model's time.
    const paid = await (await deps.accounting()).begin(candidate, request, request.signal, {
      keyScope,
      replaced: candidate.replaced,
    })
    const timeout = AbortSignal.timeout(Math.ceil(Math.min(request.timeoutMs, leftMs)))
    const signal = AbortSignal.any([request.signal, timeout])
    try {
      const keyed = { ...candidate, provider: { ...candidate.provider, apiKey } }
      const answer = await ask(keyed, request, signal, paid.fetch)
      const { tokens, costUsd } = paid.end('ok', null)
      return { ...answer, usage: { inputTokens: tokens?.input ?? 0, outputTokens: tokens?.output ?? 0, costUsd } }
    } catch (error) {
      const isLate = timeout.aborted && !request.signal.aborted
      const failure = isLate ? new TryFailure('timeout', null, null, error) : error
      const errorClass = failure instanceof TryFailure ? failure.errorClass : null
      paid.end(signal.aborted ? 'cut_off' : 'failed', errorClass)
      throw failure
    }
  }

  return {
    aliases: () => aliasesOf(settings.providers),
    requireAlias(alias) {
      if (candidatesFor(settings, alias).length === 0) throw unavailable(settings, alias)
    },
    generate,
  }
}

/**
 * The provider with the alias, the default one first, then the fallback with the same alias or its first model. An unknown alias
 * is a mistake, and no other model replaces it.
 */
export function candidatesFor(
  { providers, defaultProvider, fallbackProvider }: ModelsSettings,
  alias: string,
): readonly Candidate[] {
  const inOrder = providers.toSorted((a, b) => Number(b.name === defaultProvider) - Number(a.name === defaultProvider))
  const found = inOrder.flatMap((provider) =>
    provider.models.filter((model) => model.alias === alias).map((model): Candidate => ({ provider, model })),
  )
  const first = found.find(({ provider }) => provider.name !== fallbackProvider) ?? found[0]
  const fallback = providers.find(({ name }) => name === fallbackProvider)
  const second = fallback?.models.find((model) => model.alias === alias) ?? fallback?.models[0]
  if (first === undefined) return []
  const candidates = [first]
  if (fallback !== undefined && second !== undefined && first.provider.name !== fallback.name) {
    candidates.push({ provider: fallback, model: second })
  }
  return candidates
}

/** Those that everybody can use. */
const aliasesOf = (providers: readonly ProviderSettings[]): readonly string[] => {
  const usable = providers.filter(({ unsetVariable }) => unsetVariable === undefined)
  return [...new Set(usable.flatMap(({ models }) => models.map(({ alias }) => alias)))].sort()
}

const failureOf = ({ provider, model }: Candidate, { errorClass, status }: TryFailure): ModelFailure => ({
  provider: provider.name,
  model: model.model,
  error_class: errorClass,
  status,
})

function unavailable({ providers }: ModelsSettings, alias: string): AppError {
  const known = aliasesOf(providers)
  const displayed = alias.slice(0, 64).toWellFormed()
  const without = providers.find(
    ({ unsetVariable, models }) => unsetVariable !== undefined && models.some((model) => model.alias === alias),
  )
  if (without !== undefined) {
    const message = `The provider '${without.name}', which has the alias '${displayed}', has no key that the owner of the run can use. Its api_key needs the environment variable ${without.unsetVariable}, which is not set. Store a key with provider_key_create, or set the variable in the environment of the server and restart the server.`
    return new AppError('ERR_MODEL_UNAVAILABLE', message, {
      ...{ alias: displayed, aliases: known, provider: without.name },
      variable: without.unsetVariable,
    })
  }
  const message =
    known.length === 0
      ? `No language model is configured, so the alias '${displayed}' cannot be resolved. Set models.providers in castellan.yaml: a provider with its name, type, api_key (env:NAME) and models, one of them with the alias '${displayed}'. Then restart the server, which reads the file only when it starts.`
      : `spec.runtime.model: no provider has a model with the alias '${displayed}'. Use one of ${known.join(', ')}, or add the alias in models.providers and restart the server.`
  return new AppError('ERR_MODEL_UNAVAILABLE', message, { alias: displayed, aliases: known })
}

const advice: Readonly<Record<ModelErrorClass, string>> = {
  authentication: 'its key was refused; correct api_key in models.providers',
  model_not_found: 'it has no such model; correct the model in models.providers',
  invalid_input: 'it refused the request as invalid; check the tools and the length of the prompt',
  rate_limit: 'it asks for fewer requests; wait, or configure models.fallback_provider',
  service_unavailable: 'it cannot answer at present; wait, or configure models.fallback_provider',
  network:
    'it cannot be reached, or its answer broke off; check its endpoint and the network, and set stream: false in models.providers if it cannot stream',
  provider: 'what it answered cannot be understood',
  timeout: 'it did not answer in time; raise spec.execution.llm_timeout_seconds or models.overall_timeout_secs',
}

function exhausted({ alias }: ModelRequest, failures: readonly ModelFailure[], error_class: ModelErrorClass): AppError {
  const provider = failures.at(-1)?.provider ?? 'none'
  return new AppError(
    final.has(error_class) ? 'ERR_MODEL_REFUSED' : 'ERR_MODEL_FAILED',
    `The model '${alias.slice(0, 64).toWellFormed()}' of the provider '${provider}' did not answer: ${advice[error_class]}.`,
    { alias, provider, error_class, failures },
  )
}
