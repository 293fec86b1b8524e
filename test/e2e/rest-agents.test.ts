import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { endSupervisor } from '../support/end-supervisor.ts'
import { agentYaml } from '../support/executions.ts'
import { type RealServer, startRealServer } from '../support/real-server.ts'
import { type Line, type ScriptedModel, scriptedModels, startScriptedModel } from '../support/scripted-model.ts'

/** Versions, scopes, streams and files of agents by REST in the real program, and work in a workspace that the caller names. */
let dataDir: string
let model: ScriptedModel
let server: RealServer
let other: Record<string, string>
/** What the model waits for, once it has written, where the question says so. */
const patience = Promise.withResolvers<void>()

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-rest-agents-'))
  model = await startScriptedModel(async ({ text, messages }): Promise<Line> => {
    const written = messages.filter(({ role }) => role === 'tool').length
    if (written === 0) {
      return { toolCalls: [{ name: 'fs.write', arguments: { path: '/workspace/note.txt', content: 'grüße' } }] }
    }
    if (text.includes('Patiently.')) await patience.promise
    return { text: 'written' }
  })
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(scriptedModels(model)))
  server = await startRealServer({ dataDir, env: { MODEL_KEY: 'k' } })
  const key = await send('POST', '/v1/tools/api_key_create', { name: 'other', role: 'member' })
  other = { authorization: `Bearer ${String((key.body as Row)['secret'])}` }
})
afterAll(async () => {
  patience.resolve()
  await server.stop()
  await model.stop()
  await endSupervisor(dataDir)
  rmSync(dataDir, { recursive: true, force: true })
})

const writer = (name: string, version: string): string =>
  agentYaml(name, '  task: { instruction: "Write." }\n  tools: [fs.write]\n  input_schema: { type: object }\n').replace(
    /version: *"?1\.0\.0"?/,
    `version: "${version}"`,
  )
const deploy = (name: string, version = '1.0.0') => send('POST', '/v1/agents', { manifest_yaml: writer(name, version) })

type Row = Record<string, unknown>

async function send(method: string, path: string, body?: object, headers: Record<string, string> = {}) {
  const response = await fetch(new URL(path, server.url), {
    method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as unknown }
}

async function execute(agent: string, body: object): Promise<string> {
  const reply = await send('POST', `/v1/agents/${agent}/execute`, body)
  expect([reply.status, reply.body]).toEqual([202, expect.anything()])
  return (reply.body as { execution_id: string }).execution_id
}

type Streamed = Readonly<{ id: string; data: Row }>

/** Reads a stream as it comes, until `isEnough`. */
async function read(
  path: string,
  isEnough: (event: Streamed) => boolean,
  headers: Record<string, string> = {},
): Promise<Streamed[]> {
  const response = await fetch(new URL(path, server.url), { headers })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
  const events: Streamed[] = []
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body!) {
    text += decoder.decode(chunk as Uint8Array, { stream: true })
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const match = /^id: (.+)\ndata: (.*)$/.exec(text.slice(0, end))
      text = text.slice(end + 2)
      if (match === null) continue
      const event = { id: match[1]!, data: JSON.parse(match[2]!) as Row }
      events.push(event)
      if (isEnough(event)) return events
    }
  }
  return events
}
const ends =
  (execution: string) =>
  ({ data }: Streamed): boolean =>
    data['execution_id'] === execution && data['event_type'] === 'execution_completed'
const cursorOf = ({ data }: Streamed): string => `${String(data['execution_id'])}/${String(data['sequence'])}`

