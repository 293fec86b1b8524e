import type { EntityType } from '../../contract/limit-kinds.ts'
import { namesOfModel } from '../../contract/model-names.ts'
import type { Limit } from './ports.ts'

const MICRODOLLARS = 1_000_000
const NANODOLLARS = 1_000_000_000

/**
 * What is stored and what a process takes of a limit are whole units, each of so many of the amounts that uses cost: a process spends
 * billionths of a dollar from the millionths that it took. Billionths of the largest limit would not be exact.
 */
export const unitOf = ({ limitType }: Pick<Limit, 'limitType'>): number => (limitType === 'token_cost' ? 1_000 : 1)

/** The capacity of a period in units: millionths of a dollar, or calls. */
export const unitsOf = ({ limitType, value }: Pick<Limit, 'limitType' | 'value'>): number =>
  limitType === 'token_cost' ? Math.round(value * MICRODOLLARS) : Math.floor(value)

/** The capacity of a period: billionths of a dollar, or calls. */
export const capacityOf = (limit: Pick<Limit, 'limitType' | 'value'>): number => unitsOf(limit) * unitOf(limit)

/** An amount as people see it: dollars, or calls. */
export const displayedAmount = ({ limitType }: Pick<Limit, 'limitType'>, amount: number): number =>
  limitType === 'token_cost' ? amount / NANODOLLARS : amount

const BLOCK_SHARE = 50
const COST_BLOCK = 50_000
const CALL_BLOCK = 32

/** A process that takes blocks faster takes larger ones, so that it takes few in a second. */
const BUSY_MS = 1_000

/** The last block that a process took, in units. */
export type TakenBlock = Readonly<{ amount: number; atMs: number }>

/** The block that a process takes at once, in units. A crash loses at most one of each limit. */
export function blockOf(
  limit: Pick<Limit, 'limitType' | 'value'>,
  last: TakenBlock | undefined,
  nowMs: number,
): number {
  const least = limit.limitType === 'token_cost' ? COST_BLOCK : CALL_BLOCK
  const isBusy = last !== undefined && nowMs - last.atMs < BUSY_MS
  return Math.min(isBusy ? Math.max(least, 2 * last.amount) : least, Math.ceil(unitsOf(limit) / BLOCK_SHARE))
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
