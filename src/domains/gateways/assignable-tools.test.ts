import { expect, it } from 'vitest'
import { LOCAL_TENANT, localOwner } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { type AssignableStore, createAssignableTools, newKnownLists } from './assignable-tools.ts'

it('the names of all tools are read once for a call, however many it names', async () => {
  const sharing = { scope: 'org', author: 'ann', teams: [] } as const
  let reads = 0
  const tools = ['one', 'two', 'three'].map((id) => ({ id, catalogId: 'up', name: `up__${id}`, aliases: [] }))
  const more = { tenant: LOCAL_TENANT, upstreamName: '', listVersion: 1, removedAtMs: null }
  const store: Partial<AssignableStore> = {
    async listToolNames() {
      reads++
      return tools
    },
    findTool: async (_tx, _tenant, id) =>
      tools.filter((tool) => tool.id === id).map((tool) => ({ ...tool, ...more }))[0],
    listDeployments: async () => [
      {
        ...{ tenant: LOCAL_TENANT, id: 'own', catalogId: 'up', sharing, status: 'success', error: null, values: {} },
        ...{ grant: null, toolList: 'listed', createdAtMs: 1, updatedAtMs: 1 },
      },
    ],
    toolLists: async () => new Map([['listed', new Map(tools.map(({ id }) => [id, 'd']))]]),
  }
  const { findTool, expand } = createAssignableTools(store as AssignableStore)
  const reading = { principal: localOwner, read: {} as ReadTx }
  const lists = newKnownLists()
  const found = []
  for (const { name } of tools) found.push((await findTool(reading, name, lists))?.id)
  expect([found, reads]).toEqual([['one', 'two', 'three'], 1])
  const patterns = ['up__*', 'up__*'].map((toolId) => ({ toolId }))
  expect((await expand(reading, patterns, () => undefined)).length).toBe(6)
  expect(reads).toBe(2)
})
