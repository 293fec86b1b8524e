import { describe, expect, test } from 'vitest'
import { limits } from '../../src/contract/limits.ts'
import type { CastellanClient } from '../support/castellan-client.ts'
import { ask } from '../support/castellan-client.ts'
import { agentYaml } from '../support/executions.ts'
import { setModelStage } from '../support/model-stage.ts'
import { runCastellan } from '../support/run-castellan.ts'
import type { Line, SeenRequest } from '../support/scripted-model.ts'

const validated = (pattern: string, more = ''): string =>
  `  task: { instruction: "Work." }\n${more}  execution:\n    mode: iterative\n    max_iterations: 2\n    validation: [{ type: regex, pattern: "${pattern}" }]\n`

const deploy = (client: CastellanClient, spec: string, version = '1.0.0') =>
  ask(client, 'aegis.agent.create', {
    manifest_yaml: agentYaml('worker', spec).replace('"1.0.0"', `"${version}"`),
  })

async function execute(client: CastellanClient): Promise<string> {
  const { execution_id } = await ask<{ execution_id: string }>(client, 'aegis.task.execute', { agent_id: 'worker' })
  return execution_id
}

const wait = (client: CastellanClient, execution_id: string) =>
  ask(client, 'aegis.task.wait', { execution_id, timeout_seconds: 40 })

async function forked(client: CastellanClient, args: object): Promise<string> {
  const answer = await ask<{ execution_id: string }>(client, 'execution_fork', args)
  return answer.execution_id
}

type Event = Readonly<{ event_type: string; payload: Record<string, unknown> }>
const events = async (client: CastellanClient, execution_id: string): Promise<readonly Event[]> =>
  (await ask<{ events: Event[] }>(client, 'aegis.task.logs', { execution_id, limit: 200 })).events

async function workspaces(client: CastellanClient, state_filter?: string): Promise<readonly string[]> {
  const args = state_filter === undefined ? {} : { state_filter }
  const answer = await ask<{ workspaces: { name: string }[] }>(client, 'workspace_list', args)
  return answer.workspaces.map(({ name }) => name)
}

