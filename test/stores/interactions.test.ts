import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { tenantId } from '../../src/contract/principal.ts'
import type { NewInteraction, StoredInteraction } from '../../src/domains/interactions/ports.ts'
import { firstIdAt, interactionId } from '../../src/domains/interactions/rules.ts'
import { sqlInteractionStore as store } from '../../src/stores/sql/interaction-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')
const one = (startedAtMs: number, more: Partial<StoredInteraction> = {}): NewInteraction => ({
  interaction: {
    ...{ tenant: ACME, id: interactionId(startedAtMs, '00000000', startedAtMs), owner: 'user:u1', actor: 'ann' },
    ...{ authenticatedBy: 'api_key', userId: 'u1', keyId: 'k1', virtualKeyId: null, teams: ['t1'], source: 'proxy' },
    ...{ proxyId: 'p1', agentId: 'a1', runId: null, provider: 'p', protocol: 'openai', operation: 'chat' },
    ...{
      savedNanodollars: 2,
      requestedModel: 'm',
      usedModel: 'm-1',
      isStream: true,
      outcome: 'ok',
      httpStatus: 200,
      errorCode: null,
    },
    tokens: { input: 10, output: 5, cacheRead: 3, cacheWrite: 2, reasoning: 1 },
    ...{ isEstimated: false, costNanodollars: 7, startedAtMs, firstTokenMs: 1.5, durationMs: 9, requestBytes: 20 },
    ...{ answerBytes: 30, decisions: [{ stage: 's', verdict: 'allow' }], labels: { session: 'talk' } },
    ...more,
  },
  bodies: { request: 'asked', answer: null, isWhole: true, isRedacted: false },
})

describe.each(dialects)('interactions on %s', (dialect) => {
  let db: Database
  beforeEach(async () => {
    db = await openEmpty(dialect)
  })
  afterEach(() => db.close())
  const put = (...added: NewInteraction[]) => db.write(ACME, (tx) => store.insertInteractions(tx, ACME, added))

  it('add up costs that are larger together than an exact number', async () => {
    const most = { costNanodollars: Number.MAX_VALUE, savedNanodollars: -Number.MAX_VALUE }
    const [first, second] = [one(1_000, most), one(2_000, most)]
    await put(first, second)
    const found = await store.findInteraction(db.read, ACME, first.interaction.id)
    expect(found).toMatchObject({ costNanodollars: Number.MAX_SAFE_INTEGER })
    const { costNanodollars, savedNanodollars } = await store.sumInteractions(db.read, ACME, {})
    expect([costNanodollars, savedNanodollars]).toEqual([2 * Number.MAX_SAFE_INTEGER, -2 * Number.MAX_SAFE_INTEGER])
  })

  it('are stored with the others whatever a provider calls its model', async () => {
    const [usual, odd] = [one(1_000), one(2_000, { usedModel: 'm\u0000x' })]
    await put(usual, odd)
    const found = await store.listInteractions(db.read, ACME, {}, 9)
    expect(found.map(({ usedModel }) => usedModel)).toEqual(['m\u0000x', 'm-1'])
    expect(await store.listInteractions(db.read, ACME, { model: 'm\ufffdx' }, 9)).toHaveLength(1)
  })

  it('are found as they were, once, and by their tenant alone', async () => {
    const [first, second] = [one(1_000), one(2_000, { tokens: null, costNanodollars: null, owner: 'user:u2' })]
    await put(first, second)
    await put(first, second)
    const { id } = first.interaction
    expect(await store.findInteraction(db.read, ACME, id)).toEqual(first.interaction)
    expect(await store.findBodies(db.read, ACME, id)).toEqual(first.bodies)
    expect(await store.listInteractions(db.read, ACME, {}, 9)).toEqual([second.interaction, first.interaction])
    expect(await store.listInteractions(db.read, ACME, { owner: 'user:u1', session: 'talk' }, 9)).toHaveLength(1)
    expect(await store.listInteractions(db.read, ACME, { fromId: firstIdAt(1_500) }, 9)).toEqual([second.interaction])
    expect(await store.sumInteractions(db.read, ACME, {})).toEqual({
      ...{ count: 2, input: 10, output: 5, cacheRead: 3, cacheWrite: 2, reasoning: 1 },
      ...{ costNanodollars: 7, savedNanodollars: 4, unpriced: 1 },
    })
    for (const profile of ['a1', 'p1']) {
      expect(await store.usageOf(db.read, ACME, profile)).toEqual({ input: 10, output: 5 })
      expect(await store.usageOf(db.read, OTHER, profile)).toEqual({ input: 0, output: 0 })
    }
    expect(await store.findInteraction(db.read, OTHER, id)).toBeUndefined()
    expect(await store.findBodies(db.read, OTHER, id)).toBeUndefined()
    expect(await store.listInteractions(db.read, OTHER, {}, 9)).toEqual([])
    expect(await store.tenants(db.read)).toEqual([ACME])
  })

  it('are removed by age, and what was used stays', async () => {
    await put(one(1_000), one(2_000), one(3_000))
    const before = firstIdAt(2_500)
    expect(await db.write(ACME, (tx) => store.pruneBodies(tx, ACME, before, 1))).toBe(1)
    expect(await db.write(ACME, (tx) => store.pruneInteractions(tx, ACME, before, 9))).toBe(2)
    expect(await store.listInteractions(db.read, ACME, {}, 9)).toHaveLength(1)
    expect(await store.usageOf(db.read, ACME, 'a1')).toEqual({ input: 30, output: 15 })
  })
})
