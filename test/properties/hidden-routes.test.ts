import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createPatternRoutes } from '../../src/http/create-http-transport.ts'
import { loadAllTools } from '../../src/tools/index.ts'
import { createCatalog } from '../../src/tools/runtime/catalog.ts'
import { agentYaml } from '../support/executions.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { PASSWORD, postForm, type Row, signIn } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'
import { workflowYaml } from '../support/workflows.ts'

/**
 * What Ann has for herself or with her team is to other people of the organisation, and to their keys, as if it were not there, at every
 * address of the server: one that takes a name answers the same for a hidden thing as for none, and one that does not shows none of them.
 */
const catalog = createCatalog(await loadAllTools())
const routes = createPatternRoutes({ catalog, clients: {} } as never).map(({ method, path }) => `${method} ${path}`)

/** What is served before the table of routes is asked. */
const besideTheTable = [
  ...['GET /', 'GET /health', 'GET /health/live', 'GET /health/ready', 'GET /openapi.json', 'GET /v1/tools'],
  ...['POST /v1/tools/{name}', 'POST /mcp/{name}', 'GET /mcp/{name}', 'DELETE /mcp/{name}'],
  ...['POST /v1/peer/{name}/chat/completions', 'POST /v1/model-router/{name}/chat/completions'],
]

const manifest_yaml = agentYaml('probe', '  task: { instruction: "Work." }\n')
const initialize = {
  ...{ jsonrpc: '2.0', id: 1, method: 'initialize' },
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
}
const ask = { model: 'm', messages: [{ role: 'user', content: 'hello' }] }
/** What a request to an address has as its body; an empty object otherwise. */
const bodies: Readonly<Record<string, Row>> = {
  'PATCH /v1/agents/{id}': { manifest_yaml },
  'POST /v1/agents/{id}/scope': { target_scope: 'tenant' },
  'POST /v1/agents/{id}/execute': { intent: 'Work.' },
  'POST /v1/workflows/{name}/scope': { target_scope: 'tenant' },
  'POST /v1/workflows/{name}/run': { input: {} },
  'POST /v1/workflows/executions/{id}/signal': { response: 'yes' },
  'POST /v1/human-approvals/{id}/reject': { reason: 'no' },
  'POST /mcp/{name}': initialize,
  'POST /v1/peer/{name}/chat/completions': ask,
  'POST /v1/model-router/{name}/chat/completions': ask,
}

/** The kinds of things that an address can name, by how it begins; the longest that fits counts. A new address needs a line here. */
const named: Readonly<Record<string, readonly string[]>> = {
  '/v1/agents/': ['agent'],
  '/v1/executions/': ['run of an agent', 'run of a workflow'],
  '/v1/workflows/': ['workflow'],
  '/v1/workflows/executions/': ['run of an agent', 'run of a workflow'],
  '/v1/approvals/': ['approval'],
  '/v1/human-approvals/': ['run of a workflow'],
  '/v0.1/servers/': ['server', 'name in the registry'],
  '/secrets/': ['secret'],
  '/mcp-authorize/': ['deployment'],
  '/mcp-servers/': ['deployment', 'server'],
  '/invitation/': ['invitation'],
  '/sign-in/provider/': ['agent'],
  '/auth/callback/': ['agent'],
  '/.well-known/oauth-protected-resource/': ['gateway', 'agent'],
  '/v1/tools/': ['tool'],
  '/mcp/': ['gateway', 'agent'],
  '/v1/peer/': ['proxy'],
  '/v1/model-router/': ['proxy'],
}
const kindsAt = (route: string): readonly string[] => {
  const path = route.split(' ')[1]!
  const [longest] = Object.keys(named)
    .filter((start) => path.startsWith(start))
    .sort((one, other) => other.length - one.length)
  if (longest === undefined) throw new Error(`no kind of thing is named for ${route}`)
  return named[longest]!
}

/** Where Ann herself reads the same as for none: the part is a right in itself or names what is for all, or there is nothing to read. */
const sameForAnn = [
  ...['GET /secrets/{token}', 'GET /mcp-authorize/{token}', 'GET /invitation/{token}'],
  ...['GET /sign-in/provider/{provider}', 'GET /auth/callback/{provider}', 'GET /mcp-servers/{id}/authorize'],
  ...['GET /.well-known/oauth-protected-resource/{path...}', 'GET /v1/executions/{id}/files/{path...}'],
]

