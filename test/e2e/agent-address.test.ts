import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { castellanJson } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** The sub-agents of an agent, at its own address. */
let dataDir = ''
let server: ServerHere
let model: ScriptedModel

beforeAll(async () => {
  dataDir = newDataDir()
  // The helper tries to hand the task back to the lead, and ends with what came of that.
  model = await startScriptedModel(({ messages }) => {
    const last = messages.at(-1)!
    if (last.role === 'tool') return { text: String(last.content) }
    return { toolCalls: [{ name: 'agent__lead', arguments: { message: `You first: ${String(last.content)}` } }] }
  })
  const models = [{ alias: 'default', model: 'default' }]
  const provider = { name: 'scripted', type: 'openai', endpoint: `${model.url}/v1`, api_key: 'env:MODEL_KEY', models }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers: [provider] } }))
  server = await startServerHere({ dataDir, env: { MODEL_KEY: 'k' } })
})
afterAll(async () => {
  await server.stop()
  await model.stop()
  rmSync(dataDir, { recursive: true, force: true })
})

async function connect(path: string, key?: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
  await client.connect(new StreamableHTTPClientTransport(new URL(path, server.url), { requestInit: { headers } }))
  return client
}
const namesOf = async (client: Client) => (await client.listTools()).tools.map(({ name }) => name)
const make = (name: string, ...more: string[]) =>
  castellanJson({ dataDir }, ['call', 'create_agent', `name=${name}`, ...more]) as Promise<{ id: string }>

it('are tools there, for those who see them, and go round in no circle', async () => {
  const helper = await make('Helper', 'scope=org')
  const hidden = await make('Hidden')
  const subAgentIds = `subAgentIds=${JSON.stringify([helper.id, hidden.id])}`
  const lead = await make('Lead', 'scope=org', subAgentIds)
  await castellanJson({ dataDir }, ['call', 'edit_agent', `id=${helper.id}`, `subAgentIds=["${lead.id}"]`])
  const client = await connect('/mcp/lead')
  expect((await namesOf(client)).sort()).toEqual(['agent__helper', 'agent__hidden'])
  const answer = await client.callTool({ name: 'agent__helper', arguments: { message: 'Three and four?' } })
  expect(JSON.stringify(answer.content)).toMatch(/agent__lead.* is not available/)
  expect(model.requests.map(({ messages }) => messages.at(-1)!.content)).toContain('Three and four?')
  expect(await client.callTool({ name: 'agent__helper', arguments: {} })).toMatchObject({ isError: true })
  const key = String((await castellanJson({ dataDir }, ['keys', 'create', 'ann', '--role', 'member']))['secret'])
  const ann = await connect('/mcp/lead', key)
  expect(await namesOf(ann)).toEqual(['agent__helper'])
  const refused = await ann.callTool({ name: 'agent__hidden', arguments: { message: 'x' } }).catch(String)
  expect(JSON.stringify(refused)).toContain("There is no tool 'agent__hidden'")
  await castellanJson({ dataDir }, ['call', 'edit_agent', `id=${helper.id}`, 'scope=personal'])
  const gone = await ann.callTool({ name: 'agent__helper', arguments: { message: 'x' } }).catch(String)
  expect(JSON.stringify(gone)).toContain("There is no tool 'agent__helper'")
  await Promise.all([client.close(), ann.close()])
})