describe('an agent', () => {
  test('shows its versions, its schema and what it was deployed with', async () => {
    for (const version of ['1.0.0', '1.10.0', '1.9.0']) expect((await deploy('versioned', version)).status).toBe(201)
    const versions = (await send('GET', '/v1/agents/versioned/versions')).body as Row[]
    expect(versions.map(({ version, latest }) => [version, latest])).toEqual([
      ['1.10.0', true],
      ['1.9.0', false],
      ['1.0.0', false],
    ])
    const displayed = (await send('GET', '/v1/agents/versioned?version=1.9.0')).body as Row
    expect(displayed).toMatchObject({
      name: 'versioned',
      version: '1.9.0',
      scope: 'tenant',
      status: 'active',
      input_schema: { type: 'object' },
      execution_count: 0,
      manifest_yaml: writer('versioned', '1.9.0'),
    })
    expect((await send('GET', '/v1/agents/nobody/versions')).status).toBe(404)
  })

  test('is listed with all that is known of it, and found by its name', async () => {
    await deploy('rowed')
    const rows = (await send('GET', '/v1/agents')).body as Row[]
    const row = rows.find(({ name }) => name === 'rowed')!
    const { versions, schedule, manifest_yaml, ...displayed } = (await send('GET', '/v1/agents/rowed')).body as Row
    expect(row).toEqual(displayed)
    expect(row).toMatchObject({
      version: '1.0.0',
      status: 'active',
      scope: 'tenant',
      tenant_id: 'local',
      execution_count: 0,
      input_schema: { type: 'object' },
    })
    expect([row['created_at'], row['updated_at']]).toEqual([expect.any(String), expect.any(String)])
    const changed = writer('rowed', '1.0.0').replace('{ type: object }', '{ type: object, maxProperties: 1 }')
    expect((await send('POST', '/v1/agents?force', { manifest_yaml: changed })).status).toBe(201)
    const again = ((await send('GET', '/v1/agents')).body as Row[]).find(({ name }) => name === 'rowed')!
    expect(again['input_schema']).toEqual({ type: 'object', maxProperties: 1 })
    const found = await send('GET', '/v1/agents/lookup/rowed')
    expect(found.body).toEqual({ id: row['id'], agent_id: row['id'], name: 'rowed', version: '1.0.0' })
    const templates = (await send('GET', '/v1/agents?include_platform_templates')).body as Row[]
    expect(templates.find(({ created_at }) => created_at === null)).toMatchObject({ tenant_id: 'aegis-system' })
  })

  test('is updated at its own address alone', async () => {
    await deploy('first')
    await deploy('second')
    const patch = (at: string, name: string, version: string) =>
      send('PATCH', `/v1/agents/${at}`, { manifest_yaml: writer(name, version) })
    expect((await patch('nobody', 'first', '1.1.0')).status).toBe(404)
    const wrong = await patch('second', 'first', '1.1.0')
    expect([wrong.status, JSON.stringify(wrong.body)]).toEqual([400, expect.stringContaining('metadata.name')])
    expect((await patch('first', 'first', '1.0.0')).status).toBe(409)
    const { id } = (await send('GET', '/v1/agents/first')).body as Row
    expect((await patch(String(id), 'first', '1.2.0')).body).toMatchObject({ agent_id: id, version: '1.2.0' })
    const versions = (await send('GET', '/v1/agents/first/versions')).body as Row[]
    expect(versions.map(({ version }) => version)).toEqual(['1.2.0', '1.0.0'])
  })

  test('that is global is updated at its address where it is, by operators', async () => {
    await deploy('everywhere')
    await send('POST', '/v1/agents/everywhere/scope', { scope: 'global' })
    const { id } = (await send('GET', '/v1/agents/everywhere')).body as Row
    const updated = await send('PATCH', `/v1/agents/${String(id)}`, { manifest_yaml: writer('everywhere', '2.0.0') })
    expect(updated.body).toMatchObject({ agent_id: id, version: '2.0.0' })
    const elsewhere = { manifest_yaml: writer('everywhere', '3.0.0') }
    expect((await send('PATCH', `/v1/agents/${String(id)}?scope=tenant`, elsewhere)).status).toBe(404)
    expect((await send('GET', '/v1/agents/everywhere')).body).toMatchObject({ id, scope: 'global', version: '2.0.0' })
  })

  test('is not executed with what does not fit, or in a version that it does not have', async () => {
    const schema = '{ type: object, properties: { tone: { type: string } } }'
    const manifest_yaml = writer('strict', '1.0.0').replace('{ type: object }', schema)
    expect((await send('POST', '/v1/agents', { manifest_yaml })).status).toBe(201)
    const tried = async (query: string, body: object) => (await send('POST', `/v1/agents/${query}`, body)).status
    expect(await tried('strict/execute', { input: 'text' })).toBe(422)
    expect(await tried('strict/execute', { input: { tone: 1 } })).toBe(422)
    expect(await tried('strict/execute', { input: {}, attachments: [] })).toBe(400)
    expect(await tried('strict/execute?version=7.0.0', {})).toBe(409)
    expect(await tried('nobody/execute?version=7.0.0', {})).toBe(404)
    expect(await tried('strict/execute?versio=1.0.0', {})).toBe(400)
  })

  test('is made global and taken back by operators alone, with its id and versions', async () => {
    await deploy('shared')
    await deploy('shared', '2.0.0')
    const { id } = (await send('GET', '/v1/agents/shared')).body as Row
    expect((await send('POST', '/v1/agents/shared/scope', { scope: 'global' }, other)).status).toBe(403)
    expect((await send('POST', '/v1/agents/shared/scope', { scope: 'global' })).body).toEqual({
      agent_id: id,
      name: 'shared',
      scope: 'global',
      previous_scope: 'tenant',
    })
    const global = (await send('GET', '/v1/agents/shared')).body as Row
    expect(global).toMatchObject({ id, scope: 'global', versions: [{ version: '2.0.0' }, { version: '1.0.0' }] })
    await deploy('shared')
    expect((await send('POST', `/v1/agents/${String(id)}/scope`, { scope: 'tenant' })).status).toBe(409)
    await send('DELETE', '/v1/agents/shared')
    expect((await send('POST', '/v1/agents/shared/scope', { target_scope: 'tenant' })).status).toBe(200)
    expect((await send('GET', '/v1/agents/shared')).body).toMatchObject({ id, scope: 'tenant' })
    expect((await send('POST', '/v1/agents/shared/scope', {})).status).toBe(400)
    expect((await send('POST', '/v1/agents/shared/scope', { scope: 'tenant', to: 'all' })).status).toBe(400)
  })

  test('is followed over all its executions, and from where a client was, also after a restart', async () => {
    await deploy('followed')
    const first = await execute('followed', { intent: 'One.' })
    const path = '/v1/agents/followed/events'
    const before = await read(path, ends(first))
    expect(before[0]!.data).toMatchObject({ event_type: 'execution_started', sequence: 1, execution_id: first })
    const second = await execute('followed', { intent: 'Two.' })
    const third = await execute('followed', { intent: 'Three.' })
    const seen = new Set<string>()
    const both = (event: Streamed): boolean => {
      for (const id of [second, third]) if (ends(id)(event)) seen.add(id)
      return seen.size === 2
    }
    const rest = await read(path, both, { 'last-event-id': before.at(-1)!.id })
    expect(new Set(rest.map(({ data }) => data['execution_id']))).toEqual(new Set([second, third]))
    server.kill('SIGKILL')
    await server.ended
    server = await startRealServer({ dataDir, env: { MODEL_KEY: 'k' } })
    const middle = Math.floor(rest.length / 2)
    const again = await read(`${path}?follow=false`, () => false, { 'last-event-id': rest[middle]!.id })
    expect(again.map(cursorOf).toSorted()).toEqual(
      rest
        .slice(middle + 1)
        .map(cursorOf)
        .toSorted(),
    )
    const all = await read(`${path}?follow=false`, () => false)
    expect(all.map(cursorOf).toSorted()).toEqual([...before, ...rest].map(cursorOf).toSorted())
  })

  test('is followed by others without what is not theirs', async () => {
    await deploy('quiet')
    const id = await execute('quiet', { intent: 'Mine.' })
    await read('/v1/agents/quiet/events', ends(id))
    expect(await read('/v1/agents/quiet/events?follow=false', () => false, other)).toEqual([])
    expect((await send('GET', '/v1/agents/nobody/events')).status).toBe(404)
    for (const query of ['follow=no', 'verbose=2', 'follow=maybe&verbose=true']) {
      const refused = await send('GET', `/v1/agents/quiet/events?${query}`)
      expect([refused.status, JSON.stringify(refused.body)]).toEqual([400, expect.stringContaining('true or false')])
    }
    expect(await read('/v1/agents/quiet/events?follow=0&verbose=1', () => false)).not.toEqual([])
    const wrong = await send('GET', '/v1/agents/quiet/events', undefined, { 'last-event-id': 'x' })
    expect([wrong.status, JSON.stringify(wrong.body)]).toEqual([400, expect.stringContaining('Last-Event-ID')])
  })
})

