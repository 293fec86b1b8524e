import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Call } from '../../src/contract/call.ts'
import type { Database } from '../../src/contract/database.ts'
import { LOCAL_TENANT, localOwner, type Principal, tenantId } from '../../src/contract/principal.ts'
import { createSecretService, type SecretService } from '../../src/domains/secrets/service.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import { createSecretKeyFile } from '../../src/stores/files/secret-key-store.ts'
import { sqlSecretStore } from '../../src/stores/sql/secret-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const OTHER = tenantId('other')
const NOW = 1_767_225_600_000
const member: Principal = { ...localOwner, kind: 'key', keyId: 'k1', actor: 'k1', role: 'member', tier: 'user' }

describe.each(dialects)('what references stand for, in %s', (dialect) => {
  let directory = ''
  let database: Database
  let service: SecretService
  const outside = new Map([['TOKEN', 'from the environment']])
  const open = (using: Pick<Database, 'read' | 'write'> = database) =>
    createSecretService({
      store: sqlSecretStore,
      keys: createSecretKeyFile(join(directory, 'secret-key.json'), systemRandom),
      outside: { variable: (name) => outside.get(name), file: async (path) => outside.get(path) },
      database: using,
      tenants: async () => [LOCAL_TENANT],
      usesOf: async () => [],
      random: systemRandom,
    })
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'castellan-secrets-'))
    database = await openEmpty(dialect)
    service = open()
  })
  afterEach(async () => {
    await database.close()
    rmSync(directory, { recursive: true, force: true })
  })

  const put = (value?: string, tenant = LOCAL_TENANT, owner = 'owner') =>
    database.write(tenant, (tx) =>
      service.put(tx, tenant, { owner, purpose: 'test', nowMs: NOW, ...(value === undefined ? {} : { value }) }),
    )
  const resolve = (text: string, tenant = LOCAL_TENANT) => service.resolve(database.read, tenant, text)
  const unavailable = { code: 'ERR_SECRET_UNAVAILABLE' }

  it('is the value that was put, also for another process with the same key', async () => {
    const reference = await put('välue\n')
    expect(await resolve(reference)).toBe('välue\n')
    service = open()
    expect(await resolve(reference)).toBe('välue\n')
    expect(await resolve('plain')).toBe('plain')
    expect(await resolve('env:TOKEN')).toBe('from the environment')
  })

  it('is nothing when it was not entered, was deleted, is of another tenant, or the key is lost', async () => {
    const reference = await put('value')
    await expect(resolve(await put())).rejects.toMatchObject(unavailable)
    await expect(resolve(reference, OTHER)).rejects.toMatchObject(unavailable)
    await expect(resolve('env:MISSING')).rejects.toMatchObject(unavailable)
    await expect(resolve('file:/missing')).rejects.toMatchObject(unavailable)
    const removed = await put('value')
    await database.write(LOCAL_TENANT, (tx) => service.remove(tx, LOCAL_TENANT, removed))
    await expect(resolve(removed)).rejects.toMatchObject(unavailable)
    const other = { aes256_keys: [Buffer.alloc(32).toString('base64')] }
    writeFileSync(join(directory, 'secret-key.json'), JSON.stringify(other))
    await expect(resolve(reference)).rejects.toMatchObject(unavailable)
  })

  it('is opened for redaction once, until a value comes, changes or goes', async () => {
    const valuesOf = async (tenant = LOCAL_TENANT) => (await service.valuesOf(database.read, tenant)).values
    const reference = await put('the first value')
    const first = await valuesOf()
    expect(first).toEqual(['the first value'])
    expect(await valuesOf()).toBe(first)
    expect(await valuesOf(OTHER)).toEqual([])
    const entered = await put()
    expect(await valuesOf()).toBe(first)
    const id = entered.slice('secret:'.length)
    await database.write(LOCAL_TENANT, (tx) => service.enter(tx, LOCAL_TENANT, id, 'the second value', NOW))
    expect((await valuesOf()).toSorted()).toEqual(['the first value', 'the second value'])
    await database.write(LOCAL_TENANT, (tx) => service.enter(tx, LOCAL_TENANT, id, 'the third value', NOW))
    const third = await valuesOf()
    expect(third.toSorted()).toEqual(['the first value', 'the third value'])
    expect(await valuesOf()).toBe(third)
    await database.write(LOCAL_TENANT, (tx) => service.remove(tx, LOCAL_TENANT, reference))
    expect(await valuesOf()).toEqual(['the third value'])
    const other = { aes256_keys: [Buffer.alloc(32).toString('base64')] }
    writeFileSync(join(directory, 'secret-key.json'), JSON.stringify(other))
    expect(await valuesOf()).toEqual([])
  })

  it('may be named by its owner, and the machine’s own by the operator alone', async () => {
    const mine = await put('value', LOCAL_TENANT, 'key:k1')
    const theirs = await put('value')
    const may = (principal: Principal, text: string) => service.requireMayRefer(database.read, principal, 'env', text)
    await may(member, mine)
    await may(member, 'plain')
    await may(localOwner, 'env:TOKEN')
    await expect(may(member, theirs)).rejects.toMatchObject({ code: 'ERR_NOT_FOUND' })
    await expect(may(localOwner, mine)).rejects.toMatchObject({ code: 'ERR_NOT_FOUND' })
    for (const text of ['env:TOKEN', 'file:/etc/passwd']) {
      await expect(may(member, text)).rejects.toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
      const elsewhere = { ...localOwner, tenant: OTHER }
      await expect(may(elsewhere, text)).rejects.toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
    }
  })

  it('stays when a rotation is stopped in the middle, and the next one finishes', async () => {
    const references = await Promise.all([put('one'), put('two')])
    const stop = new AbortController()
    stop.abort()
    const call = { principal: localOwner, progress() {}, record() {}, warn() {} }
    const rotate = (signal: AbortSignal) => service.rotate({ ...call, signal } satisfies Partial<Call>)
    await expect(rotate(stop.signal)).rejects.toMatchObject({ code: 'ERR_CANCELLED' })
    expect(await Promise.all(references.map((reference) => resolve(reference)))).toEqual(['one', 'two'])
    expect(await rotate(new AbortController().signal)).toMatchObject({ rotated: 2, unreadable: 0 })
    expect(await Promise.all(references.map((reference) => resolve(reference)))).toEqual(['one', 'two'])
  })

  it('can be read after a crash at every write of a rotation, and not with the old key after a whole one', async () => {
    const file = join(directory, 'secret-key.json')
    const values = Array.from({ length: 3 }, (_, index) => `value ${index}`)
    const references = await Promise.all(values.map((value) => put(value)))
    const oldKeys = readFileSync(file, 'utf8')
    const call = { principal: localOwner, progress() {}, record() {}, warn() {}, signal: new AbortController().signal }
    const keysNow = () => (JSON.parse(readFileSync(file, 'utf8')) as { aes256_keys: string[] }).aes256_keys
    let crashes = 0
    for (let writes = 0; ; writes++) {
      // What a process that is killed has written before, and nothing after.
      let left = writes
      const dying: Pick<Database, 'read' | 'write'> = {
        read: database.read,
        write: (tenant, work) => (left-- > 0 ? database.write(tenant, work) : Promise.reject(new Error('killed'))),
      }
      const outcome = await open(dying).rotate(call).catch(String)
      service = open()
      expect(await Promise.all(references.map((reference) => resolve(reference)))).toEqual(values)
      if (outcome !== 'Error: killed') break
      crashes++
    }
    expect(crashes).toBeGreaterThan(0)
    expect(keysNow()).toHaveLength(1)
    const newKeys = readFileSync(file, 'utf8')
    writeFileSync(file, oldKeys)
    for (const reference of references) await expect(resolve(reference)).rejects.toMatchObject(unavailable)
    writeFileSync(file, newKeys)
    expect(await Promise.all(references.map((reference) => resolve(reference)))).toEqual(values)
  })
})
