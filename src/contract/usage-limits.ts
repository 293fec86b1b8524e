import { type Principal, type TenantId, userIdOf } from './principal.ts'

/** The caller of a use. `profiles` are the ids of the agent, gateway or proxy through which it goes. */
export type UsageSubject = Readonly<{
  tenant: TenantId
  user?: string
  teams: readonly string[]
  profiles: readonly string[]
  virtualKey?: string
}>

/** An MCP server by the id of its catalogue item, or `OWN_SERVER`; a tool by the id that tool assignments use. */
type CountedCall = Readonly<{ server: string; tool: string }>

/** The name of this server's own tools in limits. */
export const OWN_SERVER = 'castellan'

/**
 * What may be used, and what is left. Amounts of money are whole billionths of a US dollar: a request may cost less than a millionth.
 *
 * 1. A use reserves its cost in advance from every limit that applies, or from none.
 * 2. All reservations together never exceed a limit. A cost beyond its reservation counts, so that the next use is refused.
 *    A use whose cost has no bound that it says itself reserves what it may cost at most. If there is not so much left, it reserves the
 *    rest. Of those uses there is only one at a time in a process, so that one use at most exceeds the limit.
 * 3. A reservation that is never settled counts as spent: a crash never frees any amount. Both throw or reject with
 *    ERR_LIMIT_EXCEEDED, which names the limit, what is left of it, and when it resets.
 * 4. If only reservations of uses under way stand in the way, the cost waits for them, and then rejects with ERR_RATE_LIMITED.
 */
export type UsageLimits = Readonly<{
  /** For one request to a model. A promise only if the store must be read, or other uses must settle first. */
  reserveCost(
    subject: UsageSubject,
    /** A limit applies if it counts one of them. */
    models: readonly string[],
    /** In billionths of a dollar. Called only if a limit applies; what it throws is thrown. */
    amount: () => number | CostRange,
    signal?: () => AbortSignal,
  ): CostReservation | Promise<CostReservation>
  countCall(subject: UsageSubject, call: CountedCall): void | Promise<void>
}>

/** `least` must be left. `most` is reserved, or the rest if that is less. */
export type CostRange = Readonly<{ least: number; most: number }>

export type CostReservation = Readonly<{
  /**
   * The actual cost, and the model that answered: limits that count it pay too, even if nothing was reserved from them. Settles
   * once; further calls do nothing.
   */
  settle(nanodollars: number, answering?: string): void
}>

const subjects = new WeakMap<Principal, UsageSubject>()

/** One object for each principal. */
export function usageSubjectOf(principal: Principal): UsageSubject {
  const known = subjects.get(principal)
  if (known !== undefined) return known
  const user = principal.user ?? userIdOf(principal.onBehalfOf ?? '')
  const subject = {
    tenant: principal.tenant,
    ...(user !== undefined && { user }),
    teams: principal.teams,
    profiles: [principal.agent, principal.gateway].filter((id) => id !== undefined),
  }
  subjects.set(principal, subject)
  return subject
}