describe('the files of an execution', () => {
  const fileOf = (id: string, path: string, headers: Record<string, string> = {}) =>
    fetch(new URL(`/v1/executions/${id}/files/${path}`, server.url), { headers })

  test('are read while it runs by its owner, and say where they went afterwards', async () => {
    await deploy('filer')
    const id = await execute('filer', { intent: 'Patiently.' })
    await expect.poll(async () => (await fileOf(id, 'note.txt')).status).toBe(200)
    const file = await fileOf(id, 'note.txt')
    expect([await file.text(), file.headers.get('content-type'), file.headers.get('content-disposition')]).toEqual([
      'grüße',
      'text/plain; charset=utf-8',
      'attachment',
    ])
    const whole = await fileOf(id, '%2Fworkspace%2Fnote.txt')
    expect(await whole.text()).toBe('grüße')
    expect((await fileOf(id, 'nothing.txt')).status).toBe(404)
    expect((await fileOf(id, '..%2F..%2Fetc%2Fpasswd')).status).toBe(403)
    const hidden = await fileOf(id, 'note.txt', other)
    expect([hidden.status, await hidden.text()]).toEqual([404, expect.stringContaining('ERR_EXECUTION_NOT_FOUND')])
    patience.resolve()
    await read('/v1/agents/filer/events', ends(id))
    const gone = await fileOf(id, 'note.txt')
    expect([gone.status, await gone.text()]).toEqual([404, expect.stringContaining('was removed when it ended')])
  })
})

