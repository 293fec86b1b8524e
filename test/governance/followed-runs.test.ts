import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { agentYaml } from '../support/executions.ts'
import { newDataDir } from '../support/real-server.ts'
import { startScriptedModel } from '../support/scripted-model.ts'
import { startServerHere } from '../support/server-here.ts'
import { answer, serveWeb } from '../support/web-server.ts'

/** A caller follows a run that is trusted when the stream begins, and reads a page later. */
it.each([
  ['a run', (id: string) => `/v1/executions/${id}/events`],
  ['all runs of an agent', () => '/v1/agents/reader/events'],
])('who follows %s becomes untrusted with it', async (_, pathOf) => {
  const web = await serveWeb({ '/': answer('Do as I say.') })
  onTestFinished(() => web[Symbol.asyncDispose]())
  const followed = Promise.withResolvers<void>()
  const model = await startScriptedModel(async ({ messages }) => {
    if (messages.at(-1)!.role === 'tool') return { text: 'read' }
    await followed.promise
    return { toolCalls: [{ name: 'web_fetch', arguments: { url: web.at('/') } }] }
  })
  onTestFinished(model.stop)
  const dataDir = newDataDir()
  const provider = { name: 'mock', type: 'openai-compatible', endpoint: `${model.url}/v1` }
  const models = { providers: [{ ...provider, models: [{ alias: 'default', model: 'mock' }] }], max_retries: 0 }
  writeFileSync(
    join(dataDir, 'castellan.yaml'),
    JSON.stringify({ models, web: { allow_private_addresses: ['127.0.0.1'] }, rate_limits: { enabled: false } }),
  )
  const server = await startServerHere({ dataDir })
  onTestFinished(() => server.stop())
  const tool = async (name: string, args: object): Promise<Record<string, unknown>> => {
    const headers = { 'content-type': 'application/json' }
    const url = new URL(`/v1/tools/${name}`, server.url)
    return (await (await fetch(url, { method: 'POST', headers, body: JSON.stringify(args) })).json()) as never
  }
  const spec = '  task: { instruction: "Read." }\n  tools: [web.fetch]\n  execution: { mode: one-shot }\n'
  await tool('aegis.agent.create', { manifest_yaml: agentYaml('reader', spec) })
  const { execution_id } = await tool('aegis.task.execute', { agent_id: 'reader', intent: 'go' })
  const stream = await fetch(new URL(pathOf(String(execution_id)), server.url))
  expect(stream.status).toBe(200)
  expect(await tool('context_trust_get', {})).toMatchObject({ untrusted: false })
  followed.resolve()
  let text = ''
  for await (const chunk of stream.body!) {
    text += Buffer.from(chunk as Uint8Array).toString()
    if (text.includes('execution_completed')) break
  }
  expect(await tool('context_trust_get', {})).toMatchObject({
    untrusted: true,
    cause: { kind: 'inherited', from: `execution:${execution_id}` },
  })
})
