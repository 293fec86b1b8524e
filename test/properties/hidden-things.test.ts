import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { permissions, rightsFrom } from '../../src/contract/permissions.ts'
import { loadAllTools } from '../../src/tools/index.ts'
import { allRulesOf } from '../../src/tools/runtime/call-rules.ts'
import { type CatalogTool, createCatalog } from '../../src/tools/runtime/catalog.ts'
import type { ToolAnswer, ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { requiredArguments, textPathsOf, withTextAt } from '../support/argument-paths.ts'
import type { Schema } from '../support/arguments.ts'
import { type HiddenThings, plantHiddenThings } from '../support/hidden-things.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { rowsOfTenant } from '../support/tenancy-probe.ts'
import { startUpstreamByKey, type UpstreamByKey } from '../support/upstream-by-key.ts'

/**
 * What one person has for themselves, or a team for its members, is for the others of the tenant as if it were not there: every tool
 * answers the same for the id or the name of such a thing as for none, in each of its parameters, and changes nothing of it. What is read
 * over REST passes the same tools.
 */
let app: TestApp
let upstream: McpUpstream
let byKey: UpstreamByKey
let hidden: HiddenThings
/** A user of another team with every right but those to reach what is not theirs. */
let viewer: ToolCaller
let owner: ToolCaller
let rowsBefore: readonly string[]
/** What the viewer has: by parameter, for the parameters beside the one that is tried. */
let own: Readonly<Record<string, unknown>>

/** Rights to what all users of the tenant have done. */
const overAll = (permission: string): boolean => /:(admin|recover)$|^(auditLog|log:|toolPolicy:update)/.test(permission)

async function personOf(team: string, email: string): Promise<ToolCaller> {
  const { id } = await app.ask<{ id: string }>('user_create', { email, role: 'editor', teams: [team] })
  const { teams } = await app.ask<{ teams: { id: string; name: string }[] }>('user_team_list')
  const teamId = teams.find(({ name }) => name === team)!.id
  const key = await app.keyCaller({ name: `program-${team}`, role: 'editor', tier: 'operator' })
  const { keyId: _, ...principal } = key.principal
  return { ...key, principal: { ...principal, kind: 'user', user: id, actor: email, teams: [teamId] } }
}

beforeAll(async () => {
  upstream = await startMcpUpstream()
  byKey = await startUpstreamByKey({})
  app = await openTestApp({
    config: {
      ...{ 'rate_limits.enabled': false, 'web.allow_private_addresses': ['127.0.0.1'] },
      ...{ 'workspaces.quota.workspaces': 0, 'workspaces.store_gb': 0, 'web.search_url': upstream.url },
    },
  })
  for (const name of ['crew', 'others']) await app.ask('user_team_create', { name })
  owner = await personOf('crew', 'ann@example.com')
  const bob = await personOf('others', 'bob@example.com')
  const all = permissions.filter((permission) => !overAll(permission))
  viewer = { ...bob, principal: { ...bob.principal, ...rightsFrom('custom', new Set(all)) } }
  const program = await app.keyCaller({ name: 'program', role: 'editor' })
  hidden = await plantHiddenThings(app, { person: owner, team: 'crew', program }, { url: upstream.url, byKey })
  own = await plantOwn()
  rowsBefore = rowsOfOwners()
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
  await byKey[Symbol.asyncDispose]()
})

async function plantOwn(): Promise<Record<string, unknown>> {
  const idOf = async (tool: string, args: object) => (await app.ask<{ id: string }>(tool, args, viewer)).id
  const agentId = await idOf('create_agent', { name: 'Own agent' })
  const mcpGatewayId = await idOf('create_mcp_gateway', { name: 'Own gateway', scope: 'personal' })
  const catalogId = await idOf('create_mcp_server', { name: 'Own server', scope: 'personal', serverUrl: upstream.url })
  await app.ask('project_create', { project: 'own' }, viewer)
  await app.ask('task_create', { title: 'Own', project: 'own' }, viewer)
  return {
    ...{ agentId, mcpGatewayId, catalogId, toolId: 'task_list', toolIds: ['task_list'], task_id: 'T-0001' },
    ...{ id: { edit_agent: agentId, edit_mcp_gateway: mcpGatewayId, edit_mcp_config: catalogId } },
  }
}

/** The rows of those who have what is hidden, and those below them. */
const rowsOfOwners = (): readonly string[] =>
  rowsOfTenant(app.reader(), 'local', /^(?!log_)/)
    .split('\n')
    .filter((row) => [...hidden.owners, hidden.canary].some((text) => row.includes(text)))

const catalog = createCatalog(await loadAllTools())
const schemaOf = (tool: CatalogTool): Schema => tool.listed.inputSchema as Schema

/** Parameters that are texts or settings and mean nothing else. A new parameter is taken to name something. */
const texts = new Set(
  `
  description icon content reason title systemPrompt summaryTitle prompt note message old_string new_string target_content
  replacement_content command commands setup_commands instructions authDescription docsUrl password secret purpose task_summary
  commit_message public_key shared_context expires_in expires_at workdir stdin blocked_reason commit_sha author_name author_email
  tests_run blockers url label labels intent email key value branch assignee auditor_id version query search tags language since
  until iss code project parent_id depends_on created_after created_before updated_since suggestedPrompts capability skills
  manifest_yaml serverUrl repository arguments installationCommand httpPath deploymentSpecYaml allowedDomains oauthConfig
  enterpriseManagedConfig authFields mounts mount allowed_domains git_url regex environment envFrom dockerImage serviceAccount
  imagePullSecrets provider providers remote model models target_model zaru_tier message_type role file_path path paths args cwd
`.split(/\s+/),
)
const isNaming = (path: string): boolean =>
  path === 'key' || !path.split('.').some((step) => texts.has(step.replaceAll('[]', '')))
const namingPathsOf = (tool: CatalogTool): string[] => [...new Set(textPathsOf(schemaOf(tool)))].filter(isNaming)
/** First those that only read, and last those that give a name: what has got a hidden name then is the viewer's own. */
const order = ['read', 'external', 'delete', 'update', 'create']
const rankOf = (tool: CatalogTool): number => {
  const isRenaming = tool.name.startsWith('edit_') && namingPathsOf(tool).includes('name')
  const ranks = allRulesOf(tool.definition).map(({ effect }) => order.indexOf(effect))
  return Math.max(...ranks, isRenaming ? order.length : 0)
}
const names = [...catalog.tools].sort((one, other) => rankOf(one) - rankOf(other)).map(({ name }) => name)
const isReading = (tool: CatalogTool): boolean => rankOf(tool) === 0
const readers = catalog.tools.filter(isReading)
const isWaiting = ({ name }: CatalogTool): boolean => name.endsWith('.wait')

const filledIn = (tool: CatalogTool) => (key: string) =>
  key === 'id' ? (own['id'] as Record<string, unknown>)[tool.name] : own[key]
const plainArguments = (tool: CatalogTool) => requiredArguments(schemaOf(tool), filledIn(tool))

/** A value of the same form that names nothing. Its last character is of the same kind: suggestions go by the words in a name. */
const noneLike = (value: string): string => {
  const [one, other] = /\d$/.test(value) ? ['7', '6'] : /[A-Z]$/.test(value) ? ['A', 'B'] : ['a', 'b']
  return value.slice(0, -1) + (value.endsWith(one) ? other : one)
}

/** All of an answer but what the caller sent, and what no two calls share. */
const masked = ({ json, content }: ToolAnswer, value: string): string =>
  [value, value.toLowerCase(), value.toUpperCase(), value.toLowerCase().replaceAll('_', '-')]
    .reduce((text, one) => text.replaceAll(one, '#'), `${json} ${JSON.stringify(content ?? [])}`)
    .replaceAll(/"prefix":"\w+"|(?:c|req)_[\w-]+|[\w-]*\d[\w-]*/g, '#')

/** How a tool answers for what is hidden and for none, where that differs. */
async function differenceAt(
  tool: CatalogTool,
  path: string,
  value: string,
  caller = viewer,
): Promise<string | undefined> {
  const [there, not] = await Promise.all(
    [value, noneLike(value)].map(async (one) =>
      masked(await app.call(tool.name, withTextAt(schemaOf(tool), path, one, filledIn(tool)), caller), one),
    ),
  )
  if (there?.includes(hidden.canary)) return `${path}=${value} shows ${there}`
  return there === not ? undefined : `${path}=${value}:\n  ${there}\n  ${not}`
}

async function differencesAt(tool: CatalogTool, path: string): Promise<string[]> {
  const found = await Promise.all(hidden.values.map(async (value) => [value, await differenceAt(tool, path, value)]))
  const faults: string[] = []
  // What the viewer itself changed meanwhile makes a difference only once.
  for (const [value, fault] of found) {
    if (fault !== undefined) faults.push((await differenceAt(tool, path, value!)) ?? '')
  }
  return faults.filter((fault) => fault !== '')
}

describe('what is hidden', () => {
  it.each(readers.map(({ name }) => name))('is not shown by %s', async (name) => {
    const tool = catalog.find(name)!
    for (const args of [plainArguments(tool), { ...plainArguments(tool), query: 'hidden server zq canary' }]) {
      const { json } = await app.call(name, args, viewer)
      expect([...hidden.values, hidden.canary].filter((value) => json.includes(value))).toEqual([])
    }
  })

  it('is there for those who have it, so that the comparison says something', async () => {
    const unseen = new Set(hidden.values)
    // A tool that waits for the end of something would wait for what has none.
    for (const tool of [...readers].sort((one, other) => Number(isWaiting(one)) - Number(isWaiting(other)))) {
      for (const path of namingPathsOf(tool)) {
        for (const value of unseen) {
          const differs = await differenceAt(tool, path, value, owner)
          // Suggestions go by the letters of a name, and say nothing of what is there.
          if (differs?.includes('Nearest: ') === false) unseen.delete(value)
        }
      }
    }
    for (const tool of readers) {
      const { json } = await app.call(tool.name, plainArguments(tool), owner)
      for (const value of unseen) if (json.includes(value.replace('secret:', ''))) unseen.delete(value)
    }
    // What only a tool that also writes shows, and what a program has.
    expect([...unseen].map((value) => value.replace(/(?<=^seal_).*/, '')).sort()).toEqual([
      ...['hidden-member-52', 'hidden-snapshot-52', 'hidden-snapshot-id-52', 'hidden-team-52', 'seal_'],
    ])
  })

  it.each(names)('is to %s as none, and stays as it was', async (name) => {
    const tool = catalog.find(name)!
    for (const path of namingPathsOf(tool)) {
      expect(await differencesAt(tool, path)).toEqual([])
    }
    if (isReading(tool)) return
    const rowsAfter = new Set(rowsOfOwners())
    expect(rowsBefore.filter((row) => !rowsAfter.has(row))).toEqual([])
  })
})