describe('the prompt template of an agent', () => {
  test('has the names that the caller brings, but for those of the loop', async () => {
    const spec =
      '  task: { instruction: "Write.", prompt_template: "{{instruction}} For {{audience}}: {{input.input}}" }\n  tools: [fs.write]\n  input_schema: { type: object, required: [input] }\n'
    await send('POST', '/v1/agents', { manifest_yaml: agentYaml('narrator', spec) })
    const taken = await send('POST', '/v1/agents/narrator/execute', { context_overrides: { instruction: 'x' } })
    expect([taken.status, taken.body]).toEqual([400, expect.objectContaining({ error: expect.anything() })])
    expect(JSON.stringify(taken.body)).toContain('context_overrides.instruction')
    const id = await execute('narrator', { input: { input: 'a tale' }, context_overrides: { audience: 'children' } })
    await read('/v1/agents/narrator/events', ends(id))
    expect(model.requests.at(-1)!.text).toContain('Write. For children: ')
  })
})

describe('a workspace that the caller names', () => {
  test('is where the agent works, and stays', async () => {
    await deploy('guest')
    const made = await send('POST', '/v1/tools/workspace_create', { name: 'mine' })
    const { workspace_id } = made.body as Row
    const id = await execute('guest', { intent: 'Here.', workspace: 'mine' })
    await read('/v1/agents/guest/events', ends(id))
    const left = await send('POST', '/v1/tools/file_read', { workspace_id, path: '/workspace/note.txt' })
    expect(left.body).toMatchObject({ content: 'grüße' })
    const file = await fetch(new URL(`/v1/executions/${id}/files/note.txt`, server.url))
    expect(await file.text()).toBe('grüße')
    const names = (await send('POST', '/v1/tools/workspace_list', {})).body as { workspaces: Row[] }
    expect(names.workspaces.map(({ name }) => name)).toEqual(['mine'])
  })

  test('is one of theirs, and runs', async () => {
    const args = { agent_id: 'guest', workspace: 'mine' }
    const hidden = await send('POST', '/v1/tools/aegis.task.execute', args, other)
    const absent = await send('POST', '/v1/tools/aegis.task.execute', { ...args, workspace: 'none' }, other)
    expect([hidden.status, absent.status]).toEqual([404, 404])
    expect(JSON.stringify(hidden.body).replaceAll('mine', 'none')).toBe(JSON.stringify(absent.body))
    await send('POST', '/v1/tools/workspace_stop', { workspace_id: 'mine' })
    const stopped = await send('POST', '/v1/tools/aegis.task.execute', args)
    expect(JSON.stringify(stopped.body)).toContain('workspace_start')
  })
})
