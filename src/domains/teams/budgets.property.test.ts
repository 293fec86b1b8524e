import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AppError } from '../../contract/app-error.ts'
import { tenantId } from '../../contract/principal.ts'
import { chooseBudget, requireBudget, vmsUnder } from './budgets.ts'
import type { Team } from './ports.ts'

const settings = { vmsPerTeamMax: 20, nestingDepthMax: 3, totalVmsMax: 30 }
type AccessRequest = Readonly<{ roles: number; maxVms: number | undefined; parent: number }>

/** Makes teams one after the other as the rules allow, below a team that is there already or at the top. */
function grow(requests: readonly AccessRequest[]) {
  const all: Team[] = []
  const counts = new Map<string, number>()
  for (const request of requests) {
    const parent = all[request.parent]
    const ancestors: Team[] = []
    for (let next = parent; next !== undefined; next = all.find(({ name }) => name === next!.parent))
      ancestors.push(next)
    const name = `t${all.length}`
    const depth = parent === undefined ? 0 : parent.depth + 1
    try {
      const { maxVms } = chooseBudget(settings, request.maxVms, parent)
      const onNode = [...counts.values()].reduce((sum, count) => sum + count, 0)
      requireBudget(settings, { name, maxVms, depth, roles: request.roles, ancestors }, all, counts, onNode)
      all.push({
        tenant: tenantId('t'),
        name,
        owner: 'owner',
        state: 'ready',
        maxVms,
        parent: parent?.name ?? null,
        depth,
        node: 'here',
        operation: null,
        lastSeq: 0,
        createdAtMs: 0,
        createdBy: 'owner',
      })
      counts.set(name, request.roles)
    } catch (error) {
      if (!(error instanceof AppError)) throw error
    }
  }
  return { all, counts }
}

describe('budgets', () => {
  it('hold at every level, in whatever order teams are made', () => {
    const request = fc.record({
      roles: fc.integer({ min: 1, max: 12 }),
      maxVms: fc.option(fc.integer({ min: 1, max: 25 }), { nil: undefined }),
      parent: fc.integer({ min: 0, max: 8 }),
    })
    fc.assert(
      fc.property(fc.array(request, { minLength: 1, maxLength: 25 }), (requests) => {
        const { all, counts } = grow(requests)
        for (const team of all) {
          expect(vmsUnder(all, counts, team)).toBeLessThanOrEqual(team.maxVms)
          expect(team.maxVms).toBeLessThanOrEqual(settings.vmsPerTeamMax)
          expect(team.depth).toBeLessThanOrEqual(settings.nestingDepthMax)
        }
        expect([...counts.values()].reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(settings.totalVmsMax)
      }),
    )
  })

  it('let in what exactly fits', () => {
    const { all, counts } = grow([
      { roles: 5, maxVms: 20, parent: 0 },
      { roles: 15, maxVms: 20, parent: 0 },
      { roles: 1, maxVms: undefined, parent: 1 },
      { roles: 10, maxVms: undefined, parent: 9 },
    ])
    expect(all.map(({ name, depth, maxVms }) => [name, depth, maxVms])).toEqual([
      ['t0', 0, 20],
      ['t1', 1, 20],
      ['t2', 0, 10],
    ])
    expect(vmsUnder(all, counts, all[0]!)).toBe(20)
  })
})
