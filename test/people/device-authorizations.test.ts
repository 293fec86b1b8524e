import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { limits } from '../../src/contract/limits.ts'
import { lastWrittenFirst } from '../../src/contract/list-page.ts'
import { LOCAL_TENANT } from '../../src/contract/principal.ts'
import { createDeviceAuthorizations } from '../../src/domains/people/device-authorizations.ts'
import type { User } from '../../src/domains/people/ports.ts'
import { principalOfUser } from '../../src/domains/people/rules.ts'
import { createSignInGuard } from '../../src/domains/people/sign-in.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import { sqlDeviceStore } from '../../src/stores/sql/device-store.ts'
import { sqlPeopleLists } from '../../src/stores/sql/people-lists.ts'
import { sqlPeopleStore as store } from '../../src/stores/sql/people-store.ts'
import { sqlServiceClientStore } from '../../src/stores/sql/service-client-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const NOW_MS = Date.UTC(2026, 10, 17)
const CLIENT = 'client_terminal'
const ada: User = {
  tenant: LOCAL_TENANT,
  id: 'user_ada',
  email: 'ada@example.com',
  name: 'Ada',
  role: 'member',
  tier: 'user',
  createdBy: 'owner',
  createdAtMs: NOW_MS,
}
const eve: User = { ...ada, id: 'user_eve', email: 'eve@example.com' }
const at = (user: User, address = '203.0.113.9') => ({ principal: principalOfUser(user, new Set(), []), address })
const request = {
  clientId: CLIENT,
  scopes: ['offline_access', 'terminal'],
  resources: ['https://castellan.example/mcp'],
  address: '198.51.100.7',
}