type Who = Readonly<Record<string, string>>
let server: ServerHere
let upstream: McpUpstream
let ann: Who
const viewers = new Map<string, Who>()
/** For each there is a value of the same form that names nothing. */
const hidden: Readonly<{ kind: string; value: string }>[] = []
const noneLike = (value: string): string =>
  /\d/.test(value)
    ? value.replaceAll(/\d/g, (digit) => String((Number(digit) + 3) % 10))
    : value.slice(0, -1) + (value.endsWith('a') ? 'b' : 'a')

const at = (path: string): URL => new URL(path, server.url)
async function call<T = Row>(who: Who, tool: string, args: Row = {}): Promise<T> {
  const { status, text } = await send(who, `POST /v1/tools/${tool}`, args)
  if (status !== 200) throw new Error(`${tool}: ${text}`)
  return JSON.parse(text) as T
}
async function send(who: Who, request: string, body: Row = {}): Promise<{ status: number; text: string }> {
  const [method = '', path = ''] = request.split(' ')
  const response = await fetch(at(path), {
    method,
    redirect: 'manual',
    headers: {
      ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      ...{ origin: new URL(server.url).origin, ...who },
    },
    ...(method === 'GET' ? {} : { body: JSON.stringify(body) }),
  })
  // A stream that has begun shows a thing by that alone.
  if (response.headers.get('content-type')?.includes('event-stream') && method === 'GET') {
    await response.body?.cancel()
    return { status: response.status, text: '' }
  }
  return { status: response.status, text: await response.text() }
}

/** The address with `value` for each part that may be anything. */
const filled = (route: string, value: string): string =>
  route.replaceAll(/\{(\w+)(\.\.\.)?\}/g, (_, name: string) =>
    name === 'version' ? 'latest' : encodeURIComponent(value),
  )
const isOpen = (route: string): boolean => route.includes('{')
const masked = ({ status, text }: { status: number; text: string }, value: string): string =>
  `${status} ${text.replaceAll(value, 'NAME').replaceAll(encodeURIComponent(value), 'NAME')}`.replaceAll(
    /"request_id":"[^"]*"|"retry_after_ms":\d+/g,
    '',
  )

