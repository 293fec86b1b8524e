import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { limits } from '../../src/contract/limits.ts'
import { peopleLimits } from '../../src/contract/people-limits.ts'
import { installFaultPlan } from '../../src/kernel/fault.ts'
import { openExchangeStage } from '../support/exchange-stage.ts'
import { sweepFaults } from '../support/fault-sweep.ts'
import { isLongRun } from '../support/long-run.ts'
import { castellanJson, newPerson, postForm, signIn } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** What is written when people and their clients come, by no call of a tool, with the store failing at each step. */
const kinds = ['passing', 'lasting'] as const
afterEach(() => installFaultPlan(undefined))

describe('tokens of an identity provider', () => {
  it('are kept with a sign-in that succeeds, and are there once for each session', async () => {
    await using stage = await openExchangeStage(['ann'], { 'rate_limits.enabled': false })
    stage.setOpen(false)
    await stage.signIn('ann')
    const counted = (): Record<string, number> =>
      stage.app().behindItsBack((db) => ({
        ...db
          .prepare(
            `SELECT (SELECT count(*) FROM user_sessions) AS sessions,
            (SELECT count(*) FROM secrets WHERE session_id IS NOT NULL) AS kept,
            (SELECT count(*) FROM secrets WHERE session_id NOT IN (SELECT id FROM user_sessions)) AS orphans`,
          )
          .get(),
      })) as Record<string, number>
    // A sign-in takes its time; the long run tries both kinds.
    for (const kind of isLongRun ? kinds : kinds.slice(0, 1)) {
      await sweepFaults({
        kind,
        prepare: () => stage.beginSignIn('ann'),
        async check(_, where, caller) {
          // A person who was told that it failed gets in with the next attempt.
          const { isError, json } = await stage.echo(caller ?? (await stage.signIn('ann')))
          expect(isError, `${where}: ${json}`).toBe(false)
          const { sessions, kept, orphans } = counted()
          expect(orphans, where).toBe(0)
          expect(kept, where).toBeLessThanOrEqual(sessions!)
        },
      })
    }
  })

  it('are renewed and used though the store failed, and nobody has to sign in again', async () => {
    await using stage = await openExchangeStage(['ann'], { 'rate_limits.enabled': false })
    stage.setOpen(false)
    const ann = await stage.signIn('ann')
    for (const kind of kinds) {
      await sweepFaults({
        kind,
        async prepare() {
          stage.clock.advance(3_600_000)
          return async () => await stage.echo(ann)
        },
        async check(_, where) {
          const answer = await stage.echo(ann)
          expect(answer.isError, `${where}: ${answer.json}`).toBe(false)
        },
      })
    }
    await stage.restart()
    stage.clock.advance(3_600_000)
    expect((await stage.echo(ann)).json).toContain('"x"')
  })
})

describe('a terminal that waits for a person', () => {
  const GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
  let server: ServerHere
  beforeAll(async () => {
    const dataDir = newDataDir()
    await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
    server = await startServerHere({ dataDir, env: { CASTELLAN_TRUSTED_PROXIES: '127.0.0.1' } })
  })
  afterAll(async () => {
    await server.stop()
    rmSync(server.dataDir, { recursive: true, force: true })
  })
  let address = 0
  const post = async (path: string, body: string | URLSearchParams): Promise<Record<string, string>> => {
    const type = typeof body === 'string' ? { 'content-type': 'application/json' } : {}
    // Each comes from another address, so that none waits for the others.
    const from = `203.0.${(++address >> 8) & 255}.${address & 255}`
    const headers = { 'x-forwarded-for': from, ...type }
    const response = await fetch(new URL(`/auth/oauth2/${path}`, server.url), { method: 'POST', headers, body })
    return (await response.json().catch(() => ({}))) as Record<string, string>
  }
  const form = (fields: Record<string, string>) => new URLSearchParams(fields)
  const redeem = (code: string, client_id: string) =>
    post('token', form({ grant_type: GRANT, device_code: code, client_id }))

  it('is answered once and gets one token at most, and a success that was reported is stored', async () => {
    const person = await newPerson(server, 'ann@example.com')
    const cookie = await signIn(server, person)
    const json = { token_endpoint_auth_method: 'none', grant_types: [GRANT, 'refresh_token'], response_types: [] }
    const { client_id } = await post('register', JSON.stringify(json))
    const client = client_id!
    const inStore = (sql: string, ...values: string[]): unknown[] => {
      const db = new DatabaseSync(join(server.dataDir, 'castellan.db'))
      try {
        return db.prepare(sql).all(...values)
      } finally {
        db.close()
      }
    }
    const start = () => post('device_authorization', form({ client_id: client }))
    const answer = (code: string, decision: string) =>
      postForm(new URL('/device', server.url), { code, decision }, { cookie })
    for (const kind of kinds) {
      await sweepFaults({
        kind,
        prepare: async () => start,
        async check(_, where, started) {
          const code = started?.['user_code']?.replace('-', '')
          if (code === undefined) return
          expect(inStore('SELECT 1 FROM device_authorizations WHERE user_code = ?', code), where).toHaveLength(1)
        },
      })
      await sweepFaults({
        kind,
        async prepare() {
          const { user_code, device_code } = await start()
          return async () => ({ device_code, user_code, status: (await answer(user_code!, 'allow')).status })
        },
        async check(_, where, answered) {
          if (answered === undefined) return
          const { device_code, user_code, status } = answered
          const consents = inStore('SELECT 1 FROM oauth_consents')
          if (status !== 200) await answer(user_code!, 'allow')
          expect(consents.length, where).toBeLessThanOrEqual(1)
          expect(await redeem(device_code!, client), where).toHaveProperty('access_token')
          expect(inStore('SELECT 1 FROM oauth_consents'), where).toHaveLength(1)
        },
      })
      await sweepFaults({
        kind,
        async prepare() {
          const { user_code, device_code } = await start()
          await answer(user_code!, 'allow')
          return async () => ({ device_code, answer: await redeem(device_code!, client) })
        },
        async check(_, where, redeemed) {
          const { device_code, answer: first } = redeemed!
          const second = await redeem(device_code!, client)
          const tokens = [first, second].filter(({ access_token }) => access_token !== undefined)
          expect(tokens.length, where).toBeLessThanOrEqual(1)
          if (first['access_token'] !== undefined) expect(second['error'], where).toBe('invalid_grant')
        },
      })
    }
  })
})

