import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { LOCAL_TENANT } from '../../contract/principal.ts'
import { networkOf } from '../../kernel/address-network.ts'
import { counted } from '../../kernel/counted.ts'
import type { PeopleStore, SignInOutcome } from './ports.ts'
import { failuresOf, signInWaitMs } from './rules.ts'

/** The e-mail address is empty while it is unknown, as with a passkey: then only the network address counts. */
type Attempt = Readonly<{ email: string; address: string; nowMs: number }>

/**
 * Sign-in attempts are slowed by e-mail address and by network address, and each is recorded. An unknown e-mail address is
 * treated like a known one: the answer must not reveal it.
 *
 * 1. An attempt in progress counts as a failure, so that concurrent attempts cannot evade the count.
 * 2. Rejected attempts are recorded once a minute, and never displace the failures that caused the rejection.
 */
export type SignInGuard = Readonly<{
  /**
   * Throws ERR_RATE_LIMITED while the next attempt must wait. The returned function is called when the outcome has been recorded.
   */
  admit(attempt: Attempt): Promise<() => void>
  note(attempt: Attempt, outcome: SignInOutcome): Promise<void>
}>

const NOTED_AGAIN_MS = 60_000
const NOTED_MAX = 1_000

export function createSignInGuard(
  deps: Readonly<{ store: PeopleStore; database: Pick<Database, 'read' | 'write'> }>,
): SignInGuard {
  const { store, database } = deps
  const beingTried = new Map<string, number>()
  const notedAtMs = new Map<string, number>()
  let triedAtOnce = 0

  /** Returns how many of the key there were before, and a function that removes this one. */
  function count(key: string): Readonly<{ before: number; end(): void }> {
    const before = beingTried.get(key) ?? 0
    beingTried.set(key, before + 1)
    return {
      before,
      end() {
        const now = beingTried.get(key)! - 1
        if (now === 0) beingTried.delete(key)
        else beingTried.set(key, now)
      },
    }
  }

  async function note(attempt: Attempt, outcome: SignInOutcome): Promise<void> {
    const { email, address, nowMs: atMs } = attempt
    const user = await store.findUserByEmail(database.read, email)
    const row = { atMs, email, address, outcome, tenant: user?.tenant ?? LOCAL_TENANT, userId: user?.id ?? null }
    await database.write(row.tenant, (tx) => store.insertAttempt(tx, row))
  }

  async function noteSlowed(attempt: Attempt, key: string): Promise<void> {
    const lastMs = notedAtMs.get(key)
    if (lastMs !== undefined && attempt.nowMs - lastMs < NOTED_AGAIN_MS && attempt.nowMs >= lastMs) return
    if (notedAtMs.size >= NOTED_MAX) notedAtMs.clear()
    notedAtMs.set(key, attempt.nowMs)
    await note(attempt, 'slowed')
  }

  /** The wait of the attempt; `others` are in progress. */
  async function waitOf(attempt: Attempt, others: Readonly<{ email: number; address: number }>) {
    const sinceMs = attempt.nowMs - limits.signInWindowMs
    const isKnown = attempt.email !== ''
    const attempts = isKnown ? await store.attemptsOf(database.read, attempt.email, sinceMs) : []
    const isNext =
      isKnown && others.email > 0 && failuresOf(attempts).length + others.email >= limits.signInFreeFailures
    const emailMs = Math.max(signInWaitMs(attempts, attempt.nowMs), isNext ? limits.signInWaitMs : 0)
    const refusedHere = await store.countRefusedFrom(database.read, attempt.address, sinceMs)
    const isTooMany = refusedHere + others.address >= limits.signInFailuresPerAddressMax
    return { emailMs, addressMs: isTooMany ? limits.signInWaitMsMax : 0 }
  }

  return {
    note,
    async admit(attempt) {
      if (triedAtOnce >= limits.signInsAtOnceMax) {
        throw new AppError('ERR_BUSY', 'Too many people sign in at once. Try again in a moment.', {
          retry_after_ms: 2_000,
        })
      }
      triedAtOnce++
      const byEmail = count(`email ${attempt.email}`)
      const byAddress = count(`address ${networkOf(attempt.address)}`)
      function release(): void {
        triedAtOnce--
        byEmail.end()
        byAddress.end()
      }
      try {
        const { emailMs, addressMs } = await waitOf(attempt, { email: byEmail.before, address: byAddress.before })
        const retryMs = Math.max(emailMs, addressMs)
        if (retryMs === 0) return release
        await noteSlowed(attempt, addressMs > 0 ? `address ${networkOf(attempt.address)}` : `email ${attempt.email}`)
        const message = `Too many attempts to sign in have failed. Try again in ${waitText(retryMs)}.`
        throw new AppError('ERR_RATE_LIMITED', message, { retry_after_ms: retryMs })
      } catch (error) {
        release()
        throw error
      }
    },
  }
}

export const waitText = (ms: number): string =>
  ms > 90_000 ? counted(Math.ceil(ms / 60_000), 'minute') : counted(Math.ceil(ms / 1_000), 'second')
