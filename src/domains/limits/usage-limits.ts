import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import { ruledNameOf } from '../../contract/tool-spellings.ts'
import type { CostRange, CostReservation, UsageLimits, UsageSubject } from '../../contract/usage-limits.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { createKeyedMutex } from '../../kernel/keyed-mutex.ts'
import type { Logger } from '../../kernel/logger.ts'
import { type Account, createAccounts, type LimitAccounts, type Reserved, type Share } from './accounts.ts'
import { periodAt } from './periods.ts'
import type { Limit, LimitStatus, LimitStore, LimitUse } from './ports.ts'
import { blockOf, capacityOf, countsModel, displayedAmount, unitOf, unitsOf } from './rules.ts'

export type UsageLimitDeps = Readonly<{
  store: Pick<LimitStore, 'listLimits' | 'findLimit' | 'saveUse' | 'addUse'>
  database: Pick<Database, 'read' | 'write' | 'flush'>
  clock: Clock
  logger: Logger
  /** The time zone of calendar periods. */
  timeZone: string
  /** Whether uses are allowed while the store cannot say what is left. */
  failOpen: boolean
  /** How long a request waits for other reservations to settle, before it is refused. */
  waitMs: number
}>

export type UsageAccounting = UsageLimits &
  Readonly<{
    /** Called within the transaction that changes limits. Later callers get the changed limits. */
    noteChange(tenant: TenantId): void
    /** The use of a limit as stored, without this process's unused share. */
    statusOf(limit: Limit & LimitUse, nowMs: number): LimitStatus
    /** Reloads the limits: another process may have changed them. */
    refresh(): Promise<void>
    /** Returns shares that are not needed now. */
    giveBack(scope: 'idle' | 'all'): Promise<void>
  }>

type Applies = (limit: Limit) => boolean
const noLimit: CostReservation = { settle() {} }
const nothing: Reserved = { amount: 0, isOpen: false }
const oneCall = (): number => 1
/** A clock that was set back could keep a use from ever getting what the store has. */
const LOST_TURNS_MAX = 100
const isOfCalls = ({ limit }: Account): boolean => limit.limitType !== 'token_cost'
/** Nothing that is under way makes room. A call that is being counted returns nothing. */
const isFull = (account: Account, least: number): boolean =>
  !account.mayHold(isOfCalls(account) ? least + account.reserved() : least)
const nameOf = ({ limitType, entityType }: Limit): string => `The ${limitType} limit of the ${entityType}`

function rangeOf(needed: number | CostRange): CostRange {
  const { least, most } = typeof needed === 'number' ? { least: needed, most: needed } : needed
  return { least: Math.max(0, Math.ceil(least)), most: Math.max(0, Math.ceil(most)) }
}

/**
 * Reserves and counts. A process takes durable blocks of each limit and spends them from memory, so that most uses wait for no
 * disk, and several processes share one limit. A crash loses unspent blocks, and never frees any amount.
 */
