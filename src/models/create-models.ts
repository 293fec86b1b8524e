import { AppError } from '../contract/app-error.ts'
import type { ModelErrorClass, ModelFailure, ModelRequest, Models } from '../domains/executions/model.ts'
import type { Clock } from '../kernel/clock.ts'
import { pause } from '../kernel/pause.ts'
import { type Ask, type Candidate, type ModelAccounting, type ModelsSettings, TryFailure } from './ports.ts'

const RETRY_MS_MAX = 30_000
/** What another try would not change. */
const final: ReadonlySet<ModelErrorClass> = new Set(['authentication', 'invalid_input', 'model_not_found'])

/**
 * Models by alias. A try that fails is repeated with growing pauses, unless it would fail again; then the fallback provider
 * is asked in the same way. All of it has one budget of time, and the caller's signal ends it at once.
 */
export function createModels(
  deps: Readonly<{ settings: ModelsSettings; ask: Ask; accounting(): Promise<ModelAccounting>; clock: Clock }>,
): Models {
  const { settings, ask, clock } = deps

  async function generate(request: ModelRequest) {
    const candidates = candidatesFor(settings, request.alias)
    if (candidates.length === 0) throw unavailable(settings, request.alias)
    const failures: ModelFailure[] = []
    const untilMs = clock.monotonicMs() + settings.overallTimeoutMs
    for (const candidate of candidates) {
      for (let tries = 0; tries <= settings.retriesMax; tries++) {
        const leftMs = untilMs - clock.monotonicMs()
        if (leftMs <= 0) throw exhausted(request, failures, 'timeout')
        try {
          return { ...(await attempt(candidate, request, leftMs)), failures }
        } catch (error) {
          request.signal.throwIfAborted()
          if (!(error instanceof TryFailure)) throw error
          failures.push(failureOf(candidate, error))
          if (final.has(error.errorClass) || tries === settings.retriesMax) break
          const pauseMs = Math.min(error.retryAfterMs ?? settings.retryDelayMs * 2 ** tries, RETRY_MS_MAX)
          // A pause to the end would only keep the fallback from its turn.
          if (pauseMs >= untilMs - clock.monotonicMs()) break
          await pause(pauseMs, request.signal)
        }
      }
    }
    throw exhausted(request, failures, failures.at(-1)!.error_class)
  }

  async function attempt(candidate: Candidate, request: ModelRequest, leftMs: number) {
    // To wait for others to settle is no part of the time of the model.
    const paid = await (await deps.accounting()).begin(candidate, request, request.signal)
    const timeout = AbortSignal.timeout(Math.ceil(Math.min(request.timeoutMs, leftMs)))
    const signal = AbortSignal.any([request.signal, timeout])
    try {
      const answer = await ask(candidate, request, signal, paid.fetch)
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
    aliases: () => [...new Set(settings.providers.flatMap(({ models }) => models.map(({ alias }) => alias)))].sort(),
    requireAlias(alias) {
      if (candidatesFor(settings, alias).length === 0) throw unavailable(settings, alias)
    },
    generate,
  }
}

/**
 * The provider that has the alias, the default one first, then the fallback with the same alias or whatever it has. An alias
 * that nobody has is a slip of the pen, for which no other model stands in.
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

const failureOf = ({ provider, model }: Candidate, { errorClass, status }: TryFailure): ModelFailure => ({
  provider: provider.name,
  model: model.model,
  error_class: errorClass,
  status,
})

function unavailable({ providers, disabled }: ModelsSettings, alias: string): AppError {
  const known = [...new Set(providers.flatMap(({ models }) => models.map((model) => model.alias)))].sort()
  const displayed = alias.slice(0, 64).toWellFormed()
  const without = disabled?.find(({ aliases }) => aliases.includes(alias))
  if (without !== undefined) {
    const message = `The provider '${without.name}', which has the alias '${displayed}', is disabled: its api_key needs the variable ${without.variable}, which is not set. Set it where the server is started, then start the server again.`
    return new AppError('ERR_MODEL_UNAVAILABLE', message, {
      alias: displayed,
      aliases: known,
      variable: without.variable,
    })
  }
  const message =
    known.length === 0
      ? `No language model is configured, so the alias '${displayed}' cannot be resolved. Set models.providers in castellan.yaml: a provider with its name, type, api_key (env:NAME) and models, one of them with the alias '${displayed}'. Then start the server again: it reads the file when it starts.`
      : `spec.runtime.model: no provider has a model with the alias '${displayed}'. Use one of ${known.join(', ')}, or add the alias in models.providers and start the server again.`
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
