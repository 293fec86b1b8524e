import type { EntityType } from '../../contract/limit-kinds.ts'
import { namesOfModel } from '../../contract/model-names.ts'
import type { Limit } from './ports.ts'

const MICRODOLLARS = 1_000_000

/** The capacity of a period: millionths of a dollar, or calls. */
export const capacityOf = ({ limitType, value }: Pick<Limit, 'limitType' | 'value'>): number =>
  limitType === 'token_cost' ? Math.round(value * MICRODOLLARS) : Math.floor(value)

/** An amount in the limit's own unit. */
export const displayedAmount = ({ limitType }: Pick<Limit, 'limitType'>, amount: number): number =>
  limitType === 'token_cost' ? amount / MICRODOLLARS : amount

const BLOCK_SHARE = 50
const COST_BLOCK = 50_000
const CALL_BLOCK = 32

/** A process that takes blocks faster takes larger ones, so that it takes few in a second. */
const BUSY_MS = 1_000

/** The last block that a process took. */
export type TakenBlock = Readonly<{ amount: number; atMs: number }>

/** The block that a process takes at once. A crash loses at most one of each limit. */
export function blockOf(
  limit: Pick<Limit, 'limitType' | 'value'>,
  last: TakenBlock | undefined,
  nowMs: number,
): number {
  const least = limit.limitType === 'token_cost' ? COST_BLOCK : CALL_BLOCK
  const isBusy = last !== undefined && nowMs - last.atMs < BUSY_MS
  return Math.min(isBusy ? Math.max(least, 2 * last.amount) : least, Math.ceil(capacityOf(limit) / BLOCK_SHARE))
}

export function countsModel({ models }: Pick<Limit, 'models'>, model: string): boolean {
  if (models === null || models.length === 0) return true
  const names = namesOfModel(model)
  return models.some((named) => names.some((name) => coversModel(named.toLowerCase(), name)))
}

/** Suffixes of providers for a version of a model: `-20251101`, `-2025-08-07`, `@20251101`, `-001`, `-latest`. */
const VERSION = /^(?:[-@]\d{6,8}|-\d{4}-\d{2}-\d{2}|-\d{3}|[-@]latest)$/

function coversModel(named: string, model: string): boolean {
  if (named.endsWith('*')) return model.startsWith(named.slice(0, -1))
  return model.startsWith(named) && (model.length === named.length || VERSION.test(model.slice(named.length)))
}

/** The key under which uses of an entity are found. */
export const entityKey = (type: EntityType, id: string): string => `${type}/${id}`
