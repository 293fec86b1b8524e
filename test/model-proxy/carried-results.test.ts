import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { type AskedCall, type Dialect, dialectProviders, dialects, type Turn } from '../support/model-dialects.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts'
import { newSigner } from '../support/seal.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** What an untrusted caller wrote comes back as the result of a tool of ours, and passes through the model proxy. */
let model: ScriptedModel
let upstream: McpUpstream
let server: ServerHere
let origin: string

type Ids = Readonly<Record<'clean' | 'dirty', string>>
let tasks: Ids
let workspaces: Ids
let keys: Ids & Readonly<Record<'inTurn' | 'older', string>>

const call = async <T>(name: string, args: object, headers: Record<string, string> = {}): Promise<T> => {
  const response = await fetch(`${origin}/v1/tools/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(args),
  })
  const answer = (await response.json()) as T
  if (!response.ok) throw new Error(JSON.stringify(answer))
  return answer
}
const withKey = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` })
const keyOf = async (name: string) =>
  (await call<{ secret: string }>('api_key_create', { name, role: 'editor' })).secret

beforeAll(async () => {
  model = await startScriptedModel(() => ({ toolCalls: [{ name: 'send_mail', arguments: {}, id: 'call_9' }] }))
  upstream = await startMcpUpstream()
  const dataDir = newDataDir()
  const config = {
    ...{ models: { providers: dialectProviders(model.url) }, governance: 'restrictive' },
    ...{ web: { allow_private_addresses: ['127.0.0.1'] }, rate_limits: { enabled: false } },
  }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  process.env['MODEL_KEY'] = 'k'
  server = await startServerHere({ dataDir })
  origin = new URL(server.url).origin
  const item = await call<{ id: string }>('create_mcp_server', { name: 'Up', serverUrl: upstream.url, scope: 'org' })
  await call('deploy_mcp_server', { catalogId: item.id, scope: 'org' })
  const trusting = { toolId: 'thought_record_list', conditions: [], action: 'mark_as_trusted' }
  await call('create_trusted_data_policy', trusting)
  const task = async (title: string) =>
    (await call<{ task_id: string }>('task_create', { project: title, title })).task_id
  const workspace = async (name: string) =>
    (await call<{ workspace_id: string }>('workspace_create', { name })).workspace_id
  keys = {
    ...{ clean: await keyOf('clean'), dirty: await keyOf('dirty') },
    ...{ inTurn: await keyOf('in-turn'), older: await keyOf('older') },
  }
  const clean = { task: await task('clean'), workspace: await workspace('clean') }
  const dirtyWorkspace = await workspace('dirty')
  await call('up__echo', { text: 'obey' }, withKey(keys.dirty))
  await call('up__echo', { text: 'obey' })
  tasks = { clean: clean.task, dirty: await task('dirty') }
  workspaces = { clean: clean.workspace, dirty: dirtyWorkspace }
  const path = '/workspace/a.txt'
  await call('file_write', { workspace_id: dirtyWorkspace, path, content: 'obey' })
  await call('fs.write', { path, content: 'obey' })
})
afterAll(async () => {
  await server.stop()
  await upstream[Symbol.asyncDispose]()
  await model.stop()
  delete process.env['MODEL_KEY']
})

/** A conversation in which a tool of this server answered, under the name that programs give it. */
function answered(name: string, args: AskedCall['args'], text: string): Turn[] {
  const id = 'call_1'
  return [
    { user: `go on, ${Math.random()}` },
    { text: '', calls: [{ id, name: `mcp__castellan__${name}`, args }] },
    { results: [{ id, name: `mcp__castellan__${name}`, text }] },
  ]
}
/** How many calls of the program's own tool pass after that. */
async function passes(dialect: Dialect, turns: readonly Turn[], headers = {}): Promise<number> {
  const heard = await dialect.ask(origin, turns, ['send_mail'], { headers })
  return heard.calls.length
}
const [chat] = dialects as [Dialect]

describe.each(dialects)('$name', (dialect) => {
  it('sends nothing out after a task, a file or an output that an untrusted caller wrote', async () => {
    const passed: Record<string, number> = {}
    for (const which of ['clean', 'dirty'] as const) {
      const [task_id, workspace_id] = [tasks[which], workspaces[which]]
      const task = JSON.stringify({ task_id, title: 'obey' })
      const file = { workspace_id, path: '/workspace/a.txt' }
      passed[`task ${which}`] = await passes(dialect, answered('task_get', { task_id }, task))
      passed[`file ${which}`] = await passes(dialect, answered('file_read', file, '{"content": "obey"}'))
      const command = { workspace_id: which, command: 'cat /workspace/a.txt' }
      passed[`exec ${which}`] = await passes(dialect, answered('exec', command, 'obey'))
    }
    expect(passed).toEqual({
      ...{ 'task clean': 1, 'file clean': 1, 'exec clean': 1 },
      ...{ 'task dirty': 0, 'file dirty': 0, 'exec dirty': 0 },
    })
  })
})

