import { limits } from '../../contract/limits.ts'
import type { UsageSubject } from '../../contract/usage-limits.ts'
import { type Period, periodAt } from './periods.ts'
import type { Limit, LimitStatus, LimitUse } from './ports.ts'
import { capacityOf, entityKey, type TakenBlock, unitOf, unitsOf } from './rules.ts'

/** This process's part of a limit in one period: spent, reserved, or available. */
export type Share = Readonly<{
  limitId: string
  periodStartMs: number
  /** Returns the units that the cost is beyond all that was taken. */
  settle(reserved: Reserved, cost: number): number
}>

/** `isOpen`: the use may cost more than was left for it. */
export type Reserved = Readonly<{ amount: number; isOpen: boolean }>

/** One limit, and this process's part of it. */
export type Account = Readonly<{
  limit: Limit
  available(): number
  reserve(reserved: Reserved): Share
  /** Whether a use is under way that may cost more than it reserved. */
  hasOpen(): boolean
  /** Adds what the store granted. A grant for an earlier period is void. */
  grant(limit: Limit, block: TakenBlock, use: LimitUse): void
  lastBlock(): TakenBlock | undefined
  /** The limit no longer exists. */
  drop(): void
  /** The limit has another value, in the same periods. */
  change(limit: Limit): void
  /** Who waits for the account looks again. */
  wake(): void
  /** Whether the amount would fit if all reservations were returned. */
  mayHold(amount: number): boolean
  /** What uses under way have reserved. */
  reserved(): number
  isInUse(): boolean
  /** Resolves when something may have been returned, or after the time. Rejects when the signal is aborted. */
  nextChange(ms: number, signal: AbortSignal | undefined): Promise<void>
  /** Removes the available units, to be returned to the store. */
  release(): Readonly<{ amount: number; periodStartMs: number }>
  /** Neither spent nor reserved, in a period. */
  unspent(periodStartMs: number): number
  isIdle(nowMs: number): boolean
  status(): LimitStatus
  /** Begins the next period, if it is time. */
  advance(nowMs: number): void
}>

/** The limits of a tenant, by entity. */
export type LimitAccounts = Readonly<{
  isEmpty: boolean
  of(subject: UsageSubject, applies: (limit: Limit) => boolean, nowMs: number): readonly Account[]
  find(id: string): Account | undefined
  all(): readonly Account[]
}>

const noAccounts: readonly Account[] = []

/**
 * An account continues for as long as its limit has the same periods, because uses under way return to it what they do not need. Of
 * those that `changed`, the available part must be returned. `ended` are former accounts that do not continue, with nothing to return.
 */
