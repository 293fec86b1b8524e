import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadAllTools } from '../../src/tools/index.ts'
import { type CatalogTool, createCatalog } from '../../src/tools/runtime/catalog.ts'
import type { ToolAnswer, ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { propertiesOf, type Schema, validArguments } from '../support/arguments.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

/**
 * What one person has for themselves, or a team for its members, is for the others of the tenant as if it were not there: every tool that
 * takes the id or the name of such a thing answers the same as for none. What is read over REST passes the same tools.
 */
let app: TestApp
let upstream: McpUpstream
const hidden: string[] = []
const viewers = new Map<string, ToolCaller>()

const asUser = (caller: ToolCaller, user: string, teams: readonly string[]): ToolCaller => ({
  ...caller,
  principal: { ...caller.principal, kind: 'user', user, actor: `${user}@example.com`, teams: [...teams] },
})

beforeAll(async () => {
  upstream = await startMcpUpstream()
  app = await openTestApp({
    config: { 'rate_limits.enabled': false, 'web.allow_private_addresses': ['127.0.0.1'] },
  })
  const { id: crew } = await app.ask<{ id: string }>('user_team_create', { name: 'crew' })
  const { id: others } = await app.ask<{ id: string }>('user_team_create', { name: 'others' })
  const ann = asUser(await app.keyCaller({ name: 'ann', role: 'editor' }), 'u-ann', [crew])
  for (const sharing of [{ scope: 'personal' }, { scope: 'team', teams: ['crew'] }]) {
    const named = (what: string) => ({ name: `Hidden ${what} ${sharing.scope}`, ...sharing })
    const made = [
      await app.ask('create_mcp_gateway', named('gateway'), ann),
      await app.ask('create_llm_proxy', named('proxy'), ann),
      await app.ask('create_mcp_server', { ...named('server'), serverUrl: upstream.url }, ann),
    ] as { id: string; name: string; slug?: string }[]
    const catalogId = made[2]!.id
    const where = sharing.scope === 'team' ? { scope: 'team', teamId: 'crew' } : {}
    const deployed = await app.ask<{ id: string }>('deploy_mcp_server', { catalogId, ...where }, ann)
    const { tools } = await app.ask<{ tools: { id: string }[] }>(
      'get_mcp_server_tools',
      { mcpServerId: catalogId },
      ann,
    )
    hidden.push(...made.flatMap(({ id, name, slug }) => [id, name, ...(slug === undefined ? [] : [slug])]))
    hidden.push(deployed.id, tools[0]!.id)
  }
  hidden.push((await app.ask<{ reference: string }>('secret_link_create', { purpose: 'x' }, ann)).reference)
  for (const role of ['member', 'editor'] as const) {
    const caller = await app.keyCaller({ name: `viewer-${role}`, role })
    viewers.set(role, caller)
    viewers.set(`user of the role ${role}`, asUser(caller, `u-${role}`, [others]))
  }
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const catalog = createCatalog(await loadAllTools())
const TOOLSETS = ['gateways', 'mcp-servers', 'secrets', 'model-proxies', 'limits', 'policies']
/** Parameters by which such a thing can be meant; a name that is given to something new is not among them. */
const NAMING = [
  'id',
  'mcpGatewayId',
  'mcpServerId',
  'catalogId',
  'serverId',
  'toolId',
  'tool_id',
  'entity_id',
  'toolIds',
]
const schemaOf = (tool: CatalogTool): Schema => tool.listed.inputSchema as Schema
const isReader = ({ name }: CatalogTool): boolean => name.startsWith('get_')
const parametersOf = (tool: CatalogTool): string[] =>
  propertiesOf(schemaOf(tool))
    .map(([key]) => key)
    .filter((key) => NAMING.includes(key) || (key === 'name' && isReader(tool)))
const tools = catalog.tools.filter(
  (tool) => TOOLSETS.includes(tool.definition.toolset) && parametersOf(tool).length > 0,
)

const NONE = '00000000-0000-4000-8000-00000000dead'
const masked = (answer: ToolAnswer, ...names: string[]): string =>
  names.reduce(
    (text, name) => text.replaceAll(name, 'NAME'),
    answer.json.replaceAll(/req_[\w-]+|"createdAt":"[^"]*"/g, ''),
  )

describe('what is hidden', () => {
  it('is in no list and no search', async () => {
    const lists = catalog.tools.filter(
      ({ name, definition }) => TOOLSETS.includes(definition.toolset) && /(^|_)(list|search|get)/.test(name),
    )
    expect(lists.length).toBeGreaterThan(5)
    for (const [who, viewer] of viewers) {
      for (const { name } of [...lists, { name: 'search_tools' }]) {
        const { json } = await app.call(name, { query: 'hidden server echo' }, viewer)
        const plain = await app.call(name, {}, viewer)
        for (const value of hidden) {
          expect(json, `${who} ${name}`).not.toContain(value)
          expect(plain.json, `${who} ${name}`).not.toContain(value)
        }
      }
    }
  })

  it.each(tools.map(({ name }) => name))('is to %s as none', async (name) => {
    const tool = catalog.find(name)!
    const plain = fc.sample(validArguments(schemaOf(tool)), { seed: 11, numRuns: 1 })[0]!
    for (const key of parametersOf(tool)) {
      const others = Object.fromEntries(
        Object.entries(plain).filter(([other]) => other === key || !NAMING.includes(other)),
      )
      const required = (schemaOf(tool) as { required?: string[] }).required ?? []
      const argsWith = (value: string) => ({
        ...others,
        ...Object.fromEntries(
          required.filter((one) => NAMING.includes(one)).map((one) => [one, one === 'toolIds' ? [NONE] : NONE]),
        ),
        [key]: key === 'toolIds' ? [value] : value,
      })
      for (const [who, viewer] of viewers) {
        const none = masked(await app.call(name, argsWith(NONE), viewer), NONE)
        for (const value of hidden) {
          const answer = masked(await app.call(name, argsWith(value), viewer), value, NONE)
          expect(answer, `${who} ${key}=${value}`).toBe(none)
        }
      }
    }
  })

  it('is there for those who have it, so that the comparison says something', async () => {
    for (const [index, tool] of [
      [0, 'get_mcp_gateway'],
      [3, 'get_llm_proxy'],
    ] as const) {
      expect((await app.call(tool, { id: hidden[index] })).isError, `${tool} ${hidden[index]}`).toBe(false)
    }
  })
})
