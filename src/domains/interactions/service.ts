import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { InteractionOutcome, InteractionSource } from '../../contract/interaction.ts'
import { isPermitted } from '../../contract/permissions.ts'
import { identityOf, type Principal } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import type {
  InteractionFilter,
  InteractionStore,
  InteractionTotals,
  StoredBodies,
  StoredInteraction,
} from './ports.ts'
import { firstIdAt } from './rules.ts'

/** Agents and proxies by id or name; undefined if there is none, or the caller may not see it. */
type UsedProfiles = Readonly<{
  find(read: ReadTx, principal: Principal, kind: 'agent' | 'llm_proxy', reference: string): Promise<string | undefined>
}>

type InteractionDeps = Readonly<{
  store: Omit<InteractionStore, 'insertInteractions' | 'pruneInteractions' | 'pruneBodies' | 'tenants'>
  profiles: UsedProfiles
  /** Resolves when everything accepted so far can be read. */
  settled(): Promise<void>
}>

type InteractionQuery = Readonly<{
  agent?: string | undefined
  proxy?: string | undefined
  run_id?: string | undefined
  session?: string | undefined
  provider?: string | undefined
  model?: string | undefined
  outcome?: InteractionOutcome | undefined
  source?: InteractionSource | undefined
  since?: string | undefined
  until?: string | undefined
  mine: boolean
  totals: boolean
  cursor?: string | undefined
  limit: number
}>

export type InteractionService = ReturnType<typeof createInteractionService>

const DEFAULT_PROXY = 'default'
const NANODOLLARS = 1_000_000_000

/** Requests to language models: the caller, the cost, and the outcome. */
export function createInteractionService({ store, profiles, settled }: InteractionDeps) {
  /** With `log:read` a caller sees everybody's in the tenant; otherwise its own. */
  const seesAll = (principal: Principal): boolean => isPermitted(principal, 'log:read')

  async function profileOf(call: Call, kind: 'agent' | 'llm_proxy', reference: string, field: string): Promise<string> {
    const found = await profiles.find(call.read, call.principal, kind, reference)
    if (found !== undefined) return found
    const hint =
      kind === 'agent'
        ? 'agent that you can see; aegis.agent.list lists them'
        : 'model proxy that you can see; list_llm_proxies lists them'
    throw new AppError('ERR_NOT_FOUND', `${field}: there is no such ${hint}`, { field })
  }

  async function filterOf(call: Call, query: InteractionQuery): Promise<InteractionFilter> {
    const { principal } = call
    const { agent, proxy, since, until } = query
    const owner = query.mine || !seesAll(principal) ? identityOf(principal) : undefined
    return {
      owner,
      agentId: agent === undefined ? undefined : await profileOf(call, 'agent', agent, 'agent'),
      proxyId: proxy === undefined ? undefined : await profileOf(call, 'llm_proxy', proxy, 'proxy'),
      runId: query.run_id,
      session: query.session,
      provider: query.provider,
      model: query.model,
      outcome: query.outcome,
      source: query.source,
      fromId: since === undefined ? undefined : firstIdAt(Date.parse(since)),
      beforeId: until === undefined ? undefined : firstIdAt(Date.parse(until)),
    }
  }

  async function usageOf(call: Call, id: string) {
    await settled()
    const { input, output } = await store.usageOf(call.read, call.principal.tenant, id)
    return { id, totalInputTokens: input, totalOutputTokens: output, totalTokens: input + output }
  }

  return {
    async list(call: Call, query: InteractionQuery) {
      const { tenant } = call.principal
      const filter = await filterOf(call, query)
      await settled()
      const { cursor } = query
      // The cursor is the last returned id; ids before it are older.
      const isEarlier = cursor !== undefined && (filter.beforeId === undefined || cursor < filter.beforeId)
      const page = isEarlier ? { ...filter, beforeId: cursor } : filter
      const found = await store.listInteractions(call.read, tenant, page, query.limit + 1)
      const displayed = found.slice(0, query.limit)
      return {
        interactions: displayed.map(summaryOf),
        next_cursor: found.length > query.limit ? displayed.at(-1)!.id : null,
        ...(query.totals && { totals: totalsView(await store.sumInteractions(call.read, tenant, filter)) }),
      }
    },

    async get(call: Call, { id }: Readonly<{ id: string }>) {
      const { principal } = call
      await settled()
      const found = await store.findInteraction(call.read, principal.tenant, id)
      const isOwn = found?.owner === identityOf(principal)
      if (found === undefined || !(isOwn || seesAll(principal))) {
        throw new AppError('ERR_NOT_FOUND', 'id: there is no such interaction; interaction_list lists them', {
          field: 'id',
        })
      }
      // Texts are for their author, and for those who may read the log of all calls.
      const mayRead = isOwn || isPermitted(principal, 'auditLog:read')
      const bodies = mayRead ? await store.findBodies(call.read, principal.tenant, id) : undefined
      return { interaction: { ...detailsOf(found), bodies: bodies === undefined ? null : bodiesView(bodies) } }
    },

    /** Without an id it is the calling agent. */
    async agentUsage(call: Call, { id }: Readonly<{ id?: string | undefined }>) {
      const { agent } = call.principal
      if (id !== undefined) return await usageOf(call, await profileOf(call, 'agent', id, 'id'))
      if (agent !== undefined) return await usageOf(call, agent)
      throw new AppError('ERR_INVALID_INPUT', 'id: you are not an agent, so name one; aegis.agent.list lists them', {
        field: 'id',
      })
    },

    /** Without an id it is the calling agent, or the default proxy. */
    async proxyUsage(call: Call, { id }: Readonly<{ id?: string | undefined }>) {
      const { principal } = call
      if (id !== undefined) return await usageOf(call, await profileOf(call, 'llm_proxy', id, 'id'))
      const current =
        principal.agent ?? (await profiles.find(call.read, principal, 'llm_proxy', DEFAULT_PROXY)) ?? undefined
      if (current !== undefined) return await usageOf(call, current)
      throw new AppError(
        'ERR_INVALID_INPUT',
        `id: you are not an agent, and there is no proxy named '${DEFAULT_PROXY}', so name one; list_llm_proxies lists them`,
        { field: 'id' },
      )
    },
  }
}

