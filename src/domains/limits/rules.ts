import type { EntityType } from '../../contract/limit-kinds.ts'
import type { Limit } from './ports.ts'

export const MICRODOLLARS = 1_000_000

/** How much may be used in a period: millionths of a dollar, or calls. */
export const capacityOf = ({ limitType, value }: Pick<Limit, 'limitType' | 'value'>): number =>
  limitType === 'token_cost' ? Math.round(value * MICRODOLLARS) : Math.floor(value)

/** An amount in the unit in which the limit was given. */
export const displayedAmount = ({ limitType }: Pick<Limit, 'limitType'>, amount: number): number =>
  limitType === 'token_cost' ? amount / MICRODOLLARS : amount

const BLOCK_SHARE = 50
const COST_BLOCK_MAX = 50_000
const CALL_BLOCK_MAX = 32

/** What a process takes for itself at once. A crash loses at most as much of each limit. */
export const blockOf = (limit: Pick<Limit, 'limitType' | 'value'>): number =>
  Math.min(
    limit.limitType === 'token_cost' ? COST_BLOCK_MAX : CALL_BLOCK_MAX,
    Math.ceil(capacityOf(limit) / BLOCK_SHARE),
  )

export const countsModel = ({ models }: Pick<Limit, 'models'>, model: string): boolean =>
  models === null ||
  models.length === 0 ||
  models.some((named) => coversModel(named.toLowerCase(), model.toLowerCase()))

/** What providers add to the name of a model for one of its versions: `-20251101`, `-2025-08-07`, `@20251101`, `-001`, `-latest`. */
const VERSION = /^(?:[-@]\d{6,8}|-\d{4}-\d{2}-\d{2}|-\d{3}|[-@]latest)$/

function coversModel(named: string, model: string): boolean {
  if (named.endsWith('*')) return model.startsWith(named.slice(0, -1))
  return model.startsWith(named) && (model.length === named.length || VERSION.test(model.slice(named.length)))
}

/** Under which uses of an entity are found. */
export const entityKey = (type: EntityType, id: string): string => `${type}/${id}`