export function createAccounts(
  found: readonly (Limit & LimitUse)[],
  before: LimitAccounts | undefined,
  nowMs: number,
  timeZone: string,
): Readonly<{ accounts: LimitAccounts; changed: readonly Account[]; ended: readonly Account[] }> {
  const changed: Account[] = []
  const byId = new Map<string, Account>()
  const byEntity = new Map<string, Account[]>()
  for (const row of found) {
    const known = before?.find(row.id)
    const isKnown = known !== undefined && hasSamePeriods(known.limit, row)
    const account = isKnown ? known : createAccount(row, nowMs, timeZone)
    if (isKnown && known.limit.value !== row.value) {
      known.change(row)
      changed.push(known)
    }
    byId.set(row.id, account)
    const key = entityKey(row.entityType, row.entityId)
    const others = byEntity.get(key)
    if (others === undefined) byEntity.set(key, [account])
    else others.push(account)
  }
  const accounts: LimitAccounts = {
    isEmpty: byId.size === 0,
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
  const ended = before?.all().filter((account) => byId.get(account.limit.id) !== account) ?? []
  return { accounts, changed, ended }
}

const keysOfSubjects = new WeakMap<UsageSubject, readonly string[]>()

/** The nearest first: its refusal is reported. */
function keysOf(subject: UsageSubject): readonly string[] {
  const known = keysOfSubjects.get(subject)
  if (known !== undefined) return known
  const { tenant, user, teams, profiles, virtualKey } = subject
  const keys = [
    ...(virtualKey === undefined ? [] : [entityKey('virtual_key', virtualKey)]),
    ...(user === undefined ? [] : [entityKey('user', user)]),
    ...profiles.map((id) => entityKey('agent', id)),
    ...teams.map((id) => entityKey('team', id)),
    entityKey('organization', tenant),
  ]
  keysOfSubjects.set(subject, keys)
  return keys
}

const hasSamePeriods = (one: Limit, other: Limit): boolean =>
  one.interval === other.interval && one.anchorMs === other.anchorMs

type OpenShare = Share & { leased: number; spent: number; reserved: number; open: number; readonly period: Period }

function createAccount(row: Limit & LimitUse, openedMs: number, timeZone: string): Account {
  let limit: Limit = row
  let isDropped = false
  let lastBlock: TakenBlock | undefined
  let lastUsedMs = openedMs
  const waiting = new Set<() => void>()
  let share = newShare(openedMs)
  const unit = unitOf(row)
  let takenByAll = row.periodStartMs === share.periodStartMs ? row.used : 0

  function newShare(nowMs: number): OpenShare {
    const period = periodAt(limit.interval, limit.anchorMs, nowMs, timeZone)
    const made: OpenShare = {
      limitId: limit.id,
      periodStartMs: period.startMs,
      period,
      leased: 0,
      spent: 0,
      reserved: 0,
      open: 0,
      settle({ amount, isOpen }, cost) {
        made.reserved -= amount
        if (isOpen) made.open--
        made.spent += cost
        // What is left of the last unit is there for the next use.
        const over = Math.ceil(Math.max(0, made.spent + made.reserved - made.leased) / unit)
        made.leased += over * unit
        if (share === made) takenByAll += over
        wake()
        return over
      },
    }
    return made
  }

  function wake(): void {
    if (waiting.size === 0) return
    for (const resolve of waiting) resolve()
    waiting.clear()
  }

  const available = (): number => (isDropped ? Number.MAX_SAFE_INTEGER : share.leased - share.spent - share.reserved)

  return {
    get limit() {
      return limit
    },
    available,
    reserve({ amount, isOpen }) {
      share.reserved += amount
      if (isOpen) share.open++
      return share
    },
    hasOpen: () => share.open > 0,
    lastBlock: () => lastBlock,
    grant(newest, block, { periodStartMs, used }) {
      limit = newest
      if (share.periodStartMs !== periodStartMs) return
      lastBlock = block
      share.leased += block.amount * unit
      takenByAll = used
    },
    drop() {
      isDropped = true
    },
    change(newest) {
      limit = newest
    },
    wake,
    mayHold: (amount) => Math.ceil((amount + share.spent - share.leased) / unit) <= unitsOf(limit) - takenByAll,
    reserved: () => share.reserved,
    isInUse: () => share.reserved > 0 || share.open > 0,
    async nextChange(ms, signal) {
      signal?.throwIfAborted()
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
      const amount = isDropped ? 0 : Math.floor(Math.max(0, available()) / unit)
      share.leased -= amount * unit
      takenByAll -= amount
      return { amount, periodStartMs: share.periodStartMs }
    },
    unspent: (periodStartMs) => (share.periodStartMs === periodStartMs && !isDropped ? available() : 0),
    isIdle: (nowMs) => share.reserved === 0 && nowMs - lastUsedMs >= limits.usageShareIdleMs,
    status() {
      const used = takenByAll * unit - (isDropped ? 0 : available())
      return { used, remaining: Math.max(0, capacityOf(limit) - used), resetsAtMs: share.period.endMs }
    },
    advance(nowMs) {
      lastUsedMs = nowMs
      if (nowMs < share.period.endMs) return
      share = newShare(nowMs)
      takenByAll = 0
      wake()
    },
  }
}
