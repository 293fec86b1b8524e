import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { CleanupInterval, EntityType, LimitType } from '../../contract/limit-kinds.ts'
import { limits } from '../../contract/limits.ts'
import { isPermitted } from '../../contract/permissions.ts'
import type { Principal } from '../../contract/principal.ts'
import { ruledNameOf } from '../../contract/tool-spellings.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import type { Limit, LimitStatus, LimitStore, LimitUse } from './ports.ts'
import { capacityOf, displayedAmount } from './rules.ts'
import type { UsageAccounting } from './usage-limits.ts'

export type LimitedEntity = Readonly<{ id: string; name: string }>

/** By id or name; undefined if there is none, or the caller may not see it. */
export type LimitedThings = Readonly<{
  entity(read: ReadTx, principal: Principal, type: EntityType, reference: string): Promise<LimitedEntity | undefined>
  server(read: ReadTx, principal: Principal, name: string): Promise<Readonly<{ id: string; name: string }> | undefined>
  /** A tool of the server. */
  tool(
    read: ReadTx,
    principal: Principal,
    serverId: string,
    name: string,
  ): Promise<Readonly<{ id: string; name: string }> | undefined>
}>

type LimitDeps = Readonly<{
  store: LimitStore
  accounting: Pick<UsageAccounting, 'noteChange' | 'statusOf'>
  things: LimitedThings
  random: Random
}>

type NewLimit = Readonly<{
  entity_type: EntityType
  entity_id: string
  limit_type: LimitType
  limit_value: number
  model?: readonly string[] | null | undefined
  cleanup_interval?: CleanupInterval | undefined
  mcp_server_name?: string | undefined
  tool_name?: string | undefined
}>

export type LimitService = ReturnType<typeof createLimitService>

/** The limits of an organisation, a team, a user, an agent or a virtual key in each period. */
export function createLimitService({ store, accounting, things, random }: LimitDeps) {
  async function create(call: Call, input: NewLimit) {
    const { principal, nowMs } = call
    const { tenant } = principal
    requireFields(input)
    const entity = await things.entity(call.read, principal, input.entity_type, input.entity_id)
    if (entity === undefined) throw noEntity(input.entity_type)
    const limit: Limit = {
      tenant,
      id: randomId(random, 'limit'),
      entityType: input.entity_type,
      entityId: entity.id,
      limitType: input.limit_type,
      value: requireValue(input.limit_type, input.limit_value),
      models: modelsOf(input.model),
      interval: input.cleanup_interval ?? 'calendar_month',
      ...(await countedBy(call, input)),
      anchorMs: nowMs,
      createdAtMs: nowMs,
      createdBy: principal.actor,
    }
    const existing = await store.listLimits(call.read, tenant)
    const same = existing.find((other) => isSameBound(other, limit))
    if (same !== undefined) throw duplicate(isPermitted(principal, 'llmLimit:read') ? { id: same.id } : {})
    if (existing.length >= limits.usageLimitsMax) {
      throw new AppError(
        'ERR_QUOTA_EXCEEDED',
        `The maximum of ${existing.length} limits is reached. Delete one that is not needed.`,
      )
    }
    await store.insertLimit(call.write, tenant, limit)
    accounting.noteChange(tenant)
    call.record({ kind: 'limit_created', body: { ...viewOf(limit), by: principal.actor } })
    return { limit: displayed(limit, entity, accounting.statusOf({ ...limit, ...unused }, nowMs)) }
  }

  async function countedBy(call: Call, input: NewLimit): Promise<Pick<Limit, 'server' | 'tool'>> {
    const { mcp_server_name: name, tool_name } = input
    if (name === undefined) return { server: null, tool: null }
    const server = await things.server(call.read, call.principal, name)
    if (server === undefined) {
      throw notFound('mcp_server_name', "MCP server that you can see; 'castellan' is this server itself")
    }
    if (tool_name === undefined) return { server, tool: null }
    const tool = await things.tool(call.read, call.principal, server.id, tool_name)
    if (tool === undefined) throw notFound('tool_name', 'tool of that server; get_mcp_server_tools lists them')
    return { server, tool }
  }

  async function find(call: Call, id: string): Promise<Limit & LimitUse> {
    const found = await store.findLimit(call.read, call.principal.tenant, id)
    if (found !== undefined) return found
    throw new AppError('ERR_NOT_FOUND', 'id: there is no such limit; get_limits lists them', { field: 'id' })
  }

  const entityOf = ({ read, principal }: Pick<Call, 'read' | 'principal'>, { entityType, entityId }: Limit) =>
    things.entity(read, principal, entityType, entityId)

  /** A limit of something that was deleted binds nobody. It stays, with what was used, until a person deletes it. */
  function warnOfDeleted(call: Pick<Call, 'warn'>, found: readonly Limit[]): void {
    for (const { id, entityType } of found.slice(0, limits.staleReferencesMax)) {
      call.warn(`You see no ${entityType} that the limit ${id} is for; it may have been deleted.`)
    }
  }

  return {
    create,

    async list(
      call: Pick<Call, 'read' | 'principal' | 'nowMs' | 'warn'>,
      input: Readonly<{ entity_type?: EntityType | undefined; entity_id?: string | undefined }>,
    ) {
      const { principal, nowMs } = call
      const all = await store.listLimits(call.read, principal.tenant)
      const ids = new Set<string | undefined>([input.entity_id])
      if (input.entity_id !== undefined && input.entity_type !== undefined) {
        ids.add((await things.entity(call.read, principal, input.entity_type, input.entity_id))?.id)
      }
      const found = all
        .filter(({ entityType }) => input.entity_type === undefined || entityType === input.entity_type)
        .filter(({ entityId }) => input.entity_id === undefined || ids.has(entityId))
      const entities = new Map<Limit, LimitedEntity | undefined>()
      for (const limit of found) entities.set(limit, await entityOf(call, limit))
      warnOfDeleted(
        call,
        found.filter((limit) => entities.get(limit) === undefined),
      )
      return {
        limits: found.map((limit) => displayed(limit, entities.get(limit), accounting.statusOf(limit, nowMs))),
      }
    },

    /** With another interval, a new period begins now, with nothing used. */
    async update(
      call: Call,
      input: Readonly<{
        id: string
        limit_value?: number | undefined
        cleanup_interval?: CleanupInterval | undefined
      }>,
    ) {
      const { principal, nowMs } = call
      const before = await find(call, input.id)
      const interval = input.cleanup_interval ?? before.interval
      const isNewInterval = interval !== before.interval
      const value = input.limit_value === undefined ? before.value : requireValue(before.limitType, input.limit_value)
      const after = { ...before, value, interval, ...(isNewInterval && { anchorMs: nowMs, ...unused }) }
      await store.saveLimit(call.write, principal.tenant, after, isNewInterval)
      accounting.noteChange(principal.tenant)
      call.record({ kind: 'limit_updated', body: { ...viewOf(after), by: principal.actor } })
      return { limit: displayed(after, await entityOf(call, after), accounting.statusOf(after, nowMs)) }
    },

    async remove(call: Call, { id }: Readonly<{ id: string }>) {
      const { principal } = call
      await find(call, id)
      await store.deleteLimit(call.write, principal.tenant, id)
      accounting.noteChange(principal.tenant)
      call.record({ kind: 'limit_deleted', body: { id, by: principal.actor } })
      return { success: true, id }
    },
  }
}