beforeAll(async () => {
  upstream = await startMcpUpstream()
  const dataDir = newDataDir()
  const models = [{ alias: 'default', model: 'm', input_cost_per_million: 1, output_cost_per_million: 1 }]
  const config = {
    models: { providers: [{ name: 'peer', type: 'openai-compatible', endpoint: 'http://127.0.0.1:9/v1', models }] },
    rate_limits: { enabled: false },
    web: { allow_private_addresses: ['127.0.0.1'] },
  }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  server = await startServerHere({ dataDir })
  const owner: Who = {}
  for (const name of ['crew', 'others']) await call(owner, 'user_team_create', { name })
  async function person(name: string, role: string, team: string): Promise<Who> {
    const email = `${name}@example.com`
    const { link } = await call<{ link: string }>(owner, 'user_create', { email, role, teams: [team] })
    await postForm(at(new URL(link).pathname), { password: PASSWORD, again: PASSWORD })
    return { cookie: await signIn(server, { email, password: PASSWORD }) }
  }
  ann = await person('ann', 'editor', 'crew')
  viewers.set('a member of another team', await person('bob', 'member', 'others'))
  const { secret } = await call<{ secret: string }>(owner, 'api_key_create', { name: 'program', role: 'editor' })
  viewers.set('a key of an editor', { authorization: `Bearer ${secret}` })

  const add = (kind: string, ...values: (string | undefined)[]) =>
    hidden.push(...values.filter((value) => value !== undefined).map((value) => ({ kind, value })))
  for (const sharing of [{ scope: 'personal' }, { scope: 'team', teams: ['crew'] }]) {
    const number = sharing.scope === 'team' ? 41 : 52
    const make = async (kind: string, tool: string, more: Row = {}): Promise<string> => {
      const name = `Zq${number} ${kind === 'server' ? 'vx' : 'wk'}${number}`
      const made = await call<{ id: string; slug?: string }>(ann, tool, { name, ...sharing, ...more })
      add(kind, made.id, name, made.slug)
      return made.id
    }
    await make('agent', 'create_agent', { systemPrompt: 'Hidden prompt.' })
    await make('gateway', 'create_mcp_gateway')
    await make('proxy', 'create_llm_proxy')
    const catalogId = await make('server', 'create_mcp_server', { serverUrl: upstream.url })
    const where = sharing.scope === 'team' ? { scope: 'team', teamId: 'crew' } : {}
    add('deployment', (await call<{ id: string }>(ann, 'deploy_mcp_server', { catalogId, ...where })).id)
    const { tools } = await call<{ tools: { id: string; name: string }[] }>(ann, 'get_mcp_server_tools', {
      mcpServerId: catalogId,
    })
    add('tool', tools[0]!.id, tools[0]!.name)
  }
  const { text } = await send(ann, 'GET /v0.1/servers')
  const { servers } = JSON.parse(text) as { servers: { server: { name: string } }[] }
  add('name in the registry', ...servers.map(({ server: { name } }) => name))
  add('secret', (await call<{ reference: string }>(ann, 'secret_link_create', { purpose: 'x' })).reference)
  add('invitation', (await call<{ id: string }>(owner, 'invitation_create', { email: 'dan@example.com' })).id)
  const { identity } = await call<{ identity: string }>(ann, 'whoami')
  const flow = workflowYaml('zq52-flow', 'A: { kind: Human, prompt: "Well?", transitions: [] }')
  await call(ann, 'aegis.workflow.create', { manifest_yaml: flow })
  const demoted = { name: 'zq52-flow', target_scope: 'user', user_id: identity.replace('user:', '') }
  await call(owner, 'aegis.workflow.demote', demoted)
  add('workflow', 'zq52-flow')
  const run = await call<{ execution_id: string }>(ann, 'aegis.workflow.run', { name: 'zq52-flow' })
  add('run of a workflow', run.execution_id)
  const agent_id = hidden.find(({ kind }) => kind === 'agent')!.value
  const execution = await call<{ execution_id: string }>(ann, 'aegis.task.execute', { agent_id, intent: 'Go.' })
  add('run of an agent', execution.execution_id)
  const policy = { toolId: 'project_create', conditions: [], action: 'require_approval' }
  await call(owner, 'create_tool_invocation_policy', policy)
  const held = await send(ann, 'POST /v1/tools/project_create', { project: 'x' })
  const { error } = JSON.parse(held.text) as { error: { details: Row } }
  add('approval', String(error.details['approval_id']))
  const values = hidden.map(({ value }) => value)
  expect(values.filter((value) => values.includes(noneLike(value)))).toEqual([])
})
afterAll(async () => {
  await server.stop()
  await upstream[Symbol.asyncDispose]()
  rmSync(server.dataDir, { recursive: true, force: true })
})

/** Those who may answer approvals see them all. */
const isHiddenFrom = (who: string, kind: string): boolean => kind !== 'approval' || !who.includes('editor')

describe('what is hidden', () => {
  it.each([...routes, ...besideTheTable].filter(isOpen))('is at %s as none', async (route) => {
    const kinds = kindsAt(route)
    const things = hidden.filter(({ kind }) => kinds.includes(kind))
    expect(things.length).toBeGreaterThan(0)
    for (const [who, viewer] of viewers) {
      for (const { kind, value } of things.filter((thing) => isHiddenFrom(who, thing.kind))) {
        const answers = [value, noneLike(value)].map(async (one) =>
          masked(await send(viewer, filled(route, one), bodies[route]), one),
        )
        const [answer, none] = await Promise.all(answers)
        expect(answer, `${who}: ${kind} ${value}`).toBe(none)
      }
    }
  })

  it.each([...routes, ...besideTheTable].filter((route) => !isOpen(route)))('is not shown at %s', async (route) => {
    if (route === 'POST /sign-out') return
    for (const [who, viewer] of viewers) {
      const { text } = await send(viewer, route, bodies[route])
      const shown = hidden.filter(({ kind, value }) => isHiddenFrom(who, kind) && text.includes(value))
      expect(shown, who).toEqual([])
    }
  })

  it('is there for Ann, unchanged, at every address that takes its name', async () => {
    const blind: string[] = []
    for (const route of [...routes, ...besideTheTable].filter((one) => one.startsWith('GET') && isOpen(one))) {
      const kinds = kindsAt(route)
      const statusOf = async (value: string) => (await send(ann, filled(route, value))).status
      const seen = await Promise.all(
        hidden
          .filter(({ kind }) => kinds.includes(kind))
          .map(async ({ value }) => (await statusOf(value)) !== (await statusOf(noneLike(value)))),
      )
      if (!seen.includes(true)) blind.push(route)
    }
    expect(blind.sort()).toEqual(sameForAnn.sort())
  })
})
