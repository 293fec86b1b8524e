import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { createLinePeer, type LinePeer, modernMeta } from '../support/line-peer.ts'
import { destroyAll, namesFor, openWorkspaceApp, sh } from '../support/workspaces.ts'

/** Tools that take long, as tasks of the MCP extension, from the call to their end. */
let app: TestApp
let peer: LinePeer
beforeAll(async () => {
  app = await openWorkspaceApp()
  peer = createLinePeer({ host: app.app.host, caller: { exposure: 'full' } })
  await app.ask('workspace_prepare', {
    name: 'gold',
    setup_commands: ['git init -q -b main', 'echo 0 > n', 'git add .', 'git commit -qm start'],
  })
})
afterAll(async () => {
  peer.endInput()
  await peer.session.closed
  await destroyAll(app)
  await app[Symbol.asyncDispose]()
})

const WAIT = { timeout: 180_000, interval: 20 }
const capabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
const _meta = { ...modernMeta, 'io.modelcontextprotocol/clientCapabilities': capabilities }

type Task = Readonly<{
  taskId: string
  status: string
  statusMessage?: string
  result?: { isError?: boolean; structuredContent: Record<string, unknown> }
}>

async function begin(name: string, args: object): Promise<string> {
  const { result } = await peer.request('tools/call', { name, arguments: args, _meta })
  expect(result).toMatchObject({ resultType: 'task', status: 'working', taskId: expect.any(String) })
  return String(result!['taskId'])
}
const look = async (taskId: string): Promise<Task> =>
  (await peer.request('tasks/get', { taskId, _meta })).result as unknown as Task
const ended = (taskId: string): Promise<Task> =>
  vi.waitFor(async () => {
    const task = await look(taskId)
    expect(task.status).not.toBe('working')
    return task
  }, WAIT)

describe('exec', () => {
  it('answers at once, works, and leaves its answer with the task', async () => {
    const command = 'until [ -e /go ]; do sleep 0.05; done; echo went; exit 3'
    const id = await begin('exec', { workspace_id: 'gold', command })
    expect(await look(id)).toMatchObject({ taskId: id, status: 'working' })
    await app.ask('file_write', { workspace_id: 'gold', path: '/go', content: '' })
    expect(await ended(id)).toMatchObject({
      status: 'completed',
      result: { structuredContent: { stdout: 'went\n', exit_code: 3 } },
    })
  })

  it('ends with its task, and so does what it runs', async () => {
    const command = 'echo $$ > /pid; exec sleep 1000'
    const id = await begin('exec', { workspace_id: 'gold', command, timeout_secs: 600 })
    await vi.waitFor(async () => expect((await sh(app, 'gold', 'test -s /pid')).exit_code).toBe(0), WAIT)
    await peer.request('tasks/cancel', { taskId: id, _meta })
    expect(await look(id)).toMatchObject({ status: 'cancelled' })
    await vi.waitFor(async () => expect((await sh(app, 'gold', 'kill -0 $(cat /pid)')).exit_code).not.toBe(0), WAIT)
  })

  it('says in its result what was wrong', async () => {
    const { result } = await ended(await begin('exec', { workspace_id: 'nowhere', command: 'true' }))
    expect(result).toMatchObject({ isError: true, structuredContent: { error: { code: 'ERR_WORKSPACE_NOT_FOUND' } } })
  })
})

describe('swarm_run', () => {
  it('tells how far it is, and ends with its workers merged and gone', async () => {
    const tasks = [1, 2].map((n) => ({
      name: `part-${n}`,
      command: `until [ -e /go ]; do sleep 0.05; done; echo ${n} > part-${n} && git add . && git commit -qm "Part ${n}"`,
    }))
    const args = { golden_workspace: 'gold', snapshot_name: 'golden', merge_strategy: 'sequential', tasks }
    const id = await begin('swarm_run', args)
    const workers = await vi.waitFor(async () => {
      const found = (await namesFor(app)).filter((name) => name.startsWith('swarm-'))
      expect(found).toHaveLength(2)
      return found
    }, WAIT)
    for (const workspace_id of workers) {
      await vi.waitFor(() => app.ask('file_write', { workspace_id, path: '/go', content: '' }), WAIT)
    }
    const task = await ended(id)
    expect(task).toMatchObject({
      status: 'completed',
      statusMessage: expect.any(String),
      result: { structuredContent: { merge: { success: true, merged_tasks: ['part-1', 'part-2'] } } },
    })
    expect((await sh(app, 'gold', 'cat /workspace/part-*')).stdout).toBe('1\n2\n')
    expect(await namesFor(app)).toEqual(['gold'])
  })
})
