import { type Principal, type TenantId, userIdOf } from './principal.ts'

/** For whom a use counts. `profiles` are the ids of the agent, gateway or proxy through which it goes. */
export type UsageSubject = Readonly<{
  tenant: TenantId
  user?: string
  teams: readonly string[]
  profiles: readonly string[]
  virtualKey?: string
}>

/** An MCP server by the id of its catalogue item, or `OWN_SERVER`; a tool by the id that tool assignments use. */
export type CountedCall = Readonly<{ server: string; tool: string }>

/** The name under which limits know the tools of this server itself. */
export const OWN_SERVER = 'castellan'

/**
 * What may be used, and what is left. Amounts of money are whole millionths of a US dollar.
 *
 * 1. What is reserved is set aside before the use, from every limit that applies, or from none.
 * 2. All reservations together never exceed a limit. What a use costs beyond its reservation counts, so that the next is refused.
 * 3. A reservation that is never settled counts as spent: after a crash a limit is never larger than before.
 *
 * Both throw or reject with ERR_LIMIT_EXCEEDED, which names the limit, what is left of it, and when it begins anew.
 */
export type UsageLimits = Readonly<{
  /** For one request to a model. A promise only when the store has to be asked, or others must settle first. */
  reserveCost(
    subject: UsageSubject,
    model: string,
    microdollars: number,
    signal?: AbortSignal,
  ): CostReservation | Promise<CostReservation>
  /** Whether a limit on cost binds the subject with this model. */
  limitsCost(subject: UsageSubject, model: string): boolean | Promise<boolean>
  countCall(subject: UsageSubject, call: CountedCall): void | Promise<void>
}>

export type CostReservation = Readonly<{
  /** What it cost in the end. Settles once; another call does nothing. */
  settle(microdollars: number): void
}>

export function usageSubjectOf(principal: Principal): UsageSubject {
  const user = principal.user ?? userIdOf(principal.onBehalfOf ?? '')
  return {
    tenant: principal.tenant,
    ...(user !== undefined && { user }),
    teams: principal.teams,
    profiles: [principal.agent, principal.gateway].filter((id) => id !== undefined),
  }
}
