import type { ExpressionBuilder, Selectable } from 'kysely'
import type { Interaction, InteractionOutcome, InteractionSource } from '../../contract/interaction.ts'
import { type TenantId, tenantId } from '../../contract/principal.ts'
import type {
  InteractionFilter,
  InteractionStore,
  NewInteraction,
  StoredInteraction,
  TokenUsage,
} from '../../domains/interactions/ports.ts'
import type { InteractionBodiesTable, InteractionTable, TokenUsageTable } from './governance-schema.ts'
import type { Schema } from './schema.ts'
import { type Builder, statement, statementFamily, type Value } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type Row = Selectable<InteractionTable>
type RowId = { tenant: string; id: string }

const insert = statement<Row>('interaction-store.insert')((db, _arg, { columns }) =>
  db
    .insertInto('interactions')
    .values(
      columns([
        'tenant',
        'id',
        'started_at',
        'owner',
        'source',
        'agent_id',
        'proxy_id',
        'run_id',
        'session',
        'provider',
        'model',
        'outcome',
        'input_tokens',
        'output_tokens',
        'cache_read_tokens',
        'cache_write_tokens',
        'reasoning_tokens',
        'cost',
        'saved',
        'facts',
      ]),
    ),
)
const insertBodies = statement<Selectable<InteractionBodiesTable>>('interaction-store.insertBodies')(
  (db, _arg, { columns }) =>
    db
      .insertInto('interaction_bodies')
      .values(columns(['tenant', 'id', 'request', 'answer', 'is_whole', 'is_redacted'])),
)
const addUsage = statement<Selectable<TokenUsageTable>>('interaction-store.addUsage')((db, _arg, { columns }) =>
  db
    .insertInto('token_usage')
    .values(columns(['tenant', 'profile_id', 'input_tokens', 'output_tokens']))
    .onConflict((conflict) =>
      conflict.columns(['tenant', 'profile_id']).doUpdateSet((row) => ({
        input_tokens: row('token_usage.input_tokens', '+', row.ref('excluded.input_tokens')),
        output_tokens: row('token_usage.output_tokens', '+', row.ref('excluded.output_tokens')),
      })),
    ),
)
const find = statement<RowId>('interaction-store.find')((db, arg) =>
  db.selectFrom('interactions').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findBodies = statement<RowId>('interaction-store.findBodies')((db, arg) =>
  db.selectFrom('interaction_bodies').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findUsage = statement<{ tenant: string; profile_id: string }>('interaction-store.findUsage')((db, arg) =>
  db
    .selectFrom('token_usage')
    .select(['input_tokens', 'output_tokens'])
    .where('tenant', '=', arg('tenant'))
    .where('profile_id', '=', arg('profile_id')),
)
const nameTenants = statement<Record<never, never>>('interaction-store.tenants')((db) =>
  db.selectFrom('interactions').select('tenant').groupBy('tenant'),
)
type Pruned = { tenant: string; before: string; most: number }
const pruneFrom = (table: 'interactions' | 'interaction_bodies', name: string) =>
  statement<Pruned>(name)((db, arg) =>
    db
      .deleteFrom(table)
      .where('tenant', '=', arg('tenant'))
      .where('id', 'in', (inner) =>
        inner
          .selectFrom(table)
          .select('id')
          .where('tenant', '=', arg('tenant'))
          .where('id', '<', arg('before'))
          .orderBy('id')
          .limit(arg('most')),
      ),
  )
const prune = pruneFrom('interactions', 'interaction-store.prune')
const pruneBodies = pruneFrom('interaction_bodies', 'interaction-store.pruneBodies')

/** Which filters are present is the shape of the statement. */
type Args = Record<string, Value>
const columns = {
  owner: 'owner',
  agentId: 'agent_id',
  proxyId: 'proxy_id',
  runId: 'run_id',
  session: 'session',
  provider: 'provider',
  model: 'model',
  outcome: 'outcome',
  source: 'source',
} as const
type FilterName = keyof InteractionFilter
const filterNames: readonly FilterName[] = [...(Object.keys(columns) as FilterName[]), 'fromId', 'beforeId']

const shapeOf = (filter: InteractionFilter): string =>
  filterNames.filter((name) => filter[name] !== undefined).join(':')

function conditions(shape: string, row: ExpressionBuilder<Schema, 'interactions'>, arg: (name: string) => Value) {
  const and = [row('tenant', '=', arg('tenant') as string)]
  for (const name of shape === '' ? [] : (shape.split(':') as FilterName[])) {
    if (name === 'fromId') and.push(row('id', '>=', arg('fromId') as string))
    else if (name === 'beforeId') and.push(row('id', '<', arg('beforeId') as string))
    else and.push(row(columns[name], '=', arg(name) as string))
  }
  return row.and(and)
}

const usualShapes = ['', 'owner', 'beforeId', 'owner:beforeId', 'runId', 'owner:runId']
const list = statementFamily<Args, Row>(
  'interaction-store.list',
  (shape): Builder<Args, Row> =>
    (db, arg) =>
      db
        .selectFrom('interactions')
        .selectAll()
        .where((row) => conditions(shape, row, arg))
        .orderBy('id', 'desc')
        .limit(arg('most') as number),
  usualShapes,
)
type SumRow = Record<
  'count' | 'input' | 'output' | 'cacheRead' | 'cacheWrite' | 'reasoning' | 'cost' | 'saved' | 'priced',
  unknown
>
const sum = statementFamily<Args, SumRow>(
  'interaction-store.sum',
  (shape): Builder<Args, SumRow> =>
    (db, arg, { sql }) =>
      db
        .selectFrom('interactions')
        .select(({ fn }) => [
          fn.countAll().as('count'),
          fn.sum('input_tokens').as('input'),
          fn.sum('output_tokens').as('output'),
          fn.sum('cache_read_tokens').as('cacheRead'),
          fn.sum('cache_write_tokens').as('cacheWrite'),
          fn.sum('reasoning_tokens').as('reasoning'),
          // A sum may be larger than an integer that can be read.
          fn.sum(sql`cost * 1.0`).as('cost'),
          fn.sum(sql`saved * 1.0`).as('saved'),
          fn.count('cost').as('priced'),
        ])
        .where((row) => conditions(shape, row, arg)),
  usualShapes,
)

const argsOf = (tenant: string, filter: InteractionFilter): Args => ({
  tenant,
  ...Object.fromEntries(filterNames.flatMap((name) => (filter[name] === undefined ? [] : [[name, filter[name]]]))),
})

export const sqlInteractionStore: InteractionStore = {
  async insertInteractions(tx, tenant, added) {
    const [first] = added
    if (first === undefined) return
    const writer = writerOf(tx, tenant)
    if ((await sessionOf(tx).get(find, { tenant, id: first.interaction.id })) !== undefined) return
    for (const { interaction, bodies } of added) {
      await writer.run(insert, toRow(tenant, interaction))
      if (bodies === undefined) continue
      const { request, answer, isWhole, isRedacted } = bodies
      const flags = { is_whole: Number(isWhole), is_redacted: Number(isRedacted) }
      await writer.run(insertBodies, { tenant, id: interaction.id, request, answer, ...flags })
    }
    for (const [profile_id, { input, output }] of usageIn(added)) {
      await writer.run(addUsage, { tenant, profile_id, input_tokens: input, output_tokens: output })
    }
  },
  async listInteractions(tx, tenant, filter, limit) {
    const rows = await sessionOf(tx).all(list(shapeOf(filter)), { ...argsOf(tenant, filter), most: limit })
    return rows.map(fromRow)
  },
  async sumInteractions(tx, tenant, filter) {
    const row = (await sessionOf(tx).get(sum(shapeOf(filter)), argsOf(tenant, filter)))!
    // A sum over nothing is null, and PostgreSQL answers one with a text.
    const { count, input, output, cacheRead, cacheWrite, reasoning, cost, saved, priced } = row
    return {
      count: Number(count),
      input: Number(input ?? 0),
      output: Number(output ?? 0),
      cacheRead: Number(cacheRead ?? 0),
      cacheWrite: Number(cacheWrite ?? 0),
      reasoning: Number(reasoning ?? 0),
      costNanodollars: Number(cost ?? 0),
      savedNanodollars: Number(saved ?? 0),
      unpriced: Number(count) - Number(priced),
    }
  },
  async findInteraction(tx, tenant, id) {
    const row = await sessionOf(tx).get(find, { tenant, id })
    return row && fromRow(row)
  },
  async findBodies(tx, tenant, id) {
    const row = await sessionOf(tx).get(findBodies, { tenant, id })
    if (row === undefined) return undefined
    const { request, answer, is_whole, is_redacted } = row
    return { request, answer, isWhole: is_whole === 1, isRedacted: is_redacted === 1 }
  },
  async usageOf(tx, tenant, profileId) {
    const row = await sessionOf(tx).get(findUsage, { tenant, profile_id: profileId })
    return { input: row?.input_tokens ?? 0, output: row?.output_tokens ?? 0 }
  },
  async pruneInteractions(tx, tenant, beforeId, limit) {
    return await writerOf(tx, tenant).run(prune, { tenant, before: beforeId, most: limit })
  },
  async pruneBodies(tx, tenant, beforeId, limit) {
    return await writerOf(tx, tenant).run(pruneBodies, { tenant, before: beforeId, most: limit })
  },
  async tenants(tx) {
    return (await sessionOf(tx).all(nameTenants, {})).map(({ tenant }) => tenantId(tenant))
  },
}

/** One change for each profile, however many went through it. */
function usageIn(added: readonly NewInteraction[]): ReadonlyMap<string, TokenUsage> {
  const usage = new Map<string, TokenUsage>()
  for (const { interaction } of added) {
    const { tokens, agentId, proxyId } = interaction
    if (tokens === null) continue
    for (const id of [agentId, proxyId === agentId ? null : proxyId]) {
      if (id === null) continue
      const before = usage.get(id)
      usage.set(id, { input: (before?.input ?? 0) + tokens.input, output: (before?.output ?? 0) + tokens.output })
    }
  }
  return usage
}

type Facts = Omit<
  Interaction,
  | 'tenant'
  | 'owner'
  | 'source'
  | 'agentId'
  | 'proxyId'
  | 'runId'
  | 'provider'
  | 'outcome'
  | 'tokens'
  | 'costNanodollars'
  | 'savedNanodollars'
  | 'startedAtMs'
>

/** Member by member, because copying with omissions costs several times as much. */
function factsOf(interaction: StoredInteraction): Facts {
  return {
    actor: interaction.actor,
    authenticatedBy: interaction.authenticatedBy,
    userId: interaction.userId,
    keyId: interaction.keyId,
    virtualKeyId: interaction.virtualKeyId,
    ...(interaction.providerKeyScope !== undefined && { providerKeyScope: interaction.providerKeyScope }),
    teams: interaction.teams,
    protocol: interaction.protocol,
    operation: interaction.operation,
    requestedModel: interaction.requestedModel,
    usedModel: interaction.usedModel,
    ...(interaction.rule != null && { rule: interaction.rule }),
    isStream: interaction.isStream,
    httpStatus: interaction.httpStatus,
    errorCode: interaction.errorCode,
    isEstimated: interaction.isEstimated,
    firstTokenMs: interaction.firstTokenMs,
    durationMs: interaction.durationMs,
    requestBytes: interaction.requestBytes,
    answerBytes: interaction.answerBytes,
    decisions: interaction.decisions,
    labels: interaction.labels,
    traceParent: interaction.traceParent,
  } satisfies Record<Exclude<keyof Facts, 'providerKeyScope' | 'rule'>, unknown>
}

function toRow(tenant: TenantId, interaction: StoredInteraction): Row {
  const { id, tokens } = interaction
  return {
    tenant,
    id,
    started_at: interaction.startedAtMs,
    owner: interaction.owner,
    source: interaction.source,
    agent_id: interaction.agentId,
    proxy_id: interaction.proxyId,
    run_id: interaction.runId,
    session: interaction.labels.session ?? null,
    provider: interaction.provider,
    // PostgreSQL cannot store U+0000, and a provider names the model as it likes.
    model: (interaction.usedModel ?? interaction.requestedModel)?.replaceAll('\u0000', '\ufffd') ?? null,
    outcome: interaction.outcome,
    input_tokens: tokens?.input ?? null,
    output_tokens: tokens?.output ?? null,
    cache_read_tokens: tokens?.cacheRead ?? null,
    cache_write_tokens: tokens?.cacheWrite ?? null,
    reasoning_tokens: tokens?.reasoning ?? null,
    cost: storable(interaction.costNanodollars),
    saved: storable(interaction.savedNanodollars),
    facts: JSON.stringify(factsOf(interaction)),
  }
}

/** An integer that can be read again. */
const storable = (amount: number | null | undefined): number | null =>
  amount === null || amount === undefined
    ? null
    : Math.max(Number.MIN_SAFE_INTEGER, Math.min(amount, Number.MAX_SAFE_INTEGER))

const fromRow = (row: Row): StoredInteraction => ({
  ...(JSON.parse(row.facts) as Facts),
  tenant: tenantId(row.tenant),
  id: row.id,
  owner: row.owner,
  source: row.source as InteractionSource,
  agentId: row.agent_id,
  proxyId: row.proxy_id,
  runId: row.run_id,
  provider: row.provider,
  outcome: row.outcome as InteractionOutcome,
  tokens:
    row.input_tokens === null
      ? null
      : {
          input: row.input_tokens,
          output: row.output_tokens!,
          cacheRead: row.cache_read_tokens!,
          cacheWrite: row.cache_write_tokens!,
          reasoning: row.reasoning_tokens!,
        },
  costNanodollars: row.cost,
  savedNanodollars: row.saved,
  startedAtMs: row.started_at,
})