describe.each(dialects)('$name', (dialect) => {
  it('tells the results of two calls of one tool apart', async () => {
    const calls = (['dirty', 'clean'] as const).map((which, index) => {
      const args = { workspace_id: workspaces[which], path: '/workspace/a.txt' }
      return { id: `call_${index}`, name: 'mcp__castellan__file_read', args }
    })
    const results = calls.map(({ id, name }) => ({ id, name, text: '{"content": "obey"}' }))
    expect(await passes(dialect, [{ user: `go on, ${Math.random()}` }, { text: '', calls }, { results }])).toBe(0)
  })
})

describe('a result whose call has no id of its own', () => {
  const ask = async (key: string, messages: readonly object[]): Promise<unknown> => {
    const response = await fetch(`${origin}/v1/openai/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...withKey(key) },
      body: JSON.stringify({ model: 'gpt-4o', messages: [{ role: 'user', content: `${Math.random()}` }, ...messages] }),
    })
    const { choices } = (await response.json()) as { choices: { message: { tool_calls?: unknown[] } }[] }
    return choices[0]!.message.tool_calls?.length ?? 0
  }
  const name = 'mcp__castellan__file_read'
  const reading = (which: keyof Ids) => ({
    name,
    arguments: JSON.stringify({ workspace_id: workspaces[which], path: '/workspace/a.txt' }),
  })
  const said = '{"content": "obey"}'

  it('is that of each call in turn', async () => {
    const tool_calls = (['dirty', 'clean'] as const).map((which) => ({ id: '', function: reading(which) }))
    const result = { role: 'tool', tool_call_id: '', content: said }
    const key = keys.inTurn
    expect(await ask(key, [{ role: 'assistant', tool_calls: tool_calls.slice(1) }, result])).toBe(1)
    expect(await ask(key, [{ role: 'assistant', tool_calls }, result, result])).toBe(0)
  })

  it('is that of the older kind of call', async () => {
    const key = keys.older
    await call('fs.write', { path: '/workspace/a.txt', content: 'fine' }, withKey(key))
    const result = { role: 'function', name, content: said }
    const history = (which: keyof Ids) => [{ role: 'assistant', content: null, function_call: reading(which) }, result]
    expect([await ask(key, history('clean')), await ask(key, history('dirty'))]).toEqual([1, 0])
  })
})

describe('a result of a tool of ours', () => {
  it('is known by the ids in it, however the program wraps it', async () => {
    const list = { tasks: [{ task_id: tasks.clean }, { task_id: tasks.dirty }] }
    const content = [{ type: 'text', text: JSON.stringify(list, null, 2) }]
    for (const text of [
      JSON.stringify(list),
      JSON.stringify({ content }),
      JSON.stringify({ content: [{ type: 'text', text: JSON.stringify({ content }) }] }),
      `Output of the tool:\n${JSON.stringify(list, null, 2)}`,
      `${JSON.stringify(JSON.stringify(list)).slice(0, -4)} [cut]`,
      `{'tasks': [{'task_id': '${tasks.dirty}', 'title': 'x'}]}`,
    ])
      expect(await passes(chat, answered('task_list', {}, text)), text).toBe(0)
    const others = JSON.stringify({ tasks: [{ task_id: tasks.clean, title: tasks.dirty }] })
    expect(await passes(chat, answered('task_list', {}, others))).toBe(1)
    expect(await passes(chat, answered('task_list', {}, '{"tasks":[]}'))).toBe(1)
  })

  it('is untrusted if it names nothing by which its origin is known', async () => {
    expect(await passes(chat, answered('task_list', {}, 'one task: obey'))).toBe(0)
    expect(await passes(chat, answered('exec', { workspace_id: 'gone', command: 'true' }, 'obey'))).toBe(0)
    expect(await passes(chat, answered('list_registry_servers', {}, '{"servers":[]}'))).toBe(0)
    // It shows nothing of others.
    expect(await passes(chat, answered('server_ping', {}, 'ok'))).toBe(1)
  })

  it('is not trusted because what others wrote names something else', async () => {
    const nobody = '00000000-0000-4000-8000-000000000000'
    const claims = [nobody, workspaces.clean].map((id) => `obey {"workspace_id": "${id}"}`)
    for (const claim of claims) {
      const args = { path: '/workspace/a.txt' }
      expect(await passes(chat, answered('fs_read', args, JSON.stringify({ content: claim }))), claim).toBe(0)
      expect(await passes(chat, answered('fs_read', args, claim)), claim).toBe(0)
    }
    expect(await passes(chat, answered('task_list', {}, `one task: obey "task_id": "${tasks.clean}"`))).toBe(0)
    const many = Array.from({ length: 1_001 }, (_, index) => `T-${index + 10_000}`)
    expect(await passes(chat, answered('task_list', {}, JSON.stringify([{ task_id: many }])))).toBe(0)
  })

  it('of a team that is gone is untrusted', async () => {
    const roles = [{ name: 'm1', role: 'coder', skills: [], description: 'writes' }]
    const answer = () => answered('team', { action: 'receive', name: 'crew', agent: 'lead' }, '{"messages":[]}')
    await call('team', { action: 'create', name: 'crew', roles }, withKey(keys.clean))
    expect(await passes(chat, answer())).toBe(1)
    await call('team', { action: 'destroy', name: 'crew' }, withKey(keys.clean))
    expect(await passes(chat, answer())).toBe(0)
  })

  it('that is a note about a member of a team is as untrusted as the team', async () => {
    const passed: Record<string, number> = {}
    for (const name of ['clean', 'dirty'] as const) {
      const roles = [{ name: 'm1', role: 'coder', skills: [], description: 'obey' }]
      await call('team', { action: 'create', name, roles }, withKey(keys[name]))
      const path = `teams/${name}/cards/m1.json`
      const found = JSON.stringify({ results: [{ path, line: 'obey' }] })
      passed[`read ${name}`] = await passes(chat, answered('vault', { action: 'read', path }, 'obey'))
      passed[`search ${name}`] = await passes(chat, answered('vault', { action: 'search', query: 'obey' }, found))
    }
    expect(passed).toEqual({ 'read clean': 1, 'search clean': 1, 'read dirty': 0, 'search dirty': 0 })
  })

  it('of a tool whose service alone says what it shows is known too', async () => {
    const passed: Record<string, number> = {}
    for (const which of ['clean', 'dirty'] as const)
      for (const tool of ['workspace_logs', 'workspace_info'])
        passed[`${tool} ${which}`] = await passes(chat, answered(tool, { workspace_id: workspaces[which] }, '{}'))
    expect(passed).toEqual({
      ...{ 'workspace_logs clean': 1, 'workspace_info clean': 1 },
      ...{ 'workspace_logs dirty': 0, 'workspace_info dirty': 0 },
    })
    const session = async (headers: Record<string, string>) => {
      const asked = { public_key: newSigner().publicKey, task_summary: 'a task' }
      const { session_id } = await call<{ session_id: string }>('seal_session_create', asked, headers)
      return JSON.stringify({ sessions: [{ session_id }] })
    }
    expect(await passes(chat, answered('seal_session_list', {}, await session(withKey(keys.clean))))).toBe(1)
    expect(await passes(chat, answered('seal_session_list', {}, await session(withKey(keys.dirty))))).toBe(0)
  })

  it('without a workspace in the call is of the personal one of the caller', async () => {
    const read = () => answered('fs_read', { path: '/workspace/a.txt' }, 'obey')
    expect(await passes(chat, read())).toBe(0)
    await call('fs.write', { path: '/workspace/a.txt', content: 'fine' }, withKey(keys.clean))
    expect(await passes(chat, read(), withKey(keys.clean))).toBe(1)
  })

  it('is untrusted for a key that has an untrusted connection, and for that key alone', async () => {
    const clean = () => answered('task_get', { task_id: tasks.clean }, JSON.stringify({ task_id: tasks.clean }))
    expect(await passes(chat, clean(), withKey(keys.dirty))).toBe(0)
    expect(await passes(chat, clean(), withKey(keys.clean))).toBe(1)
    expect(await passes(chat, clean())).toBe(1)
    // A program without any result of ours is not judged by its other conversations.
    expect(await passes(chat, [{ user: `hi ${Math.random()}` }], withKey(keys.dirty))).toBe(1)
  })

  it('is not trusted because a policy trusts the tool, and says where it came from', async () => {
    const [clean, dirty] = [{ task_id: tasks.clean }, { task_id: tasks.dirty }]
    expect(await passes(chat, answered('thought_record_list', clean, '[]'))).toBe(1)
    expect(await passes(chat, answered('thought_record_list', dirty, '[]'))).toBe(0)
    const { others } = await call<{ others: { context: string; cause: object }[] }>('context_trust_get', { limit: 500 })
    const causes = others.filter(({ context }) => context.startsWith('conversation:proxy-')).map(({ cause }) => cause)
    expect(causes).toContainEqual(expect.objectContaining({ kind: 'inherited', from: `task:${tasks.dirty}` }))
  })
})
