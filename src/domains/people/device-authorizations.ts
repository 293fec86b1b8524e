import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { LOCAL_TENANT, type Principal } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import { createKeyedMutex } from '../../kernel/keyed-mutex.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import type { DeviceAuthorization, DeviceStore, PeopleStore } from './ports.ts'
import { hashOfToken, waitAfterMs } from './rules.ts'
import { type SignInGuard, waitText } from './sign-in.ts'

/** The terminal's request, as the authorisation server has checked it. */
type DeviceRequest = Readonly<{
  clientId: string
  scopes: readonly string[]
  resources: readonly string[]
  address: string
}>

type StartedDevice = Readonly<{ deviceCode: string; userCode: string; expiresInMs: number; intervalMs: number }>

/** Why a terminal gets no token, in the terms of RFC 8628. */
type DeviceRefusal = 'authorization_pending' | 'slow_down' | 'access_denied' | 'expired_token' | 'invalid_grant'

/** What a terminal was allowed. */
type AllowedDevice = Readonly<{ userId: string; scopes: readonly string[]; resources: readonly string[] }>

/** The person at the page, who is signed in. */
type Answering = Readonly<{ principal: Principal; address: string }>

/**
 * Terminals without a browser (RFC 8628): a terminal shows a code, a person types it on the page of this server, and the terminal
 * asks until the person has answered.
 *
 * 1. A code is valid for minutes, is answered once, and yields a token once. All of it is in the store, so a restart loses nothing.
 * 2. Wrong codes of a person, and those from a network address, are slowed like passwords. A person tries one at a time.
 */
export type DeviceAuthorizations = Readonly<{
  /** Throws ERR_BUSY if too many terminals wait. */
  start(request: DeviceRequest): Promise<StartedDevice>
  /** The terminal asks for its token. */
  redeem(deviceCode: string, clientId: string): Promise<Readonly<{ error: DeviceRefusal }> | AllowedDevice>
  /** Throws ERR_NOT_FOUND for a code that is unknown, answered or expired, and ERR_RATE_LIMITED after too many of these. */
  find(userCode: string, who: Answering): Promise<DeviceAuthorization>
  /** Throws like `find`. */
  answer(userCode: string, accept: boolean, who: Answering): Promise<void>
}>

/** Consonants that are not confused with each other or with digits, and spell no words. */
const USER_CODE_LETTERS = 'BCDFGHJKLMNPQRSTVWXZ'
const USER_CODE_LENGTH = 8