const unused: LimitUse = { periodStartMs: 0, used: 0 }

const fieldsOf: Readonly<
  Record<LimitType, Readonly<{ needs: readonly (keyof NewLimit)[]; refuses: readonly (keyof NewLimit)[] }>>
> = {
  token_cost: { needs: [], refuses: ['mcp_server_name', 'tool_name'] },
  mcp_server_calls: { needs: ['mcp_server_name'], refuses: ['tool_name', 'model'] },
  tool_calls: { needs: ['mcp_server_name', 'tool_name'], refuses: ['model'] },
}

function requireFields(input: NewLimit): void {
  const { needs, refuses } = fieldsOf[input.limit_type]
  for (const field of needs) {
    if (input[field] === undefined) {
      throw new AppError('ERR_INVALID_INPUT', `${field}: a limit of the type ${input.limit_type} needs it`, { field })
    }
  }
  for (const field of refuses) {
    if (input[field] !== undefined && input[field] !== null) {
      const message = `${field}: a limit of the type ${input.limit_type} does not have this field; omit it`
      throw new AppError('ERR_INVALID_INPUT', message, { field })
    }
  }
}

function requireValue(limitType: LimitType, value: number): number {
  if (limitType !== 'token_cost' && !Number.isInteger(value)) {
    throw new AppError('ERR_INVALID_INPUT', 'limit_value: a number of calls must be a whole number', {
      field: 'limit_value',
    })
  }
  return value
}

const modelsOf = (models: readonly string[] | null | undefined): readonly string[] | null =>
  models === null || models === undefined || models.length === 0 ? null : [...new Set(models)]

const isSameBound = (one: Limit, other: Limit): boolean =>
  one.entityType === other.entityType &&
  one.entityId === other.entityId &&
  one.limitType === other.limitType &&
  one.interval === other.interval &&
  one.server?.id === other.server?.id &&
  ruledNameOf(one.tool?.id ?? '') === ruledNameOf(other.tool?.id ?? '') &&
  JSON.stringify(one.models?.toSorted()) === JSON.stringify(other.models?.toSorted())

const duplicate = (details: Readonly<{ id?: string }>): AppError =>
  new AppError(
    'ERR_ALREADY_EXISTS',
    'The same limit already exists for this interval. Change it with update_limit.',
    details,
  )

const notFound = (field: string, what: string): AppError =>
  new AppError('ERR_NOT_FOUND', `${field}: there is no such ${what}`, { field })

const entityHints: Readonly<Record<EntityType, string>> = {
  organization: 'organisation; give the id of your own, which whoami shows',
  team: 'team of people; give its id or name',
  agent: 'agent, gateway or proxy that you can see; give its id or name',
  user: 'user; give the id or the e-mail address',
  virtual_key: 'virtual key; give its id or name',
}
const noEntity = (type: EntityType): AppError => notFound('entity_id', entityHints[type])

const viewOf = (limit: Limit) => ({
  id: limit.id,
  entityType: limit.entityType,
  entityId: limit.entityId,
  limitType: limit.limitType,
  limitValue: limit.value,
  cleanupInterval: limit.interval,
  model: limit.models === null ? null : [...limit.models],
  mcpServerName: limit.server?.name ?? null,
  toolName: limit.tool?.name ?? null,
})

const displayed = (limit: Limit, entity: LimitedEntity | undefined, { used, resetsAtMs }: LimitStatus) => ({
  ...viewOf(limit),
  entityName: entity?.name ?? null,
  used: displayedAmount(limit, used),
  remaining: displayedAmount(limit, Math.max(0, capacityOf(limit) - used)),
  resetsAt: isoTime(resetsAtMs),
})
