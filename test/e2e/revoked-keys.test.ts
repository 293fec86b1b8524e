import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { agentYaml } from '../support/executions.ts'
import { setModelStage } from '../support/model-stage.ts'
import { startRealServer } from '../support/real-server.ts'
import type { Line, SeenRequest } from '../support/scripted-model.ts'

/** What a key has set going, once the key is revoked, in the real program. */
type Row = Record<string, unknown>
type Key = Readonly<{ id: string; secret: string }>

let url: string
let requests: readonly SeenRequest[]
let answer: (request: SeenRequest, position: number) => Line | Promise<Line>

beforeEach(async () => {
  answer = () => ({ text: 'done' })
  const stage = await setModelStage((request, position) => answer(request, position))
  const server = await startRealServer({ dataDir: stage.dataDir, env: { MODEL_KEY: 'k' } })
  onTestFinished(() => server.stop())
  url = server.url
  requests = stage.requests
})

async function call(tool: string, args: object, key?: Key): Promise<Row> {
  const response = await fetch(new URL(`/v1/tools/${tool}`, url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key && { authorization: `Bearer ${key.secret}` }) },
    body: JSON.stringify(args),
  })
  const body = (await response.json()) as Row
  if (!response.ok) throw new Error(`${tool}: ${JSON.stringify(body)}`)
  return body
}

let keys = 0
const newKey = async (role = 'editor'): Promise<Key> =>
  (await call('api_key_create', { name: `key-${++keys}`, role, tier: 'user' })) as unknown as Key
const revoke = (key: Key): Promise<Row> => call('api_key_revoke', { key: key.id })
const titles = async (): Promise<string[]> =>
  ((await call('task_list', {}))['tasks'] as { title: string }[]).map(({ title }) => title)
const end = (tool: string, execution_id: string): Promise<Row> => call(tool, { execution_id, timeout_seconds: 40 })
const makeTask = (title: string): Line => ({ toolCalls: [{ name: 'task_create', arguments: { title, project: 'p' } }] })

describe('when the key is revoked that started it', { timeout: 90_000 }, () => {
  test('an execution ends before its next call, and says why', async () => {
    const key = await newKey()
    const asked = Promise.withResolvers<void>()
    const released = Promise.withResolvers<void>()
    answer = async (_, position) => {
      if (position === 0) return makeTask('before')
      asked.resolve()
      await released.promise
      return makeTask('after')
    }
    const spec = '  task: { instruction: "Make tasks." }\n  tools: [task_create]\n'
    await call('aegis.agent.create', { manifest_yaml: agentYaml('maker', spec) })
    const { execution_id: id } = await call('aegis.task.execute', { agent_id: 'maker' }, key)
    await asked.promise
    await revoke(key)
    released.resolve()
    const ended = await end('aegis.task.wait', String(id))
    expect(ended).toMatchObject({ status: 'failed' })
    expect(ended['last_error']).toMatch(/^ERR_STARTER_GONE: The key that started this run was revoked or has expired/)
    expect(await titles()).toEqual(['before'])
    expect(requests).toHaveLength(2)
  })

  test('a workflow that waits for a person ends', async () => {
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
    await expect.poll(waits, { timeout: 20_000 }).toBe(200)
    await revoke(key)
    expect(await end('aegis.workflow.wait', id)).toMatchObject({ status: 'failed' })
    expect(await call('aegis.workflow.executions.get', { execution_id: id })).toMatchObject({ status: 'failed' })
  })

  test('the streams that it has open are closed, whoever started what they show', async () => {
    const [key, other] = [await newKey('admin'), await newKey('admin')]
    const released = Promise.withResolvers<void>()
    onTestFinished(() => released.resolve())
    answer = async () => {
      await released.promise
      return { text: 'done' }
    }
    await call('aegis.agent.create', { manifest_yaml: agentYaml('thinker', '  task: { instruction: "Think." }\n') })
    const { execution_id: id } = await call('aegis.task.execute', { agent_id: 'thinker' })
    const open = async ({ secret }: Key) => {
      const headers = { authorization: `Bearer ${secret}` }
      const response = await fetch(new URL(`/v1/executions/${id}/events`, url), { headers })
      expect(response.status).toBe(200)
      return response.text()
    }
    const [shut, kept] = [open(key), open(other)]
    await revoke(key)
    released.resolve()
    expect(await kept).toContain('execution_completed')
    expect(await shut).toContain('execution_started')
    expect(await shut).not.toContain('execution_completed')
  })
})