const dollars = (nanodollars: number | null): number | null => (nanodollars === null ? null : nanodollars / NANODOLLARS)
const rounded = (ms: number | null): number | null => (ms === null ? null : Math.round(ms))

const summaryOf = (one: StoredInteraction) => ({
  id: one.id,
  at: isoTime(one.startedAtMs),
  actor: one.actor,
  source: one.source,
  proxy_id: one.proxyId,
  agent_id: one.agentId,
  run_id: one.runId,
  provider: one.provider,
  model: one.usedModel ?? one.requestedModel,
  outcome: one.outcome,
  error_code: one.errorCode,
  tokens:
    one.tokens === null
      ? null
      : {
          input: one.tokens.input,
          output: one.tokens.output,
          cache_read: one.tokens.cacheRead,
          cache_write: one.tokens.cacheWrite,
          reasoning: one.tokens.reasoning,
          estimated: one.isEstimated,
        },
  cost_usd: dollars(one.costNanodollars),
  first_token_ms: rounded(one.firstTokenMs),
  duration_ms: Math.round(one.durationMs),
  session: one.labels.session ?? null,
})

const detailsOf = (one: StoredInteraction) => ({
  ...summaryOf(one),
  owner: one.owner,
  authenticated_by: one.authenticatedBy,
  user_id: one.userId,
  key_id: one.keyId,
  virtual_key_id: one.virtualKeyId,
  provider_key: one.providerKeyScope ?? null,
  teams: [...one.teams],
  operation: one.operation,
  requested_model: one.requestedModel,
  used_model: one.usedModel,
  rule: one.rule ?? null,
  saved_usd: dollars(one.savedNanodollars ?? null),
  stream: one.isStream,
  http_status: one.httpStatus,
  request_bytes: one.requestBytes,
  answer_bytes: one.answerBytes,
  decisions: one.decisions.map((decision) => ({ ...decision })),
  labels: { ...one.labels },
  trace_id: one.traceParent?.traceId ?? null,
})

const bodiesView = ({ request, answer, isWhole, isRedacted }: StoredBodies) => ({
  request,
  answer,
  whole: isWhole,
  redacted: isRedacted,
})

const totalsView = (totals: InteractionTotals) => ({
  interactions: totals.count,
  input_tokens: totals.input,
  output_tokens: totals.output,
  cache_read_tokens: totals.cacheRead,
  cache_write_tokens: totals.cacheWrite,
  reasoning_tokens: totals.reasoning,
  cost_usd: totals.costNanodollars / NANODOLLARS,
  saved_usd: totals.savedNanodollars / NANODOLLARS,
  without_known_cost: totals.unpriced,
})
