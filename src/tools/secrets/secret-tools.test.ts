import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { movableClock, openTestApp, type TestApp } from '../../../test/support/app.ts'

type Link = { reference: string; url: string; expires_at: string }
const VALUE = 'ghp_0123456789-"quoted"-ü'
const HOUR_MS = 3_600_000

let clock = movableClock()
let app: TestApp
beforeEach(async () => {
  clock = movableClock()
  app = await openTestApp({ clock })
})
afterEach(() => app[Symbol.asyncDispose]())

const tokenOf = ({ url }: Link): string => new URL(url).pathname.slice('/secrets/'.length)
const ask = (purpose = 'Token'): Promise<Link> => app.ask<Link>('secret_link_create', { purpose })
const submit = (link: Link, value = VALUE) => ({ token: tokenOf(link), values: { value } })
const allBytes = (): Buffer =>
  Buffer.concat(
    readdirSync(app.dataDir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name))),
  )

describe('a link for a secret', () => {
  it('takes the value once, and nothing shows or stores it', async () => {
    const link = await ask('Token of the build')
    expect(link.reference).toMatch(/^secret:sec_[\w-]+$/)
    expect(await app.ask('secret_list')).toMatchObject({ secrets: [{ purpose: 'Token of the build', entered: false }] })
    await app.ask('secret_link_submit', submit(link))
    expect(await app.ask('secret_list')).toMatchObject({ secrets: [{ owner: 'owner', entered: true }] })
    expect(await app.refusal('secret_link_submit', submit(link))).toMatchObject({ code: 'ERR_NOT_FOUND' })
    const [last] = (await app.log()).filter(({ tool, outcome }) => tool === 'secret_link_submit' && outcome === 'ok')
    expect(last?.effects?.map(({ kind }) => kind)).toEqual(['secret_entered', 'secret_link_used'])
    await app.stop()
    const bytes = allBytes()
    for (const form of [VALUE, JSON.stringify(VALUE).slice(1, -1), tokenOf(link)])
      expect(bytes.includes(form)).toBe(false)
    expect(statSync(join(app.dataDir, 'secret-key.json')).mode & 0o777).toBe(0o600)
  })

  it('is refused in the same words when it is too old, used, or never was', async () => {
    const used = await ask()
    await app.ask('secret_link_submit', submit(used))
    const old = await ask()
    clock.advance(HOUR_MS)
    const never = { token: 'x'.repeat(43), values: { value: VALUE } }
    const refusals = await Promise.all(
      [submit(used), submit(old), never].map((input) => app.refusal('secret_link_submit', input)),
    )
    expect(new Set(refusals.map(({ code, message }) => `${code} ${message}`)).size).toBe(1)
  })

  it('serves the caller that asked for it alone', async () => {
    const link = await ask()
    const other = await app.keyCaller({ role: 'admin', tier: 'operator' })
    const foreign = await app.keyCaller({ tenant: 'other', role: 'admin' })
    for (const caller of [other, foreign]) {
      expect(await app.refusal('secret_link_submit', submit(link), caller)).toMatchObject({ code: 'ERR_NOT_FOUND' })
    }
    await app.ask('secret_link_submit', submit(link))
  })

  it('wants a value', async () => {
    const link = await ask()
    expect(await app.refusal('secret_link_submit', submit(link, ''))).toMatchObject({ code: 'ERR_INVALID_INPUT' })
    await app.ask('secret_link_submit', submit(link))
  })

  it('is listed for its owner, and for administrators', async () => {
    const member = await app.keyCaller({ role: 'member' })
    const admin = await app.keyCaller({ role: 'admin' })
    const foreign = await app.keyCaller({ tenant: 'other', role: 'admin' })
    await app.ask('secret_link_create', { purpose: 'mine' }, member)
    await ask('of the owner')
    const purposes = async (caller?: typeof member) =>
      (await app.ask<{ secrets: { purpose: string }[] }>('secret_list', {}, caller)).secrets.map(
        ({ purpose }) => purpose,
      )
    expect(await purposes(member)).toEqual(['mine'])
    expect((await purposes(admin)).sort()).toEqual(['mine', 'of the owner'])
    expect(await purposes(foreign)).toEqual([])
  })
})

describe('the key of the secrets', () => {
  const keyFile = () =>
    JSON.parse(readFileSync(join(app.dataDir, 'secret-key.json'), 'utf8')) as { aes256_keys: string[] }
  const sealedIn = () =>
    app.behindItsBack(
      (db) => db.prepare('SELECT key_id, sealed FROM secrets').all() as { key_id: string; sealed: string }[],
    )

  it('is rotated for the secrets of all tenants, and the old one is forgotten', async () => {
    await app.ask('secret_link_submit', submit(await ask()))
    const foreign = await app.keyCaller({ tenant: 'other' })
    const link = await app.ask<Link>('secret_link_create', { purpose: 'theirs' }, foreign)
    await app.ask('secret_link_submit', submit(link), foreign)
    const before = { file: keyFile(), rows: sealedIn() }
    const answer = await app.ask<{ key: string; rotated: number }>('secret_rotate')
    expect(answer).toMatchObject({ rotated: 2, unreadable: 0 })
    expect(keyFile().aes256_keys).toHaveLength(1)
    expect(keyFile().aes256_keys[0]).not.toBe(before.file.aes256_keys[0])
    expect(sealedIn().map(({ key_id }) => key_id)).toEqual([answer.key, answer.key])
    expect(sealedIn().map(({ sealed }) => sealed)).not.toEqual(before.rows.map(({ sealed }) => sealed))
    // The next rotation decrypts what this one encrypted.
    expect(await app.ask('secret_rotate')).toMatchObject({ rotated: 2, unreadable: 0 })
  })

  it('leaves what it cannot decrypt, and says so', async () => {
    await app.ask('secret_link_submit', submit(await ask()))
    writeFileSync(
      join(app.dataDir, 'secret-key.json'),
      JSON.stringify({ aes256_keys: [Buffer.alloc(32, 1).toString('base64')] }),
    )
    const before = sealedIn()
    expect(await app.ask('secret_rotate')).toMatchObject({ rotated: 0, unreadable: 1 })
    expect(sealedIn()).toEqual(before)
    expect(keyFile().aes256_keys).toHaveLength(2)
  })

  it('is rotated by nobody but the operator of the installation', async () => {
    const admin = await app.keyCaller({ role: 'admin' })
    const foreign = await app.keyCaller({ tenant: 'other', role: 'admin', tier: 'operator' })
    for (const caller of [admin, foreign]) {
      expect(await app.refusal('secret_rotate', {}, caller)).toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
    }
  })

  it('may come from the configuration, and its first part encrypts', async () => {
    const [old, next] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString('base64'))
    const { dataDir } = app
    await app.stop()
    app = await openTestApp({ clock, dataDir, config: { secret_key: old! } })
    await app.ask('secret_link_submit', submit(await ask()))
    expect(readdirSync(dataDir)).not.toContain('secret-key.json')
    await app.stop()
    app = await openTestApp({ clock, dataDir, config: { secret_key: `${next},${old}` } })
    expect(await app.ask('secret_rotate')).toMatchObject({ rotated: 1, unreadable: 0 })
    await app.stop()
    app = await openTestApp({ clock, dataDir, config: { secret_key: next! } })
    expect(await app.ask('secret_rotate')).toMatchObject({ rotated: 0, unreadable: 0 })
  })
})
