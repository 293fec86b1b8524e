import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { byName, lastWrittenFirst, listPage, newestFirst, type PagedRows } from '../../src/contract/list-page.ts'
import { tenantId } from '../../src/contract/principal.ts'
import type { Invitation, User } from '../../src/domains/people/ports.ts'
import { sqlInstallationRequestStore } from '../../src/stores/sql/installation-request-store.ts'
import { sqlPeopleLists as lists } from '../../src/stores/sql/people-lists.ts'
import { sqlPeopleStore as people } from '../../src/stores/sql/people-store.ts'
import { sqlSecretStore } from '../../src/stores/sql/secret-store.ts'
import { sqlServiceClientStore } from '../../src/stores/sql/service-client-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')
const NOW = Date.UTC(2026, 10, 17)
const letters = ['a', 'b', 'c', 'd', 'e']

const userOf = (letter: string, more: Partial<User> = {}): User => ({
  ...{ tenant: ACME, id: `user_${letter}`, email: `${letter}@example.com`, name: `Name ${letter.toUpperCase()}` },
  ...{ role: 'member', tier: 'user', createdBy: 'owner', createdAtMs: NOW },
  ...more,
})
const invitationOf = (letter: string, more: Partial<Invitation> = {}): Invitation => ({
  ...{ tenant: ACME, id: `inv_${letter}`, tokenHash: letter, email: `${letter}@example.com`, role: 'member' },
  ...{ tier: 'user', teams: [], userId: null, createdBy: 'owner', createdAtMs: NOW, expiresAtMs: NOW + 1_000 },
  ...{ acceptedAtMs: null, cancelledAtMs: null },
  ...more,
})