describe('what makes room for others', () => {
  let server: ServerHere
  let key = ''
  beforeAll(async () => {
    const dataDir = newDataDir()
    await castellanJson({ dataDir }, ['users', 'create', 'ann@example.com', '--admin'])
    const env = { CASTELLAN_TRUSTED_PROXIES: '127.0.0.1' }
    server = await startServerHere({ dataDir, env })
    await castellanJson({ dataDir }, ['call', 'create_mcp_gateway', 'name=One'])
    key = String((await castellanJson({ dataDir }, ['keys', 'create', 'program', '--role', 'member']))['secret'])
  })
  afterAll(async () => {
    await server.stop()
    rmSync(server.dataDir, { recursive: true, force: true })
  })
  const inStore = <T>(work: (db: DatabaseSync) => T): T => {
    const db = new DatabaseSync(join(server.dataDir, 'castellan.db'))
    try {
      return work(db)
    } finally {
      db.close()
    }
  }
  const count = (table: string): number =>
    inStore((db) => Number(db.prepare(`SELECT count(*) AS n FROM ${table}`).get()!['n']))

  describe('a client that registers itself', () => {
    const addClients = (wanted: number) =>
      inStore((db) =>
        db
          .prepare(
            `INSERT INTO oauth_clients (id, "clientId", "createdAt", "updatedAt", "redirectUris")
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
            SELECT lower(hex(randomblob(8))), lower(hex(randomblob(8))), '2026-01-01', '2026-01-01', '[]' FROM n`,
          )
          .run(wanted),
      )
    let address = 0
    const register = async (): Promise<string | undefined> => {
      const response = await fetch(new URL('/auth/oauth2/register', server.url), {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-forwarded-for': `203.0.113.${++address % 250}` },
        body: JSON.stringify({ redirect_uris: ['http://127.0.0.1:9/'], token_endpoint_auth_method: 'none' }),
      })
      const body = (await response.json()) as { client_id?: string }
      return response.status === 201 ? body.client_id : undefined
    }

    it('is there if it was told so, and only clients that nobody allowed went, together or not at all', async () => {
      const { oauthClientsMax: max, oauthClientsRemoved: removed } = peopleLimits
      addClients(1)
      inStore((db) =>
        db.exec(
          `INSERT INTO oauth_consents (id, "clientId", "userId", scopes, "createdAt", "updatedAt")
          SELECT 'c', c."clientId", (SELECT id FROM users), '[]', '2026-01-01', '2026-01-01' FROM oauth_clients c`,
        ),
      )
      const allowed = () =>
        inStore((db) =>
          db.prepare('SELECT 1 FROM oauth_clients WHERE "clientId" IN (SELECT "clientId" FROM oauth_consents)').all(),
        )
      for (const kind of kinds) {
        await sweepFaults({
          kind,
          async prepare() {
            addClients(max - count('oauth_clients'))
            return async () => await register()
          },
          async check(_, where, id) {
            const left = count('oauth_clients')
            const isThere = (one: string) =>
              inStore((db) => db.prepare('SELECT 1 FROM oauth_clients WHERE "clientId" = ?').get(one)) !== undefined
            if (id !== undefined) expect([isThere(id), left], where).toEqual([true, max - removed + 1])
            else expect([max, max - removed, max - removed + 1], where).toContain(left)
            expect(allowed(), where).toHaveLength(1)
            expect(isThere((await register())!), where).toBe(true)
          },
        })
      }
    })
  })

  describe('a session at a gateway', () => {
    const send = (body: object, headers: Record<string, string> = {}) =>
      fetch(new URL('/mcp/one', server.url), {
        method: 'POST',
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...headers,
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...body }),
      })
    const clientInfo = { name: 'test', version: '1' }
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
    async function open(): Promise<string | undefined> {
      const response = await send({ method: 'initialize', params })
      await response.text()
      return response.ok ? response.headers.get('mcp-session-id')! : undefined
    }
    const isUsable = async (id: string): Promise<boolean> =>
      (await send({ method: 'ping' }, { 'mcp-session-id': id })).status === 200

    it('is there if it was told so, also after a restart, and there are never more than may be', async () => {
      const max = limits.httpSessionsPerIdentityMax
      for (let opened = 0; opened < max; opened++) await open()
      const told: string[] = []
      for (const kind of kinds) {
        await sweepFaults({
          kind,
          prepare: async () => open,
          async check(_, where, id) {
            if (id !== undefined) told.push(id)
            expect(count('mcp_sessions WHERE ended_at IS NULL'), where).toBeLessThanOrEqual(max)
            const next = await open()
            expect(next, where).toBeDefined()
            expect(await isUsable(next!), where).toBe(true)
            told.push(next!)
          },
        })
      }
      expect(told.length).toBeLessThan(max)
      const { dataDir } = server
      await server.stop()
      server = await startServerHere({ dataDir })
      for (const id of told) expect(await isUsable(id)).toBe(true)
    })
  })
})
