import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { tenantId } from '../../src/contract/principal.ts'
import type { OptimizationRule } from '../../src/domains/model-proxies/ports.ts'
import { sqlOptimizationRuleStore as store } from '../../src/stores/sql/optimization-rule-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')
const ruleOf = (id: string, more: Partial<OptimizationRule> = {}): OptimizationRule => ({
  tenant: ACME,
  id,
  name: `rule ${id}`,
  entityType: 'team',
  entityId: 't1',
  provider: 'openai',
  conditions: { maxTokens: 10, hasTools: false, models: ['gpt-*'] },
  targetModel: 'gpt-5-mini',
  isEnabled: true,
  createdAtMs: 1,
  createdBy: 'ann',
  ...more,
})

describe.each(dialects)('rules for cheaper models in %s', (dialect) => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())

  it('keep every field, in the order of their creation, in their tenant alone', async () => {
    const none = { maxTokens: null, hasTools: null, models: null }
    const first = ruleOf('b')
    const second = ruleOf('a', { createdAtMs: 2, entityType: 'organization', conditions: none, isEnabled: false })
    await database.write(ACME, async (tx) => {
      await store.insertRule(tx, ACME, second)
      await store.insertRule(tx, ACME, first)
    })
    expect(await store.listRules(database.read, ACME)).toEqual([first, second])
    expect(await store.listRules(database.read, OTHER)).toEqual([])
    const changed = { ...first, name: 'x', conditions: none, targetModel: 'm', isEnabled: false }
    await database.write(ACME, (tx) => store.saveRule(tx, ACME, changed))
    expect(await store.listRules(database.read, ACME)).toEqual([changed, second])
    expect(await database.write(OTHER, (tx) => store.deleteRule(tx, OTHER, 'b'))).toBe(false)
    expect(await database.write(ACME, (tx) => store.deleteRule(tx, ACME, 'b'))).toBe(true)
    expect(await store.listRules(database.read, ACME)).toEqual([second])
  })
})
