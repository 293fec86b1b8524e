import { describe, expect, it } from 'vitest'
import { allRulesOf, rulesFor } from './call-rules.ts'

const tool = {
  permission: 'task:update',
  effect: 'external',
  rate: 'default',
  actions: { look: { permission: 'task:read', effect: 'read' }, make: { rate: 'create' } },
} as const

describe('the rules of a call', () => {
  it('are those of its action, where that has its own', () => {
    expect(rulesFor(tool, { action: 'look' })).toEqual({ permission: 'task:read', effect: 'read', rate: 'default' })
    expect(rulesFor(tool, { action: 'make' })).toEqual({
      permission: 'task:update',
      effect: 'external',
      rate: 'create',
    })
  })

  it.each([
    { action: 'other' },
    { action: 'toString' },
    { action: '__proto__' },
    { action: ['look'] },
    { action: null },
    {},
    [],
    null,
    undefined,
    'look',
  ])('are the tool’s own for %j', (args) => {
    expect(rulesFor(tool, args)).toBe(tool)
  })

  it('are all found, the tool’s own first', () => {
    expect(allRulesOf(tool).map(({ permission, effect, rate }) => [permission, effect, rate])).toEqual([
      ['task:update', 'external', 'default'],
      ['task:read', 'read', 'default'],
      ['task:update', 'external', 'create'],
    ])
  })
})