export function createDeviceAuthorizations(
  deps: Readonly<{
    store: DeviceStore
    people: Pick<PeopleStore, 'codeFailuresOf' | 'countRefusedFrom' | 'insertAttempt'>
    database: Pick<Database, 'read' | 'write'>
    guard: Pick<SignInGuard, 'note'>
    random: Random
    clock: Pick<Clock, 'nowMs'>
  }>,
): DeviceAuthorizations {
  const { store, people, database, guard, random, clock } = deps
  const { withLock } = createKeyedMutex()

  async function unusedUserCode(tx: ReadTx): Promise<string> {
    for (;;) {
      const code = newUserCode(random)
      if ((await store.findDeviceByUserCode(tx, code)) === undefined) return code
    }
  }

  async function requireNoWait({ principal, address }: Answering): Promise<void> {
    const nowMs = clock.nowMs()
    const sinceMs = nowMs - limits.signInWindowMs
    const failures = await people.codeFailuresOf(database.read, principal.actor, sinceMs)
    const here = await people.countRefusedFrom(database.read, address, sinceMs, 'code_refused')
    const addressMs = here >= limits.signInFailuresPerAddressMax ? limits.signInWaitMsMax : 0
    const retryMs = Math.max(waitAfterMs(failures, nowMs), addressMs)
    if (retryMs === 0) return
    const message = `Too many codes were wrong. Try again in ${waitText(retryMs)}.`
    throw new AppError('ERR_RATE_LIMITED', message, { retry_after_ms: retryMs })
  }

  /** The caller holds the lock of the person. */
  async function findPending(userCode: string, who: Answering): Promise<DeviceAuthorization> {
    await requireNoWait(who)
    const code = userCode.toUpperCase().replaceAll(/[^A-Z0-9]/g, '')
    const isCode = code.length === USER_CODE_LENGTH
    const found = isCode ? await store.findDeviceByUserCode(database.read, code) : undefined
    if (found?.status === 'pending' && found.expiresAtMs > clock.nowMs()) return found
    throw await refusedCode(who)
  }

  async function refusedCode({ principal, address }: Answering): Promise<AppError> {
    await guard.note({ email: principal.actor, address, nowMs: clock.nowMs() }, 'code_refused')
    const message =
      'This code is wrong, was already used, or has expired. Compare it with the terminal, or run castellan login --device again there.'
    return new AppError('ERR_NOT_FOUND', message)
  }

  return {
    start: ({ clientId, scopes, resources, address }) =>
      database.write(LOCAL_TENANT, async (tx) => {
        const nowMs = clock.nowMs()
        // Expired ones are still recognised for a while, so that a terminal learns why it gets no token.
        await store.deleteExpiredDevices(tx, nowMs - limits.deviceCodeMs)
        const { all, here } = await store.countDevices(tx, address)
        if (all >= limits.deviceAuthorizationsMax || here >= limits.deviceAuthorizationsPerAddressMax) {
          const message = 'Too many terminals wait to be signed in. Try again later.'
          throw new AppError('ERR_BUSY', message, { retry_after_ms: 60_000 })
        }
        const deviceCode = `csd_${random.bytes(32).toString('base64url')}`
        const device: DeviceAuthorization = {
          id: randomId(random, 'device'),
          codeHash: hashOfToken(deviceCode),
          userCode: await unusedUserCode(tx),
          clientId,
          scopes,
          resources,
          address,
          createdAtMs: nowMs,
          expiresAtMs: nowMs + limits.deviceCodeMs,
          status: 'pending',
          userId: null,
          intervalMs: limits.devicePollMs,
          polledAtMs: null,
        }
        await store.insertDevice(tx, device)
        const { devicePollMs: intervalMs, deviceCodeMs: expiresInMs } = limits
        return { deviceCode, userCode: displayedUserCode(device.userCode), expiresInMs, intervalMs }
      }),

    redeem: (deviceCode, clientId) =>
      database.write(LOCAL_TENANT, async (tx) => {
        const nowMs = clock.nowMs()
        const device = await store.findDeviceByHash(tx, hashOfToken(deviceCode))
        if (device === undefined || device.clientId !== clientId) return { error: 'invalid_grant' }
        if (device.expiresAtMs <= nowMs) return { error: 'expired_token' }
        const { polledAtMs, intervalMs } = device
        // A clock that was set back delays nobody.
        const isTooSoon = polledAtMs !== null && nowMs >= polledAtMs && nowMs - polledAtMs < intervalMs
        if (isTooSoon) {
          const slowerMs = Math.min(intervalMs + limits.devicePollAddedMs, limits.deviceCodeMs)
          await store.notePoll(tx, device.id, { polledAtMs: nowMs, intervalMs: slowerMs })
          return { error: 'slow_down' }
        }
        if (device.status === 'denied') return { error: 'access_denied' }
        if (device.status === 'pending') {
          await store.notePoll(tx, device.id, { polledAtMs: nowMs, intervalMs })
          return { error: 'authorization_pending' }
        }
        if (!(await store.takeAllowed(tx, device.id))) return { error: 'invalid_grant' }
        return { userId: device.userId!, scopes: device.scopes, resources: device.resources }
      }),

    find: (userCode, who) =>
      withLock(who.principal.actor, async () => {
        const found = await findPending(userCode, who)
        return { ...found, userCode: displayedUserCode(found.userCode) }
      }),

    answer: (userCode, accept, who) =>
      withLock(who.principal.actor, async () => {
        const { id, clientId, scopes, resources } = await findPending(userCode, who)
        const { tenant, user, actor } = who.principal
        const isAnswered = await database.write(tenant, async (tx) => {
          const nowMs = clock.nowMs()
          const answer = { status: accept ? 'allowed' : 'denied', userId: user!, nowMs } as const
          if (!(await store.answerDevice(tx, id, answer))) return false
          if (!accept) return true
          const granted = { userId: user!, clientId, scopes, resources }
          await store.insertConsent(tx, { id: randomId(random, 'oauthconsent'), ...granted, atMs: nowMs })
          const noted = { email: actor, address: who.address, outcome: 'device_allowed', tenant } as const
          await people.insertAttempt(tx, { ...noted, atMs: nowMs, userId: user! })
          return true
        })
        if (!isAnswered) throw await refusedCode(who)
      }),
  }
}

/** Each letter is equally likely: bytes beyond the last whole multiple are not used. */
function newUserCode(random: Random): string {
  const bound = 256 - (256 % USER_CODE_LETTERS.length)
  let code = ''
  while (code.length < USER_CODE_LENGTH) {
    for (const byte of random.bytes(USER_CODE_LENGTH)) {
      if (byte < bound && code.length < USER_CODE_LENGTH) code += USER_CODE_LETTERS[byte % USER_CODE_LETTERS.length]
    }
  }
  return code
}

const displayedUserCode = (code: string): string => `${code.slice(0, 4)}-${code.slice(4)}`
