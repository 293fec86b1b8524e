import { AppError } from '../../contract/app-error.ts'
import type { Interaction, InteractionSink } from '../../contract/interaction.ts'
import { identityOf } from '../../contract/principal.ts'
import { type UsageLimits, usageSubjectOf } from '../../contract/usage-limits.ts'
import type { ModelRequest } from '../../domains/executions/model.ts'
import type { Clock } from '../../kernel/clock.ts'
import { createAnsweringModels } from '../../model-proxy/answering-models.ts'
import { inputBound } from '../../model-proxy/input-bound.ts'
import { createMeasuredFetch, type Measured } from '../../model-proxy/measured-fetch.ts'
import { createPrices } from '../../model-proxy/prices.ts'
import { isOfLimit } from '../../model-proxy/refused-request.ts'
import { reserveTokens } from '../../model-proxy/spending.ts'
import type { Candidate, ModelAccounting } from '../../models/ports.ts'
import { pricedProviderOf, protocols } from './priced-providers.ts'

export type ModelAccountingDeps = Readonly<{
  limits: UsageLimits
  interactions: InteractionSink
  clock: Clock
  /** The reservation for an answer without a bound. */
  defaultOutputTokens: number
}>

const operations = { openai: 'chat', anthropic: 'messages', gemini: 'generate' } as const
const NANODOLLARS = 1_000_000_000

/** Requests of agents and of this server to models: counted and recorded like requests through the proxy. */
export function createModelAccounting({
  limits,
  interactions,
  clock,
  defaultOutputTokens,
}: ModelAccountingDeps): ModelAccounting {
  const prices = createPrices()
  const answering = createAnsweringModels()

  return {
    async begin(candidate, request, signal, { keyScope: providerKeyScope, replaced }) {
      await interactions.space()
      const { provider, model } = candidate
      const protocol = protocols[provider.type]
      const startedAtMs = clock.nowMs()
      const startedMs = clock.monotonicMs()
      const { system, messages, tools } = request
      const priced = pricedProviderOf(provider)
      const use = {
        ...{ subject: usageSubjectOf(request.principal), model: model.model },
        input: () =>
          inputBound(
            {
              ...{ operation: operations[protocol.name], model: model.model, body: undefined },
              bytes: Buffer.from(JSON.stringify([system, messages, tools])),
            },
            priced,
          ),
        output: { tokens: request.maxOutputTokens ?? model.maxOutputTokens ?? undefined, answers: 1 },
      }
      /** How much more the model of the alias would have cost, for as many tokens. */
      const savedBy = (measured: Measured | undefined, costNanodollars: number | null): number | null => {
        const other = replaced?.cheaperThan ?? null
        if (other === null || measured?.tokens === undefined || costNanodollars === null) return null
        const without = prices.costOf(pricedProviderOf(other), replaced!.model, measured.tokens)
        return without === undefined ? null : without - costNanodollars
      }
      const note = (measured: Measured | undefined, how: Outcome, costNanodollars: number | null): void =>
        interactions.add(
          {
            ...factsOf(request, candidate),
            providerKeyScope,
            requestedModel: replaced?.model ?? candidate.model.model,
            rule: replaced?.rule ?? null,
            savedNanodollars: savedBy(measured, costNanodollars),
            ...{ protocol: protocol.name, operation: operations[protocol.name], startedAtMs, costNanodollars },
            ...measuredFacts(measured),
            usedModel: measured?.usedModel ?? (replaced === undefined ? null : model.model),
            ...how,
            durationMs: clock.monotonicMs() - startedMs,
          },
          { request: measured?.requestBody, answer: measured?.answerBody },
        )
      const spending = await reserveTokens(
        { limits, prices, answering, defaultOutputTokens },
        priced,
        use,
        () => signal,
      ).catch((error: unknown) => {
        if (error instanceof AppError && isOfLimit(error)) note(undefined, refusalOf(error), 0)
        throw error
      })
      const { keepsBodies } = interactions
      const format = protocol.formatOf(operations[protocol.name])!
      const measuring = createMeasuredFetch(format, { clock, keepsBodies, isStream: provider.isStreamed })
      let hasEnded = false
      return {
        fetch: measuring.fetch,
        end(ending, errorClass) {
          const hasBroken = ending === 'failed' && errorClass === 'network'
          const outcome = hasBroken && measuring.hasStarted() ? 'cut_off' : ending
          const measured = measuring.measured(
            hasBroken ? 'broken' : ending === 'cut_off' ? 'left' : 'complete',
            spending,
          )
          const { tokens, usedModel } = measured
          const paid = spending.settle(usedModel, tokens)
          const cost = tokens === undefined ? 0 : paid
          if (!hasEnded) note(measured, { outcome, errorCode: errorClass, decisions: [] }, cost)
          hasEnded = true
          return { tokens, costUsd: cost === null ? null : cost / NANODOLLARS }
        },
      }
    },
  }
}

type Outcome = Pick<Interaction, 'outcome' | 'errorCode' | 'decisions'>

function refusalOf({ code, details }: AppError): Outcome {
  const { limit_id: limit } = details
  const named = typeof limit === 'string' ? { policy: limit } : {}
  return {
    outcome: 'refused',
    errorCode: code,
    decisions: [{ stage: 'usage-limit', verdict: 'deny', ...named, reason: code }],
  }
}

function factsOf({ principal, purpose }: ModelRequest, { provider }: Candidate) {
  return {
    tenant: principal.tenant,
    owner: identityOf(principal),
    actor: principal.actor,
    authenticatedBy: purpose === 'agent' ? 'run' : 'server',
    userId: usageSubjectOf(principal).user ?? null,
    keyId: principal.keyId ?? null,
    virtualKeyId: null,
    teams: principal.teams,
    source: purpose,
    proxyId: null,
    agentId: principal.agent ?? null,
    runId: principal.executionId ?? null,
    provider: provider.name,
    isStream: provider.isStreamed,
    labels: {},
  } satisfies Partial<Interaction>
}

const measuredFacts = (measured: Measured | undefined) => ({
  httpStatus: measured === undefined || measured.httpStatus === 0 ? null : measured.httpStatus,
  tokens: measured?.tokens ?? null,
  isEstimated: measured?.isEstimated ?? false,
  firstTokenMs: measured?.firstByteMs ?? null,
  requestBytes: measured?.requestBody?.length ?? 0,
  answerBytes: measured?.answerBytes ?? 0,
})