describe('through the real program', () => {
  test('a copy goes on after an iteration with another model and more iterations; what was done is not done again', async () => {
    const stage = await setModelStage(({ model }, position) => ({
      text: model === 'other' ? 'good' : `bad ${position}`,
    }))
    const client = await stage.start()
    await deploy(client, validated('^good'))
    const id = await execute(client)
    expect(await wait(client, id)).toMatchObject({ status: 'failed', iteration_count: 2 })
    const refused = await client.call('execution_fork', { execution_id: id, iteration: 2 })
    expect(refused).toMatchObject({ code: 'ERR_EXECUTION_STATE', message: expect.stringContaining('max_iterations') })
    expect(await client.call('execution_fork', { execution_id: id, iteration: 7 })).toMatchObject({
      code: 'ERR_EXECUTION_STATE',
      message: expect.stringContaining('0, 1, 2'),
    })
    expect(await client.call('execution_fork', { execution_id: id, iteration: 0, model: 'nobody' })).toMatchObject({
      code: 'ERR_MODEL_UNAVAILABLE',
      message: "model: no provider has a model with the alias 'nobody'; use one of default, other",
    })
    const more = { iteration: 2, model: 'other', max_iterations: 3, intent: 'Work well.' }
    const fork = await forked(client, { execution_id: id, ...more })
    expect(await wait(client, fork)).toMatchObject({ status: 'completed', iteration_count: 3, last_output: 'good' })
    expect(stage.requests).toHaveLength(3)
    expect(stage.requests[2]!.model).toBe('other')
    expect(stage.requests[2]!.text).toContain('Work well.')
    expect(stage.requests[2]!.text).toContain('bad 1')
    expect((await events(client, fork))[0]!.payload).toMatchObject({ forked_from: { execution_id: id, iteration: 2 } })
    const again = await forked(client, { execution_id: fork, iteration: 0, model: 'other' })
    expect(await wait(client, again)).toMatchObject({ status: 'completed', iteration_count: 1 })
    client.endInput()
    await client.ended
    const environment = { MODEL_KEY: 'k' }
    const verified = await runCastellan(['verify', '--data-dir', stage.dataDir], { home: stage.dataDir, environment })
    expect(verified.code, verified.stdout + verified.stderr).toBe(0)
  })

  test('a replay decides as it was decided, and shows where another version decides differently', async () => {
    const stage = await setModelStage((_, position) => ({ text: position === 0 ? 'bad' : 'good' }))
    const client = await stage.start()
    await deploy(client, validated('^good'))
    const id = await execute(client)
    await wait(client, id)
    await deploy(client, validated('^(bad|good)'), '1.1.0')
    const recorded = await events(client, id)
    expect(await ask(client, 'execution_replay', { execution_id: id })).toMatchObject({
      version: '1.0.0',
      same: true,
      recorded_status: 'completed',
      replayed_status: 'completed',
      difference: null,
    })
    expect(await ask(client, 'execution_replay', { execution_id: id, version: '1.1.0' })).toMatchObject({
      version: '1.1.0',
      same: false,
      difference: {
        kind: 'note',
        iteration: 1,
        recorded: expect.stringContaining('"passed":false'),
        replayed: expect.stringContaining('"passed":true'),
      },
    })
    expect(await events(client, id)).toEqual(recorded)
    expect(stage.requests).toHaveLength(2)
    const unknown = { execution_id: id, version: '9.9.9' }
    expect(await client.call('execution_replay', unknown)).toMatchObject({ code: 'ERR_AGENT_NOT_FOUND' })
  })

  const written = ({ messages }: SeenRequest): number => messages.filter(({ role }) => role === 'tool').length
  const script = (request: SeenRequest, position: number): Line => {
    if (request.model === 'other') {
      return written(request) === 0
        ? { toolCalls: [{ name: 'fs_read', arguments: { path: 'a.txt' } }] }
        : { text: 'good' }
    }
    return written(request) === 0
      ? { toolCalls: [{ name: 'fs_write', arguments: { path: 'a.txt', content: `written by ${position}` } }] }
      : { text: 'bad' }
  }
  const withFiles = validated('^good', '  tools: [fs.write, fs.read]\n')

  test('a copy has the files as they were at the end of the iteration, also after the end of the original', async () => {
    const stage = await setModelStage(script)
    const client = await stage.start()
    await deploy(client, withFiles)
    const id = await execute(client)
    expect(await wait(client, id)).toMatchObject({ status: 'failed' })
    const fork = await forked(client, { execution_id: id, iteration: 1, model: 'other' })
    expect(await wait(client, fork)).toMatchObject({ status: 'completed', last_output: 'good' })
    const last = stage.requests.at(-1)!.text
    expect(last).toContain('written by 0')
    expect(last).not.toContain('written by 2')
    expect(await ask(client, 'execution_replay', { execution_id: fork })).toMatchObject({ same: true })
    expect(await workspaces(client)).toEqual([])
    expect(await workspaces(client, 'archived')).toEqual([`execution-${id}`, `execution-${fork}`])

    const next = { execution_id: fork, iteration: 2, model: 'other', max_iterations: 3, intent: 'More.' }
    const further = await forked(client, next)
    expect(await wait(client, further)).toMatchObject({ status: 'completed', iteration_count: 3 })
    expect(stage.requests.at(-1)!.text).toContain('Accepted.')
    expect(stage.requests.at(-1)!.text).toContain('written by 0')
    expect(await ask(client, 'execution_replay', { execution_id: further })).toMatchObject({ same: true })

    await ask(client, 'aegis.task.remove', { execution_id: further })
    expect(await workspaces(client, 'archived')).toEqual([`execution-${id}`, `execution-${fork}`])
    await ask(client, 'workspace_destroy', { workspace_id: `execution-${id}` })
    expect(await client.call('execution_fork', { execution_id: id, iteration: 1 })).toMatchObject({
      code: 'ERR_SNAPSHOT_NOT_FOUND',
      message: expect.stringContaining('only for a while'),
    })
  })

  test('only the newest iterations are kept with their files', async () => {
    const stage = await setModelStage(script)
    const client = await stage.start()
    const most = limits.executionSnapshotsMax + 1
    await deploy(client, withFiles.replace('max_iterations: 2', `max_iterations: ${most}`))
    const id = await execute(client)
    expect(await wait(client, id)).toMatchObject({ status: 'failed', iteration_count: most })
    const other = { execution_id: id, model: 'other', max_iterations: most + 1 }
    expect(await client.call('execution_fork', { ...other, iteration: 1 })).toMatchObject({
      code: 'ERR_SNAPSHOT_NOT_FOUND',
      message: expect.stringContaining(`the newest ${limits.executionSnapshotsMax}`),
    })
    for (const iteration of [2, most]) {
      expect(await wait(client, await forked(client, { ...other, iteration }))).toMatchObject({ status: 'completed' })
    }
  })

  test('without a snapshot a copy with files is refused by name, and one from the beginning is not', async () => {
    const stage = await setModelStage(script, { executions: { snapshots: false } })
    const client = await stage.start()
    await deploy(client, withFiles)
    const id = await execute(client)
    await wait(client, id)
    expect(await client.call('execution_fork', { execution_id: id, iteration: 1 })).toMatchObject({
      code: 'ERR_SNAPSHOT_NOT_FOUND',
      message: expect.stringContaining('executions.snapshots'),
    })
    expect(await workspaces(client, 'archived')).toEqual([])
    const fork = await forked(client, { execution_id: id, iteration: 0, model: 'other' })
    expect(await wait(client, fork)).toMatchObject({ status: 'completed' })
  })
})
