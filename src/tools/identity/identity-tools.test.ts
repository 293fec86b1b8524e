import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type App, buildApp } from '../../app/build-app.ts'
import { loadConfig } from '../../app/config.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import { localOwner, type Principal } from '../../contract/principal.ts'
import type { KeyView } from '../../domains/identity/service.ts'
import { systemClock } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { silentLogger } from '../../kernel/logger.ts'
import { systemRandom } from '../../kernel/random.ts'
import type { ToolCaller } from '../runtime/tool-host.ts'

type CreatedKey = KeyView & Readonly<{ secret: string }>
type LogRecord = Readonly<{ tool: string; outcome: string; effects?: readonly { kind: string; body: object }[] }>

let dataDir: string
let app: App
let isClosed: boolean

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-identity-'))
  const { config } = await loadConfig({
    env: { HOME: dataDir },
    flags: { data_dir: dataDir },
    workingDirectory: dataDir,
  })
  isClosed = false
  app = buildApp({
    config,
    version: '0.0.0',
    clock: systemClock,
    random: systemRandom,
    logger: silentLogger,
    ownerPid: () => process.pid,
  })
})
afterEach(async () => {
  await close()
  rmSync(dataDir, { recursive: true, force: true })
})

async function close(): Promise<void> {
  if (isClosed) return
  isClosed = true
  await app.close()
}

const callerOf = (principal: Principal): ToolCaller => ({
  principal,
  transport: 'http',
  exposure: 'full',
  safeNames: false,
})

const call = (principal: Principal, name: string, args: object = {}) => app.host.call(callerOf(principal), name, args)

const keyToolsOf = async (principal: Principal): Promise<string[]> =>
  (await app.host.list(callerOf(principal))).flatMap(({ name }) => (name.startsWith('api_key_') ? [name] : []))

async function ask<T = KeyView>(principal: Principal, name: string, args: object = {}): Promise<T> {
  const answer = await call(principal, name, args)
  if (answer.isError) throw new Error(answer.json)
  return JSON.parse(answer.json) as T
}

const codeOf = async (principal: Principal, name: string, args: object): Promise<ErrorCode | undefined> =>
  (await call(principal, name, args)).failure?.code

const create = (args: object, principal: Principal = localOwner): Promise<CreatedKey> =>
  ask<CreatedKey>(principal, 'api_key_create', args)

const authenticate = async (secret: string): Promise<Principal> =>
  (await app.ready).identity!.authenticate(secret, systemClock.nowMs())

const listed = async (principal: Principal, tenant?: string): Promise<readonly KeyView[]> =>
  (await ask<{ keys: KeyView[] }>(principal, 'api_key_list', { tenant })).keys

/** The lines of the log of the principal's tenant, its header first. */
async function exported(principal: Principal): Promise<readonly string[]> {
  const page = await ask<{ lines: string[]; next_from: number | null }>(principal, 'log_export')
  expect(page.next_from).toBeNull()
  return page.lines
}

const effectsOf = (lines: readonly string[]) =>
  lines.slice(1).flatMap((line) => (JSON.parse(line) as LogRecord).effects ?? [])

const bytesBelow = (folder: string, prefix = ''): Buffer =>
  Buffer.concat(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name.startsWith(prefix))
      .map((entry) => readFileSync(join(entry.parentPath, entry.name))),
  )

