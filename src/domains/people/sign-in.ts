import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { LOCAL_TENANT } from '../../contract/principal.ts'
import type { PeopleStore, SignInOutcome } from './ports.ts'
import { signInWaitMs } from './rules.ts'

export type Attempt = Readonly<{ email: string; address: string; nowMs: number }>

/**
 * Attempts to sign in are slowed by the e-mail address that is tried and by the address they come from, and each is recorded. An
 * address of which there is no user is treated as one of which there is: the answer must not tell.
 */
export type SignInGuard = Readonly<{
  /** Throws ERR_RATE_LIMITED while the next attempt has to wait. */
  admit(attempt: Attempt): Promise<void>
  note(attempt: Attempt, outcome: SignInOutcome): Promise<void>
}>

export function createSignInGuard(
  deps: Readonly<{ store: PeopleStore; database: Pick<Database, 'read' | 'write'> }>,
): SignInGuard {
  const { store, database } = deps

  async function note(attempt: Attempt, outcome: SignInOutcome): Promise<void> {
    const { email, address, nowMs: atMs } = attempt
    const user = await store.findUserByEmail(database.read, email)
    const row = { atMs, email, address, outcome, tenant: user?.tenant ?? LOCAL_TENANT, userId: user?.id ?? null }
    await database.write(row.tenant, (tx) => store.insertAttempt(tx, row))
  }

  return {
    note,
    async admit(attempt) {
      const sinceMs = attempt.nowMs - limits.signInWindowMs
      const waitMs = signInWaitMs(await store.attemptsOf(database.read, attempt.email, sinceMs), attempt.nowMs)
      const refusedHere = await store.countRefusedFrom(database.read, attempt.address, sinceMs)
      const addressWaitMs = refusedHere >= limits.signInFailuresPerAddressMax ? limits.signInWaitMsMax : 0
      const retryMs = Math.max(waitMs, addressWaitMs)
      if (retryMs === 0) return
      await note(attempt, 'slowed')
      throw new AppError('ERR_RATE_LIMITED', 'Too many attempts to sign in have failed. Wait, then try again.', {
        retry_after_ms: retryMs,
      })
    },
  }
}