export function createUsageLimits(deps: UsageLimitDeps): UsageAccounting {
  const { store, database, clock, logger } = deps
  const mutex = createKeyedMutex()
  const accountsByTenant = new Map<TenantId, LimitAccounts>()
  const loading = new Map<TenantId, Promise<LimitAccounts>>()

  async function load(tenant: TenantId, after: Promise<void>): Promise<LimitAccounts> {
    await after
    const rows = await store.listLimits(database.read, tenant)
    const { accounts, changed, ended } = createAccounts(
      rows,
      accountsByTenant.get(tenant),
      clock.nowMs(),
      deps.timeZone,
    )
    accountsByTenant.set(tenant, accounts)
    await returnShares(tenant, changed)
    for (const account of [...changed, ...ended]) account.wake()
    return accounts
  }

  function loaded(tenant: TenantId): LimitAccounts | Promise<LimitAccounts> {
    return loading.get(tenant) ?? accountsByTenant.get(tenant) ?? loadAfter(tenant, Promise.resolve())
  }

  /** Callers meanwhile wait for it. */
  function loadAfter(tenant: TenantId, after: Promise<void>): Promise<LimitAccounts> {
    const pending = load(tenant, after).finally(() => {
      if (loading.get(tenant) === pending) loading.delete(tenant)
    })
    loading.set(tenant, pending)
    pending.catch(() => {})
    return pending
  }

  function take(
    subject: UsageSubject,
    applies: Applies,
    needed: () => number | CostRange,
    signal: (() => AbortSignal) | undefined,
  ): CostReservation | Promise<CostReservation> {
    const tenantAccounts = loaded(subject.tenant)
    if (tenantAccounts instanceof Promise) {
      return tenantAccounts.then(
        () => take(subject, applies, needed, signal),
        (error: unknown) => unknownLimits(error),
      )
    }
    if (tenantAccounts.isEmpty) return noLimit
    const accounts = tenantAccounts.of(subject, applies, clock.nowMs())
    if (accounts.length === 0) return reservation(subject, accounts, 0)
    const range = rangeOf(needed())
    if (accounts.every((account) => account.available() >= range.most)) {
      return reservation(subject, accounts, range.most)
    }
    return takeMore(subject, applies, range, signal?.())
  }

  async function takeMore(
    subject: UsageSubject,
    applies: Applies,
    range: CostRange,
    signal: AbortSignal | undefined,
  ): Promise<CostReservation> {
    const { tenant } = subject
    const { least, most } = range
    const patienceEndsMs = clock.monotonicMs() + deps.waitMs
    const isShort = (account: Account): boolean => account.available() < most
    const isLacking = (account: Account): boolean =>
      account.available() < least || (isShort(account) && account.hasOpen())
    let lostTurns = 0
    for (let hasLeased = false; ; ) {
      signal?.throwIfAborted()
      const accounts = (await loaded(tenant)).of(subject, applies, clock.nowMs())
      if (!accounts.some(hasLeased ? isLacking : isShort)) return reservation(subject, accounts, most)
      try {
        await mutex.withLock(tenant, () => lease(tenant, accounts.filter(isShort), range), signal)
      } catch (error) {
        signal?.throwIfAborted()
        return unknownLimits(error)
      }
      hasLeased = true
      const lacking = accounts.filter(isLacking)
      if (lacking.length === 0) continue
      const hasLostTurns = lostTurns === LOST_TURNS_MAX
      const full = lacking.find((account) => isFull(account, least) || (hasLostTurns && isOfCalls(account)))
      if (full !== undefined) throw exceeded(full, range)
      // Others spent what was there while this waited for its turn, and the store has more.
      if (!hasLostTurns && lacking.some((account) => isOfCalls(account) || !account.isInUse())) {
        lostTurns++
        continue
      }
      const patienceMs = patienceEndsMs - clock.monotonicMs()
      if (patienceMs <= 0) throw occupied(lacking[0]!, range)
      await lacking[0]!.nextChange(patienceMs, signal)
    }
  }

  /** Takes a block of each limit, or as much as is needed, or the rest; nothing of a limit with too little left. */
  async function lease(tenant: TenantId, accounts: readonly Account[], { least, most }: CostRange): Promise<void> {
    const nowMs = clock.nowMs()
    const short = accounts.filter((account) => account.available() < most)
    if (short.length === 0) return
    const granted = await database.write(tenant, async (tx) => {
      const grants: (() => void)[] = []
      for (const account of short) {
        const row = await store.findLimit(tx, tenant, account.limit.id)
        if (row === undefined) {
          grants.push(account.drop)
          continue
        }
        const { startMs } = periodAt(row.interval, row.anchorMs, nowMs, deps.timeZone)
        const used = row.periodStartMs === startMs ? row.used : 0
        const left = unitsOf(row) - used
        const unitsFor = (amount: number): number => Math.ceil((amount - account.available()) / unitOf(row))
        const block = blockOf(row, account.lastBlock(), nowMs)
        const grant = unitsFor(least) <= left ? Math.max(0, Math.min(Math.max(unitsFor(most), block), left)) : 0
        const use = { periodStartMs: startMs, used: used + grant }
        if (grant > 0) await store.saveUse(tx, tenant, row.id, use)
        grants.push(() => account.grant(row, { amount: grant, atMs: nowMs }, use))
      }
      return grants
    })
    for (const apply of granted) apply()
  }

  /** So much of each, or the rest. */
  function reservation(subject: UsageSubject, accounts: readonly Account[], most: number): CostReservation {
    const { tenant } = subject
    const shares = accounts.map((account) => {
      const amount = Math.min(most, account.available())
      const reserved = { amount, isOpen: amount < most }
      return { share: account.reserve(reserved), reserved }
    })
    let isSettled = false
    return {
      settle(cost, answering) {
        if (isSettled) return
        isSettled = true
        const paid = Math.max(0, Math.ceil(cost))
        for (const { share, reserved } of shares) pay(tenant, share, reserved, paid)
        if (answering === undefined || paid === 0) return
        for (const account of accountsByTenant.get(tenant)?.of(subject, ofCost([answering]), clock.nowMs()) ?? []) {
          const isPaid = shares.some(({ share }) => share.limitId === account.limit.id)
          if (!isPaid) pay(tenant, account.reserve(nothing), nothing, paid)
        }
      },
    }
  }

  function pay(tenant: TenantId, share: Share, reserved: Reserved, cost: number): void {
    const over = share.settle(reserved, cost)
    if (over > 0) void addUse(tenant, share.limitId, share.periodStartMs, over)
  }

  async function addUse(tenant: TenantId, id: string, periodStartMs: number, used: number): Promise<void> {
    try {
      await database.write(tenant, async (tx) => {
        const use = { periodStartMs, used }
        const row = used > 0 ? await store.findLimit(tx, tenant, id) : undefined
        const isFirst =
          row !== undefined &&
          row.periodStartMs < periodStartMs &&
          periodAt(row.interval, row.anchorMs, periodStartMs, deps.timeZone).startMs === periodStartMs
        // Nothing was taken of this limit in the period, if its model answered under another name.
        await (isFirst ? store.saveUse(tx, tenant, id, use) : store.addUse(tx, tenant, id, use))
      })
    } catch (error) {
      logger.error('the use of a limit could not be recorded', { limit: id, amount: used, cause: String(error) })
    }
  }

  async function returnShares(tenant: TenantId, accounts: readonly Account[]): Promise<void> {
    for (const account of accounts) {
      const { amount, periodStartMs } = account.release()
      if (amount > 0) await addUse(tenant, account.limit.id, periodStartMs, -amount)
    }
  }

  function unknownLimits(error: unknown): CostReservation {
    if (!deps.failOpen) throw error
    logger.warn('limits are not enforced while the store fails (limits.fail_open is true)', { cause: String(error) })
    return noLimit
  }

  function exceeded(account: Account, { least, most }: CostRange): AppError {
    const { limit } = account
    const amount = account.available() < least ? least : most
    const isOpen = most > least
    const unbounded = amount === least ? 'an answer of limits.default_output_tokens' : 'the longest answer of its model'
    const answer = isOpen ? unbounded : 'its max_tokens'
    const status = account.status()
    const details = detailsOf(account, amount)
    const unit = limit.limitType === 'token_cost' ? ' US dollars' : ' calls'
    const { resets_at: resetsAt, remaining: left, needed } = details
    const name = nameOf(limit)
    const isUsedUp = left <= 0 || limit.limitType !== 'token_cost'
    return new AppError(
      'ERR_LIMIT_EXCEEDED',
      isUsedUp
        ? `${name} is reached: of ${limit.value}${unit}, ${left} are left, and this needs ${needed}. It resets at ${resetsAt}.${isOpen ? ' Set max_tokens, so that less is reserved.' : ''}`
        : `${name} does not cover this request: of ${limit.value}${unit}, ${left} are left, and with its input and ${answer} the request may cost ${needed}. Set ${isOpen ? 'max_tokens' : 'a smaller max_tokens'} (for an agent, max_output_tokens of its model), have the limit raised with update_limit, or wait until it resets at ${resetsAt}.`,
      { ...details, retry_after_ms: Math.max(0, status.resetsAtMs - clock.nowMs()) },
    )
  }

  /** What is not spent is enough, but others have reserved it. It soon will be there. */
  function occupied(account: Account, { least, most }: CostRange): AppError {
    const { limit } = account
    const details = detailsOf(account, account.available() < least ? least : most)
    const { current_usage: used, reserved, needed } = details
    const hint =
      most > least ? ' Set max_tokens (for an agent, max_output_tokens of its model), so that less is reserved.' : ''
    return new AppError(
      'ERR_RATE_LIMITED',
      `${nameOf(limit)} is not reached, but requests in progress have reserved what is left: of ${limit.value} US dollars, ${used} are used and ${reserved} are reserved, and this request may cost ${needed}. What they do not use is returned when they end, so send it again in a moment.${hint}`,
      { ...details, retry_after_ms: limits.usageRetryMs },
    )
  }

  /** Reservations are apart from what is used. Neither is left. */
  function detailsOf(account: Account, needed: number) {
    const { limit } = account
    const { used, remaining, resetsAtMs } = account.status()
    const show = (value: number): number => displayedAmount(limit, value)
    return {
      limit_id: limit.id,
      limit_type: limit.limitType,
      entity_type: limit.entityType,
      entity_id: limit.entityId,
      limit_value: limit.value,
      current_usage: show(used - account.reserved()),
      reserved: show(account.reserved()),
      remaining: show(remaining),
      needed: show(needed),
      resets_at: isoTime(resetsAtMs),
    }
  }

  const ofCost =
    (models: readonly string[]): Applies =>
    (limit) =>
      limit.limitType === 'token_cost' && models.some((model) => countsModel(limit, model))

  return {
    reserveCost: (subject, models, amount, signal) => take(subject, ofCost(models), amount, signal),
    countCall(subject, { server, tool }) {
      const ruled = ruledNameOf(tool)
      const taken = take(
        subject,
        ({ limitType, server: limited, tool: named }) =>
          limitType === 'tool_calls'
            ? ruledNameOf(named?.id ?? '') === ruled
            : limitType === 'mcp_server_calls' && limited?.id === server,
        oneCall,
        undefined,
      )
      if (taken instanceof Promise) return taken.then((reserved) => reserved.settle(1))
      taken.settle(1)
    },
    noteChange(tenant) {
      void loadAfter(tenant, database.flush())
    },
    statusOf(limit, nowMs) {
      const { startMs, endMs } = periodAt(limit.interval, limit.anchorMs, nowMs, deps.timeZone)
      const own = accountsByTenant.get(limit.tenant)?.find(limit.id)?.unspent(startMs) ?? 0
      const used = Math.max(0, (limit.periodStartMs === startMs ? limit.used * unitOf(limit) : 0) - own)
      return { used, remaining: Math.max(0, capacityOf(limit) - used), resetsAtMs: endMs }
    },
    async refresh() {
      await Promise.all([...accountsByTenant.keys()].map((tenant) => loadAfter(tenant, Promise.resolve())))
    },
    async giveBack(scope) {
      const nowMs = clock.nowMs()
      for (const [tenant, tenantAccounts] of accountsByTenant) {
        const accounts = tenantAccounts.all().filter((account) => scope === 'all' || account.isIdle(nowMs))
        await returnShares(tenant, accounts)
      }
    },
  }
}