describe('API keys through the pipeline', () => {
  it('creates a key that authenticates, with the rights that were left out', async () => {
    const created = await create({ name: 'agent-alice', expires_in: '90d' })
    expect(created).toMatchObject({
      tenant: 'local',
      role: 'member',
      tier: 'user',
      scopes: null,
      status: 'live',
      created_by: 'owner',
      last_used_at: null,
    })
    expect(Date.parse(created.expires_at!) - Date.parse(created.created_at)).toBe(90 * 86_400_000)
    const principal = await authenticate(created.secret)
    expect(principal).toMatchObject({ tenant: 'local', actor: 'agent-alice', role: 'member', keyId: created.id })
    expect(await ask(principal, 'task_create', { title: 'one', project: 'p' })).toMatchObject({
      created_by: 'agent-alice',
    })
    const { secret: _, ...view } = created
    expect(await listed(localOwner)).toEqual([{ ...view, last_used_at: expect.any(String) }])
  })

  it('keeps key management from members and from keys scoped to less', async () => {
    const member = await authenticate((await create({ name: 'member' })).secret)
    const reader = await authenticate(
      (await create({ name: 'reader', role: 'admin', scopes: ['apiKey:read', 'task:*'] })).secret,
    )
    expect(await Promise.all([member, reader, localOwner].map(keyToolsOf))).toEqual([
      [],
      ['api_key_list'],
      ['api_key_create', 'api_key_list', 'api_key_revoke'],
    ])
    expect(await codeOf(member, 'api_key_create', { name: 'x' })).toBe('ERR_PERMISSION_DENIED')
    expect(await codeOf(member, 'api_key_list', {})).toBe('ERR_PERMISSION_DENIED')
    expect(await codeOf(member, 'api_key_revoke', { key: 'reader' })).toBe('ERR_PERMISSION_DENIED')
    expect(await codeOf(reader, 'api_key_create', { name: 'x' })).toBe('ERR_PERMISSION_DENIED')
    expect(await codeOf(reader, 'api_key_revoke', { key: 'member' })).toBe('ERR_PERMISSION_DENIED')
    expect((await listed(reader)).map(({ name, status }) => `${name} ${status}`).sort()).toEqual([
      'member live',
      'reader live',
    ])
  })

  it('keeps an admin of one tenant from the keys of another', async () => {
    const ofA = await create({ name: 'a-agent', tenant: 'a' })
    const adminOfB = await authenticate((await create({ name: 'b-admin', role: 'admin', tenant: 'b' })).secret)
    expect(await codeOf(adminOfB, 'api_key_create', { name: 'x', tenant: 'a' })).toBe('ERR_PERMISSION_DENIED')
    expect(await codeOf(adminOfB, 'api_key_list', { tenant: 'a' })).toBe('ERR_PERMISSION_DENIED')
    expect(await codeOf(adminOfB, 'api_key_revoke', { key: ofA.id, tenant: 'a' })).toBe('ERR_PERMISSION_DENIED')
    expect(await codeOf(adminOfB, 'api_key_revoke', { key: ofA.id })).toBe('ERR_NOT_FOUND')
    expect(await codeOf(adminOfB, 'api_key_revoke', { key: 'a-agent' })).toBe('ERR_NOT_FOUND')
    expect((await listed(localOwner, 'a')).map(({ name, status }) => [name, status])).toEqual([['a-agent', 'live']])
    expect((await authenticate(ofA.secret)).tenant).toBe('a')

    const ofB = await create({ name: 'b-agent' }, adminOfB)
    expect(ofB).toMatchObject({ tenant: 'b', created_by: 'b-admin' })
    expect((await listed(adminOfB)).map(({ name }) => name).sort()).toEqual(['b-admin', 'b-agent'])
    expect(effectsOf(await exported(adminOfB))).toMatchObject([
      { kind: 'api_key_created', body: { id: ofB.id, tenant: 'b' } },
    ])
  })

  it('refuses a key once it is revoked, and revokes the keys of another tenant for the operator', async () => {
    const own = await create({ name: 'own' })
    const foreign = await create({ name: 'foreign', tenant: 'a' })
    await authenticate(own.secret)
    await authenticate(foreign.secret)
    expect(await ask(localOwner, 'api_key_revoke', { key: 'own' })).toMatchObject({ id: own.id, status: 'revoked' })
    // The time of the last use is written with a delay.
    const { last_used_at: _, ...first } = await ask(localOwner, 'api_key_revoke', { key: foreign.id, tenant: 'a' })
    expect(await ask(localOwner, 'api_key_revoke', { key: foreign.id, tenant: 'a' })).toMatchObject(first)
    for (const { secret } of [own, foreign]) {
      await expect(authenticate(secret)).rejects.toMatchObject({ code: 'ERR_UNAUTHENTICATED' })
    }
    const revoked = effectsOf(await exported(localOwner)).filter(({ kind }) => kind === 'api_key_revoked')
    expect(revoked.map(({ body }) => body)).toEqual([
      { id: own.id, prefix: own.prefix, name: 'own', tenant: 'local', revoked_by: 'owner' },
      { id: foreign.id, prefix: foreign.prefix, name: 'foreign', tenant: 'a', revoked_by: 'owner' },
    ])
  })

  it('refuses a second live key of a name, and a name, role, scope or expiry that cannot be, and stores nothing', async () => {
    await create({ name: 'ann' })
    expect(await codeOf(localOwner, 'api_key_create', { name: 'ann' })).toBe('ERR_ALREADY_EXISTS')
    for (const wrong of [
      { name: 'two words' },
      { name: 'x', role: 'root' },
      { name: 'x', scopes: ['task:reed'] },
      { name: 'x', expires_in: 'soon' },
      { name: 'x', expires_in: 60 },
      { name: 'x', expires_at: '2020-01-01T00:00:00Z' },
    ]) {
      expect(await codeOf(localOwner, 'api_key_create', wrong), JSON.stringify(wrong)).toBe('ERR_INVALID_INPUT')
    }
    expect((await listed(localOwner)).map(({ name }) => name)).toEqual(['ann'])
  })

  it('leaves the secret neither in the log nor in any file, even when someone sends it as an argument', async () => {
    const created = await create({ name: 'agent-alice', scopes: ['task:read'] })
    const { id, prefix, secret } = created
    await authenticate(secret)
    expect(await codeOf(localOwner, 'api_key_revoke', { key: secret })).toBe('ERR_NOT_FOUND')
    const lines = await exported(localOwner)
    expect(effectsOf(lines)).toEqual([
      {
        kind: 'api_key_created',
        body: {
          id,
          prefix,
          name: 'agent-alice',
          tenant: 'local',
          role: 'member',
          tier: 'user',
          scopes: ['task:read'],
          expires_at: null,
          created_by: 'owner',
        },
      },
    ])
    const secretPart = secret.slice(`cst_${prefix}_`.length)
    const hash = sha256Hex(secret)
    const log = lines.join('\n')
    expect([log.includes(prefix), log.includes(secretPart), log.includes(hash)]).toEqual([true, false, false])

    await (await app.ready).database!.flush()
    const whileOpen = bytesBelow(dataDir, 'castellan.db')
    await close()
    for (const bytes of [whileOpen, bytesBelow(dataDir, 'castellan.db'), bytesBelow(dataDir)]) {
      expect([bytes.includes(prefix), bytes.includes(hash)]).toEqual([true, true])
      expect([bytes.includes(secretPart), bytes.includes(Buffer.from(secretPart, 'base64url'))]).toEqual([false, false])
    }
  })
})