describe.each(dialects)('lists in pages, in %s', (dialect) => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())

  /** The rows of each page of two, from the first to the last, and the totals that the pages state. */
  async function pagesOf<Row, After>(
    order: Parameters<typeof listPage<Row, After>>[1],
    list: PagedRows<Row, After>,
    nameOf: (row: Row) => string,
  ) {
    const pages: string[] = []
    const totals = new Set<number>()
    for (let cursor: string | undefined, isLast = false; !isLast; ) {
      const { rows, page } = await listPage({ cursor, limit: 2 }, order, list)
      expect(page.truncated).toBe(page.next_cursor !== null)
      pages.push(rows.map(nameOf).join(' '))
      totals.add(page.total)
      isLast = page.next_cursor === null
      cursor = page.next_cursor ?? undefined
    }
    return { pages, totals: [...totals] }
  }
  const all = { pages: ['a b', 'c d', 'e'], totals: [5] }
  const last = (text: string) => text.at(-1)!

  it('have every person once, by e-mail address', async () => {
    await database.write(ACME, async (tx) => {
      for (const letter of letters.toReversed()) await people.insertUser(tx, userOf(letter))
      await people.insertUser(tx, userOf('z', { role: 'admin', name: 'Ann%' }))
      await people.insertUser(tx, userOf('x', { tenant: OTHER }))
    })
    const of = (filter: Parameters<typeof lists.users>[2]) =>
      pagesOf(
        byName<User>(({ email }) => email),
        lists.users(database.read, ACME, filter),
        ({ email }) => email[0]!,
      )
    expect(await of({})).toEqual({ pages: ['a b', 'c d', 'e z'], totals: [6] })
    expect(await of({ role: 'member' })).toEqual(all)
    expect(await of({ text: 'NAME' })).toEqual(all)
    expect(await of({ text: 'C@EXAMPLE' })).toEqual({ pages: ['c'], totals: [1] })
    expect(await of({ text: '%' })).toEqual({ pages: ['z'], totals: [1] })
    expect(await of({ text: 'nobody' })).toEqual({ pages: [''], totals: [0] })
  })

  it('have every team and every client once, by name', async () => {
    await database.write(ACME, async (tx) => {
      for (const letter of letters.toReversed()) {
        const named = { tenant: ACME, name: `team ${letter}`, createdBy: 'owner', createdAtMs: NOW }
        await people.insertTeam(tx, { ...named, id: `team_${letter}`, description: '' })
        const client = { ...named, id: `client_${letter}`, secretHash: letter, gateways: [] }
        await sqlServiceClientStore.insertClient(tx, { ...client, role: 'member', tier: 'user' })
      }
    })
    for (const list of [lists.teams, lists.clients]) {
      const of = (text?: string) =>
        pagesOf(
          byName<{ name: string }>(({ name }) => name),
          list(database.read, ACME, { text }) as PagedRows<{ name: string }, string>,
          ({ name }) => last(name),
        )
      expect(await of()).toEqual(all)
      expect(await of('M B')).toEqual({ pages: ['b'], totals: [1] })
    }
  })

  it('have every invitation once, the newest first, also of one moment', async () => {
    await database.write(ACME, async (tx) => {
      for (const letter of letters) await people.insertInvitation(tx, invitationOf(letter))
      const older = { createdAtMs: NOW - 1 }
      await people.insertInvitation(tx, invitationOf('f', { ...older, acceptedAtMs: NOW }))
      await people.insertInvitation(tx, invitationOf('g', { ...older, cancelledAtMs: NOW }))
      await people.insertInvitation(tx, invitationOf('h', { ...older, expiresAtMs: NOW }))
    })
    const of = (filter: Parameters<typeof lists.invitations>[2]) =>
      pagesOf(newestFirst, lists.invitations(database.read, ACME, filter, NOW), ({ email }) => email[0]!)
    expect(await of({})).toEqual({ pages: ['a b', 'c d', 'e f', 'g h'], totals: [8] })
    expect(await of({ status: 'open' })).toEqual(all)
    expect((await of({ status: 'accepted' })).pages).toEqual(['f'])
    expect((await of({ status: 'cancelled' })).pages).toEqual(['g'])
    expect((await of({ status: 'expired' })).pages).toEqual(['h'])
    expect((await of({ status: 'open', text: 'd@' })).pages).toEqual(['d'])
  })

  it('have every attempt to sign in once, the last first', async () => {
    await database.write(ACME, async (tx) => {
      for (const letter of letters.toReversed()) {
        const attempt = { atMs: NOW, email: `${letter}@example.com`, address: '192.0.2.1', userId: null }
        await people.insertAttempt(tx, { ...attempt, tenant: ACME, outcome: 'refused' })
        await people.insertAttempt(tx, { ...attempt, tenant: OTHER, outcome: 'slowed' })
      }
    })
    const of = (filter: Parameters<typeof lists.attempts>[2]) =>
      pagesOf(lastWrittenFirst, lists.attempts(database.read, ACME, filter), ({ email }) => email[0]!)
    expect(await of({})).toEqual(all)
    expect(await of({ outcome: 'refused' })).toEqual(all)
    expect((await of({ outcome: 'slowed' })).totals).toEqual([0])
    expect((await of({ text: 'b@' })).pages).toEqual(['b'])
  })

  it('have every secret and every installation request once', async () => {
    await database.write(ACME, async (tx) => {
      for (const letter of letters) {
        const made = { tenant: ACME, id: letter, createdAtMs: NOW }
        const secret = { owner: 'key:ann', purpose: `For ${letter}`, keyId: 'k', sealed: 's', updatedAtMs: NOW }
        await sqlSecretStore.putSecret(tx, ACME, { ...made, ...secret })
        const server = { name: letter, reason: null, serverUrl: null, repository: null, catalogId: null }
        const decided = { notes: [], decidedBy: null, decidedAtMs: null }
        const request = { ...made, author: 'key:ann', server, status: 'pending' as const, ...decided }
        await sqlInstallationRequestStore.insertRequest(tx, ACME, request)
      }
    })
    const { read } = database
    const idOf = ({ id }: { id: string }) => id
    for (const owner of [undefined, 'key:ann']) {
      const secrets = (text?: string) => sqlSecretStore.listSecrets(read, ACME, { owner, text })
      expect(await pagesOf(newestFirst, secrets(), idOf)).toEqual(all)
      expect((await pagesOf(newestFirst, secrets('for C'), idOf)).pages).toEqual(['c'])
      const requests = (status?: string) =>
        sqlInstallationRequestStore.listRequests(read, ACME, { author: owner, status })
      expect(await pagesOf(newestFirst, requests(), idOf)).toEqual(all)
      expect((await pagesOf(newestFirst, requests('declined'), idOf)).totals).toEqual([0])
    }
    expect(await sqlSecretStore.listSecrets(read, ACME, { owner: 'key:bob' }).count()).toBe(0)
  })

  it('refuse a cursor that no list gave', async () => {
    const { read } = database
    const clients = lists.clients(read, ACME, {})
    const invitations = lists.invitations(read, ACME, {}, NOW)
    const cursorOf = (position: unknown) => Buffer.from(JSON.stringify(position)).toString('base64url')
    for (const position of [
      'a\u0000',
      7,
      null,
      { atMs: 1, id: 'a\u0000' },
      { atMs: '1', id: 'a' },
      { atMs: 1e99, id: 'a' },
    ]) {
      const cursor = cursorOf(position)
      const refusal = { code: 'ERR_INVALID_INPUT', details: { field: 'cursor' } }
      const order = byName<{ name: string }>(({ name }) => name)
      await expect(listPage({ cursor }, order, clients), String(position)).rejects.toMatchObject(refusal)
      await expect(listPage({ cursor }, newestFirst, invitations), String(position)).rejects.toMatchObject(refusal)
    }
    const far = { cursor: cursorOf({ atMs: Number.MIN_SAFE_INTEGER, id: '' }) }
    expect((await listPage(far, newestFirst, invitations)).rows).toEqual([])
  })
})
