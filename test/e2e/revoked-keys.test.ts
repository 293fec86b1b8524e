import { describe, expect, onTestFinished, test } from 'vitest'
import { agentYaml } from '../support/executions.ts'
import { type Key, type KeyedServer, startKeyedServer } from '../support/keyed-server.ts'
import type { Line } from '../support/scripted-model.ts'

/** What a key has set going, once the key is revoked, in the real program. */
const revoke = (server: KeyedServer, key: Key) => server.call('api_key_revoke', { key: key.id })
const end = (server: KeyedServer, tool: string, execution_id: unknown) =>
  server.call(tool, { execution_id, timeout_seconds: 40 })
const makeTask = (title: string): Line => ({
  toolCalls: [{ name: 'task_create', arguments: { title, project: 'p' } }],
})

describe('when the key is revoked that started it', () => {
  test('an execution ends before its next call, and says why', async () => {
    const asked = Promise.withResolvers<void>()
    const released = Promise.withResolvers<void>()
    const server = await startKeyedServer(async (_, position) => {
      if (position === 0) return makeTask('before')
      asked.resolve()
      await released.promise
      return makeTask('after')
    })
    const { call, newKey, requests } = server
    const key = await newKey()
    const spec = '  task: { instruction: "Make tasks." }\n  tools: [task_create]\n'
    await call('aegis.agent.create', { manifest_yaml: agentYaml('maker', spec) })
    const { execution_id: id } = await call('aegis.task.execute', { agent_id: 'maker' }, key)
    await asked.promise
    await revoke(server, key)
    released.resolve()
    const ended = await end(server, 'aegis.task.wait', id)
    expect(ended).toMatchObject({ status: 'failed' })
    expect(ended['last_error']).toMatch(/^ERR_STARTER_GONE: The API key that started/)
    expect(await call('task_list', {})).toMatchObject({ tasks: [{ title: 'before' }] })
    expect(requests).toHaveLength(2)
  })

  test('a workflow that waits for a person ends', async () => {
    const server = await startKeyedServer(() => ({ text: 'done' }))
    const { call, newKey, url } = server
    const key = await newKey()
    const states = {
      ASK: { kind: 'Human', prompt: 'Go on?', timeout: '24h', transitions: [{ condition: 'always', target: 'DONE' }] },
      DONE: { kind: 'System', command: 'update_blackboard', env: { done: 'yes' }, transitions: [] },
    }
    const metadata = { name: 'ask-first', version: '1.0.0' }
    const manifest = {
      apiVersion: '100monkeys.ai/v1',
      kind: 'Workflow',
      metadata,
      spec: { initial_state: 'ASK', states },
    }
    await call('aegis.workflow.create', { manifest_yaml: JSON.stringify(manifest) })
    const { execution_id } = await call('aegis.workflow.run', { name: 'ask-first' }, key)
    const id = String(execution_id)
    const waits = async () => (await fetch(new URL(`/v1/human-approvals/${id}`, url))).status
    await expect.poll(waits).toBe(200)
    await revoke(server, key)
    expect(await end(server, 'aegis.workflow.wait', id)).toMatchObject({ status: 'failed' })
    expect(await call('aegis.workflow.executions.get', { execution_id: id })).toMatchObject({ status: 'failed' })
  })

  test('the streams that it has open are closed, whatever caller started the runs', async () => {
    const released = Promise.withResolvers<void>()
    onTestFinished(() => released.resolve())
    const server = await startKeyedServer(async () => {
      await released.promise
      return { text: 'done' }
    })
    const { call, newKey, url } = server
    const [key, other] = [await newKey({ role: 'admin' }), await newKey({ role: 'admin' })]
    await call('aegis.agent.create', { manifest_yaml: agentYaml('thinker', '  task: { instruction: "Think." }\n') })
    const { execution_id: id } = await call('aegis.task.execute', { agent_id: 'thinker' })
    const open = async ({ secret }: Key) => {
      const headers = { authorization: `Bearer ${secret}` }
      const response = await fetch(new URL(`/v1/executions/${id}/events`, url), { headers })
      expect(response.status).toBe(200)
      return response.text()
    }
    const [shut, retained] = [open(key), open(other)]
    await revoke(server, key)
    released.resolve()
    expect(await retained).toContain('execution_completed')
    expect(await shut).toContain('execution_started')
    expect(await shut).not.toContain('execution_completed')
  })
})
