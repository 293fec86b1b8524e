import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadAllTools } from '../../src/tools/index.ts'
import { type CatalogTool, createCatalog } from '../../src/tools/runtime/catalog.ts'
import type { ToolAnswer, ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { propertiesOf, type Schema, validArguments } from '../support/arguments.ts'

/**
 * An agent that is personal to one user is for the others of the tenant as if it were not there, even for administrators: every tool that
 * takes the id or the name of an agent answers the same for a hidden one as for none. For those with fewer rights see hidden-things.
 */
let app: TestApp
let hidden: { id: string; slug: string; name: string }
const viewers = new Map<string, ToolCaller>()
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
  const ann = await app.keyCaller({ name: 'ann', role: 'member' })
  hidden = await app.ask('create_agent', { name: 'Hidden Canary', systemPrompt: 'secret-prompt' }, ann)
  const caller = await app.keyCaller({ name: 'viewer', role: 'admin', tier: 'operator' })
  viewers.set('a key', caller)
  viewers.set('a user', {
    ...caller,
    principal: { ...caller.principal, kind: 'user', user: 'u-admin', actor: 'admin', teams: ['some-team'] },
  })
})
afterAll(() => app[Symbol.asyncDispose]())

const catalog = createCatalog(await loadAllTools())
const NAMING = ['agent_id', 'agent', 'id', 'name', 'subAgentIds', 'agent_type_id']
const schemaOf = (tool: CatalogTool): Schema => tool.listed.inputSchema as Schema
const parametersOf = (tool: CatalogTool): string[] =>
  propertiesOf(schemaOf(tool))
    .map(([key]) => key)
    .filter((key) => NAMING.includes(key))
const tools = catalog.tools.filter(
  (tool) => ['agents', 'executions', 'intents'].includes(tool.definition.toolset) && parametersOf(tool).length > 0,
)

const NONE = '00000000-0000-4000-8000-00000000dead'
const masked = (answer: ToolAnswer, ...names: string[]): string =>
  names.reduce((text, name) => text.replaceAll(name, 'NAME'), answer.json)

describe('a hidden agent', () => {
  it.each(tools.map(({ name }) => name))('is to %s as none', async (name) => {
    const tool = catalog.find(name)!
    const plain = fc.sample(validArguments(schemaOf(tool)), { seed: 11, numRuns: 1 })[0]!
    for (const key of parametersOf(tool)) {
      const isNewName = name === 'create_agent' && key === 'name'
      if (isNewName || (name === 'edit_agent' && key === 'name')) continue
      const isList = key === 'subAgentIds'
      const argsWith = (value: string) => ({ ...plain, [key]: isList ? [value] : value })
      for (const [who, viewer] of viewers) {
        const none = masked(await app.call(name, argsWith(NONE), viewer), NONE)
        for (const value of [hidden.id, hidden.slug, hidden.name]) {
          const answer = masked(await app.call(name, argsWith(value), viewer), value)
          expect(answer, `${who} ${key}=${value}`).toBe(none)
          expect(answer).not.toContain('secret-prompt')
        }
      }
    }
  })

  it('is in no list and no search of others, and its name is theirs to take', async () => {
    for (const viewer of viewers.values()) {
      for (const [tool, args] of [
        ['list_agents', { limit: 1000 }],
        ['aegis.agent.list', {}],
        ['aegis.agent.search', { query: 'hidden canary secret-prompt' }],
      ] as const) {
        const { json } = await app.call(tool, args, viewer)
        expect(json, tool).not.toContain(hidden.id)
        expect(json, tool).not.toContain(hidden.slug)
      }
      expect((await app.call('create_agent', { name: hidden.name }, viewer)).isError).toBe(false)
    }
  })
})
