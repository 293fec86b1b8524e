import { expect, it } from 'vitest'
import { tenantId } from '../../contract/principal.ts'
import type { McpServerStore } from './ports.ts'
import { createUpstreamTools } from './upstream-tools.ts'

const ACME = tenantId('acme')
const sharing = { scope: 'org', author: 'ann', teams: [] } as const
const definition = { title: null, description: 'Says it.', inputSchema: {}, outputSchema: null, annotations: null }

it('a list that was replaced while it was read is read again, even if the server then lists the same as before', async () => {
  const lists = new Map([['listed', new Map([['t', 'd']])]])
  let isReplaced = true
  const store: Partial<McpServerStore> = {
    toolListMarks: async () => new Map([['one', '1/1']]),
    listDeployments: async () => [
      {
        ...{ tenant: ACME, id: 'own', catalogId: 'one', sharing, status: 'success', error: null, values: {} },
        ...{ grant: null, toolList: 'listed', createdAtMs: 1, updatedAtMs: 1 },
      },
    ],
    listItems: async () => [
      {
        ...{ tenant: ACME, id: 'one', name: 'One', slug: 'one', sharing, description: null, icon: null, docsUrl: null },
        ...{ repository: null, version: null, instructions: null, labels: [], environmentId: null },
        ...{ serverType: 'remote', config: {}, createdAtMs: 1, updatedAtMs: 1 },
      },
    ],
    listTools: async () => [
      {
        ...{ tenant: ACME, id: 't', catalogId: 'one', upstreamName: 'say', name: 'one__say', aliases: [] },
        ...{ listVersion: 1, removedAtMs: null },
      },
    ],
    definitions: async () => new Map([['d', { ...definition, taskSupport: null }]]),
    toolLists: async () => (isReplaced ? new Map() : lists),
  }
  const { list } = createUpstreamTools({
    store,
    database: { dataVersion: () => undefined },
    versions: {},
  } as unknown as Parameters<typeof createUpstreamTools>[0])
  const namesNow = async () => (await list(ACME)).flatMap(({ tools }) => tools.map(({ name }) => name))
  expect(await namesNow()).toEqual([])
  isReplaced = false
  expect(await namesNow()).toEqual(['one__say'])
  const [before, after] = [await list(ACME), await list(ACME)]
  expect(after[0]).toBe(before[0])
})
