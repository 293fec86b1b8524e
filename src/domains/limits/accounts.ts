import { limits } from '../../contract/limits.ts'
import type { UsageSubject } from '../../contract/usage-limits.ts'
import { type Period, periodAt } from './periods.ts'
import type { Limit, LimitStatus, LimitUse } from './ports.ts'
import { capacityOf, entityKey } from './rules.ts'

/** The part of a limit that this process has taken in one period: spent, reserved, or still there. */
export type Share = Readonly<{
  limitId: string
  periodStartMs: number
  /** Answers what the use cost beyond all that was taken. */
  settle(reserved: number, cost: number): number
}>

/** One limit, and what this process has of it. */
export type Account = Readonly<{
  limit: Limit
  available(): number
  reserve(amount: number): Share
  /** What the store gave, out of what it says is used now. What was given for a period that is over is gone. */
  grant(limit: Limit, amount: number, use: LimitUse): void
  /** The limit is not there any more. */
  drop(): void
  /** Whether the amount would be there if everything that is reserved came back. */
  mayHold(amount: number): boolean
  /** Resolves when something may have come back, or after the time. Rejects when the signal is aborted. */
  nextChange(ms: number, signal: AbortSignal | undefined): Promise<void>
  /** Takes what is there out of the account, for it to be given back. */
  release(): Readonly<{ amount: number; periodStartMs: number }>
  /** What is neither spent nor reserved, in a period. */
  unspent(periodStartMs: number): number
  isIdle(nowMs: number): boolean
  status(): LimitStatus
  /** Begins the next period, if it is time. */
  advance(nowMs: number): void
}>

/** The limits of a tenant, by whom they bind. */
export type LimitBook = Readonly<{
  of(subject: UsageSubject, applies: (limit: Limit) => boolean, nowMs: number): readonly Account[]
  find(id: string): Account | undefined
  all(): readonly Account[]
}>

const noAccounts: readonly Account[] = []

/** An account whose limit stays the same goes on. `changed` are those before it that do not: what they have must be given back. */
export function createAccounts(
  found: readonly (Limit & LimitUse)[],
  before: LimitBook | undefined,
  nowMs: number,
  timeZone: string,
): Readonly<{ book: LimitBook; changed: readonly Account[] }> {
  const byId = new Map<string, Account>()
  const byEntity = new Map<string, Account[]>()
  for (const row of found) {
    const known = before?.find(row.id)
    const account = known !== undefined && isSame(known.limit, row) ? known : createAccount(row, nowMs, timeZone)
    byId.set(row.id, account)
    const key = entityKey(row.entityType, row.entityId)
    const others = byEntity.get(key)
    if (others === undefined) byEntity.set(key, [account])
    else others.push(account)
  }
  const book: LimitBook = {
    of(subject, applies, atMs) {
      if (byId.size === 0) return noAccounts
      const accounts: Account[] = []
      for (const key of keysOf(subject)) {
        for (const account of byEntity.get(key) ?? noAccounts) {
          if (!applies(account.limit)) continue
          account.advance(atMs)
          accounts.push(account)
        }
      }
      return accounts
    },
    find: (id) => byId.get(id),
    all: () => [...byId.values()],
  }
  return { book, changed: before?.all().filter((account) => byId.get(account.limit.id) !== account) ?? [] }
}

/** The nearest first: its refusal is the one that is told. */
function keysOf({ tenant, user, teams, profiles, virtualKey }: UsageSubject): readonly string[] {
  return [
    ...(virtualKey === undefined ? [] : [entityKey('virtual_key', virtualKey)]),
    ...(user === undefined ? [] : [entityKey('user', user)]),
    ...profiles.map((id) => entityKey('agent', id)),
    ...teams.map((id) => entityKey('team', id)),
    entityKey('organization', tenant),
  ]
}

const isSame = (one: Limit, other: Limit): boolean =>
  one.value === other.value && one.interval === other.interval && one.anchorMs === other.anchorMs

type OpenShare = Share & { leased: number; spent: number; reserved: number; readonly period: Period }

function createAccount(row: Limit & LimitUse, openedMs: number, timeZone: string): Account {
  let limit: Limit = row
  let isDropped = false
  let lastUsedMs = openedMs
  const waiting = new Set<() => void>()
  let share = newShare(openedMs)
  let usedByAll = row.periodStartMs === share.periodStartMs ? row.used : 0

  function newShare(nowMs: number): OpenShare {
    const period = periodAt(limit.interval, limit.anchorMs, nowMs, timeZone)
    const made: OpenShare = {
      limitId: limit.id,
      periodStartMs: period.startMs,
      period,
      leased: 0,
      spent: 0,
      reserved: 0,
      settle(reserved, cost) {
        made.reserved -= reserved
        made.spent += cost
        const over = Math.max(0, made.spent + made.reserved - made.leased)
        made.leased += over
        if (share === made) usedByAll += over
        wake()
        return over
      },
    }
    return made
  }

  function wake(): void {
    for (const resolve of waiting) resolve()
    waiting.clear()
  }

  const available = (): number => (isDropped ? Number.MAX_SAFE_INTEGER : share.leased - share.spent - share.reserved)

  return {
    get limit() {
      return limit
    },
    available,
    reserve(amount) {
      share.reserved += amount
      return share
    },
    grant(newest, amount, { periodStartMs, used }) {
      limit = newest
      if (share.periodStartMs !== periodStartMs) return
      share.leased += amount
      usedByAll = used
    },
    drop() {
      isDropped = true
    },
    mayHold: (amount) => share.reserved > 0 && capacityOf(limit) - (usedByAll - share.leased) - share.spent >= amount,
    async nextChange(ms, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const stop = (): void => reject(signal!.reason)
      const timer = setTimeout(resolve, ms)
      waiting.add(resolve)
      signal?.addEventListener('abort', stop, { once: true })
      try {
        await promise
      } finally {
        clearTimeout(timer)
        waiting.delete(resolve)
        signal?.removeEventListener('abort', stop)
      }
    },
    release() {
      const amount = isDropped ? 0 : Math.max(0, available())
      share.leased -= amount
      usedByAll -= amount
      return { amount, periodStartMs: share.periodStartMs }
    },
    unspent: (periodStartMs) => (share.periodStartMs === periodStartMs && !isDropped ? available() : 0),
    isIdle: (nowMs) => share.reserved === 0 && nowMs - lastUsedMs >= limits.usageShareIdleMs,
    status() {
      const used = usedByAll - (isDropped ? 0 : available())
      return { used, remaining: Math.max(0, capacityOf(limit) - used), resetsAtMs: share.period.endMs }
    },
    advance(nowMs) {
      lastUsedMs = nowMs
      if (nowMs < share.period.endMs) return
      share = newShare(nowMs)
      usedByAll = 0
      wake()
    },
  }
}