describe.each(dialects)('terminals that wait for a person in %s', (dialect) => {
  let database: Database
  let nowMs = NOW_MS
  let devices: ReturnType<typeof open>

  const open = () =>
    createDeviceAuthorizations({
      store: sqlDeviceStore,
      people: store,
      database,
      guard: createSignInGuard({ store, database }),
      random: systemRandom,
      clock: { nowMs: () => nowMs },
    })
  const write = <T>(work: Parameters<typeof database.write<T>>[1]) => database.write(LOCAL_TENANT, work)
  const passMs = (ms: number) => {
    nowMs += ms
  }
  /** The terminal asks again as soon as it may. */
  const next = async (code: string, client = CLIENT) => {
    passMs(limits.devicePollMs)
    return await devices.redeem(code, client)
  }

  beforeEach(async () => {
    nowMs = NOW_MS
    database = await openEmpty(dialect)
    devices = open()
    for (const user of [ada, eve]) await write((tx) => store.insertUser(tx, user))
    const client = { tenant: LOCAL_TENANT, id: CLIENT, name: 'terminal', secretHash: '', role: 'member' } as const
    const more = { tier: 'user', gateways: [], createdAtMs: NOW_MS, createdBy: 'owner' } as const
    await write((tx) => sqlServiceClientStore.insertClient(tx, { ...client, ...more }))
  })
  afterEach(() => database.close())

  test('yield what was asked for once, to the client that asked, after the person allowed it', async () => {
    const { deviceCode, userCode } = await devices.start(request)
    expect(userCode).toMatch(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/)
    expect(await next(deviceCode)).toEqual({ error: 'authorization_pending' })
    const typed = userCode.toLowerCase().replace('-', ' ')
    expect(await devices.find(typed, at(ada))).toMatchObject({ ...request, userCode })
    await devices.answer(typed, true, at(ada))
    expect(await next(deviceCode, 'client_other')).toEqual({ error: 'invalid_grant' })
    const { scopes, resources } = request
    expect(await next(deviceCode)).toEqual({ userId: ada.id, scopes, resources })
    expect(await next(deviceCode)).toEqual({ error: 'invalid_grant' })
    expect(await store.listGrants(database.read, ada.id)).toMatchObject([{ clientName: 'terminal' }])
    expect(
      await sqlPeopleLists.attempts(database.read, LOCAL_TENANT, {}).rows(lastWrittenFirst.first, 10),
    ).toMatchObject([{ outcome: 'device_allowed', email: ada.email, address: '203.0.113.9' }])
  })

  test('are answered once, though two people answer at the same time in two processes', async () => {
    const { deviceCode, userCode } = await devices.start(request)
    const outcomes = await Promise.allSettled([
      devices.answer(userCode, true, at(ada)),
      open().answer(userCode, false, at(eve)),
    ])
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    const isAllowed = outcomes[0]!.status === 'fulfilled'
    expect(await next(deviceCode)).toMatchObject(isAllowed ? { userId: ada.id } : { error: 'access_denied' })
  })

  test('give one token, though the terminal asks twice at the same time', async () => {
    const { deviceCode, userCode } = await devices.start(request)
    await devices.answer(userCode, true, at(ada))
    const answers = await Promise.all([devices.redeem(deviceCode, CLIENT), open().redeem(deviceCode, CLIENT)])
    expect(answers.filter((answer) => 'userId' in answer)).toHaveLength(1)
  })

  test('learn that the person did not allow it, and nobody has consented', async () => {
    const { deviceCode, userCode } = await devices.start(request)
    await devices.answer(userCode, false, at(ada))
    for (const _ of [1, 2]) expect(await next(deviceCode)).toEqual({ error: 'access_denied' })
    expect(await store.listGrants(database.read, ada.id)).toEqual([])
    await expect(devices.find(userCode, at(ada))).rejects.toMatchObject({ code: 'ERR_NOT_FOUND' })
  })

  test('wait longer each time after asking too soon', async () => {
    const { deviceCode } = await devices.start(request)
    expect(await next(deviceCode)).toEqual({ error: 'authorization_pending' })
    passMs(limits.devicePollMs - 1)
    expect(await devices.redeem(deviceCode, CLIENT)).toEqual({ error: 'slow_down' })
    passMs(limits.devicePollMs)
    expect(await devices.redeem(deviceCode, CLIENT)).toEqual({ error: 'slow_down' })
    passMs(limits.devicePollMs + 2 * limits.devicePollAddedMs)
    expect(await devices.redeem(deviceCode, CLIENT)).toEqual({ error: 'authorization_pending' })
  })

  test('expire, allowed or not, and make room for others', async () => {
    const [waiting, allowed] = [await devices.start(request), await devices.start(request)]
    await devices.answer(allowed.userCode, true, at(ada))
    passMs(limits.deviceCodeMs)
    for (const { deviceCode } of [waiting, allowed])
      expect(await devices.redeem(deviceCode, CLIENT)).toEqual({ error: 'expired_token' })
    await expect(devices.answer(waiting.userCode, true, at(ada))).rejects.toMatchObject({ code: 'ERR_NOT_FOUND' })
    passMs(limits.deviceCodeMs + 1)
    await devices.start(request)
    expect(await sqlDeviceStore.countDevices(database.read, request.address)).toEqual({ all: 1, here: 1 })
  })

  test('outlive the process that they asked', async () => {
    const { deviceCode, userCode } = await devices.start(request)
    await open().answer(userCode, true, at(ada))
    passMs(limits.devicePollMs)
    expect(await open().redeem(deviceCode, CLIENT)).toMatchObject({ userId: ada.id })
  })

  test.each(['the client', 'everything'])('get nothing after the person ended %s', async (what) => {
    const { deviceCode, userCode } = await devices.start(request)
    await devices.answer(userCode, true, at(ada))
    const [grant] = await store.listGrants(database.read, ada.id)
    await write(async (tx) => {
      if (what === 'everything') await store.deleteAllSessions(tx, ada.id)
      else await store.deleteGrant(tx, ada.id, grant!.id)
    })
    expect(await next(deviceCode)).toEqual({ error: 'invalid_grant' })
    expect(await store.listGrants(database.read, ada.id)).toEqual([])
  })

  test('are bounded in number from one network', async () => {
    const max = limits.deviceAuthorizationsPerAddressMax
    for (let count = 0; count < max; count++) await devices.start(request)
    await expect(devices.start(request)).rejects.toMatchObject({ code: 'ERR_BUSY' })
    await devices.start({ ...request, address: '192.0.2.1' })
  })

  test('are not found by guessing: wrong codes are slowed, for the person and for the address', async () => {
    const { userCode } = await devices.start(request)
    const wrong = (user: User, address?: string) =>
      devices.find('BBBB-BBBB', at(user, address)).catch(({ code }: { code: string }) => code)
    const tried = await Promise.all(Array.from({ length: 8 }, () => wrong(eve)))
    expect(tried.filter((code) => code === 'ERR_NOT_FOUND')).toHaveLength(limits.signInFreeFailures)
    await expect(devices.find(userCode, at(eve))).rejects.toMatchObject({
      code: 'ERR_RATE_LIMITED',
      details: { retry_after_ms: limits.signInWaitMs },
    })
    // Another process slows them too, and nobody else waits.
    await expect(open().answer(userCode, true, at(eve))).rejects.toMatchObject({ code: 'ERR_RATE_LIMITED' })
    expect(await devices.find(userCode, at(ada))).toMatchObject({ userCode })
    // A person who typed wrong codes can still sign in.
    const attempt = { email: eve.email, address: '203.0.113.9', nowMs }
    ;(await createSignInGuard({ store, database }).admit(attempt))()
    passMs(limits.signInWaitMs)
    expect(await devices.find(userCode, at(eve))).toMatchObject({ userCode })

    const row = { atMs: nowMs, email: 'x@example.com', outcome: 'code_refused', tenant: LOCAL_TENANT } as const
    await write(async (tx) => {
      for (let count = 0; count < limits.signInFailuresPerAddressMax; count++)
        await store.insertAttempt(tx, { ...row, address: '192.0.2.8', userId: null })
    })
    expect(await wrong(ada, '192.0.2.8')).toBe('ERR_RATE_LIMITED')
    expect(await wrong(ada, '192.0.2.9')).toBe('ERR_NOT_FOUND')
  })
})
