import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SealGate } from '../../src/domains/seal/gate.ts'
import { callerOf, movableClock, openTestApp, type TestApp } from '../support/app.ts'
import { newSigner, seal, toolCall } from '../support/seal.ts'

/** Setting the clock of the machine back does not bring back what had expired: not at once, and not with a new start. */
const HOUR_MS = 3_600_000
let clock: ReturnType<typeof movableClock>
let app: TestApp

beforeEach(async () => {
  clock = movableClock()
  app = await openTestApp({ clock })
})
afterEach(() => app[Symbol.asyncDispose]())

const setBack = (ms: number) => {
  const wallMs = clock.nowMs
  const before = wallMs()
  clock = movableClock(before - ms)
}

/** The program, started again on a machine whose clock was set back. */
async function restartedBehind(ms: number): Promise<void> {
  await app.stop()
  setBack(ms)
  app = await openTestApp({ clock, dataDir: app.dataDir })
}

const newKey = async (expires_in: string) =>
  (await app.ask<{ secret: string }>('api_key_create', { name: 'agent', role: 'admin', expires_in })).secret

const isLive = async (secret: string): Promise<boolean> => {
  const { identity } = await app.app.ready
  try {
    await identity!.authenticate(secret, app.app.clock.nowMs())
    return true
  } catch {
    return false
  }
}

describe('a key that has expired', () => {
  it('stays expired while the program runs', async () => {
    const secret = await newKey('1h')
    expect(await isLive(secret)).toBe(true)
    clock.advance(2 * HOUR_MS)
    expect(await isLive(secret)).toBe(false)
    clock.advance(-1.5 * HOUR_MS)
    expect(await isLive(secret)).toBe(false)
  })

  it('stays expired after an orderly end', async () => {
    const secret = await newKey('1h')
    clock.advance(2 * HOUR_MS)
    await restartedBehind(1.5 * HOUR_MS)
    expect(await isLive(secret)).toBe(false)
    const { keys } = await app.ask<{ keys: { status: string }[] }>('api_key_list')
    expect(keys.map(({ status }) => status)).toEqual(['expired'])
  })

  it('stays expired after a crash, once it was refused', async () => {
    const secret = await newKey('1h')
    clock.advance(2 * HOUR_MS)
    expect(await isLive(secret)).toBe(false)
    await (await app.app.ready).database!.flush()
    setBack(1.5 * HOUR_MS)
    await using second = await openTestApp({ clock, dataDir: app.dataDir })
    const { identity } = await second.app.ready
    await expect(identity!.authenticate(secret, second.app.clock.nowMs())).rejects.toThrow()
  })
})

describe('a signed call', () => {
  it('that was made is not made again, though the clock says that its time has come again', async () => {
    const signer = newSigner()
    const caller = await app.keyCaller({ role: 'admin' })
    const attested = await app.ask<{ security_token: string }>(
      'seal_session_create',
      { public_key: signer.publicKey },
      caller,
    )
    const envelope = JSON.stringify(seal(signer, attested.security_token, toolCall('server_ping'), clock.nowMs()))
    const open = async () => await ((await app.app.ready).seal as SealGate).read(envelope).open()
    await open()
    clock.advance(10 * 60_000)
    await expect(open()).rejects.toThrow(/timestamp/)
    await restartedBehind(10 * 60_000)
    app.behindItsBack((db) => db.exec('DELETE FROM seal_messages'))
    await expect(open()).rejects.toThrow(/timestamp/)
  })
})

describe('the time of the server', () => {
  it('is told to be ahead, and is taken back only by an operator, on the record', async () => {
    clock.advance(2 * HOUR_MS)
    await app.ask('task_list')
    await restartedBehind(HOUR_MS)
    const health = await app.ask<{ status: string; problems: string[] }>('server_health')
    expect(health).toMatchObject({ status: 'degraded', problems: [expect.stringMatching(/clock_reset/)] })
    const untrusted = await app.keyCaller({ tenant: 'other', role: 'admin', tier: 'operator' })
    expect(await app.refusal('clock_reset', { reason: 'x' }, callerOf(untrusted.principal))).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
    })
    const { to } = await app.ask<{ to: string }>('clock_reset', { reason: 'the clock was an hour ahead' })
    expect(Math.abs(Date.parse(to) - clock.nowMs())).toBeLessThan(1_000)
    expect(await app.ask('server_health')).toMatchObject({ status: 'ok' })
    const effects = (await app.log()).flatMap((record) => record.effects ?? [])
    expect(effects.at(-1)).toMatchObject({ kind: 'clock_reset', body: { reason: 'the clock was an hour ahead' } })
    await restartedBehind(0)
    expect(await app.ask('server_health')).toMatchObject({ status: 'ok' })
  })
})
