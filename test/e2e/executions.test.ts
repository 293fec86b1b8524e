import { describe, expect, test } from 'vitest'
import type { CastellanClient } from '../support/castellan-client.ts'
import { ask } from '../support/castellan-client.ts'
import { runCastellanHere } from '../support/castellan-here.ts'
import { agentYaml } from '../support/executions.ts'
import { setModelStage } from '../support/model-stage.ts'
import type { Line, SeenRequest } from '../support/scripted-model.ts'

/** Agents in the whole program, with a scripted model over HTTP. */
type Answer = Record<string, unknown>
const deploy = (client: CastellanClient, name: string, spec: string) =>
  ask(client, 'aegis.agent.create', { manifest_yaml: agentYaml(name, spec) })

const execute = async (client: CastellanClient, agent: string, more: object = {}): Promise<string> => {
  const answer = await ask<{ execution_id: string; status: string }>(client, 'aegis.task.execute', {
    agent_id: agent,
    ...more,
  })
  expect(answer.status).toBe('started')
  return answer.execution_id
}
const wait = (client: CastellanClient, execution_id: string, timeout_seconds = 40) =>
  ask<Answer & { status: string; last_output: string }>(client, 'aegis.task.wait', { execution_id, timeout_seconds })
const eventTypes = async (client: CastellanClient, execution_id: string) => {
  const { events, total } = await ask<{ events: { event_type: string }[]; total: number }>(client, 'aegis.task.logs', {
    execution_id,
    limit: 500,
  })
  expect(total).toBe(events.length)
  return events.map(({ event_type }) => event_type)
}
const answered = ({ messages }: SeenRequest): number => messages.filter(({ role }) => role === 'tool').length
const call = (name: string, args: object): Line => ({ toolCalls: [{ name, arguments: args }] })

describe('through the whole program', () => {
  test('what an agent without files answered last is told while it is at work', async () => {
    const isAskedAgain = Promise.withResolvers<void>()
    const stage = await setModelStage((_, position) => {
      if (position === 0) return { text: 'bad' }
      isAskedAgain.resolve()
      return new Promise<never>(() => {})
    })
    const client = await stage.start()
    const rule = '{ type: regex, pattern: "^good" }'
    await deploy(
      client,
      'plain',
      `  task: { instruction: "Work." }\n  execution: { mode: iterative, validation: [${rule}] }\n`,
    )
    const execution_id = await execute(client, 'plain')
    await isAskedAgain.promise
    expect(await ask(client, 'aegis.task.status', { execution_id })).toMatchObject({
      status: 'running',
      last_output: 'bad',
    })
  })

  test('an agent is refined until its validator is satisfied', async () => {
    const stage = await setModelStage((_, position) => ({
      text: position === 0 ? 'not yet' : '{"file":"a","entries":2}',
    }))
    const client = await stage.start()
    await deploy(
      client,
      'writer',
      `  task: { instruction: "Write." }\n  input_schema: { type: object, required: [prompt] }\n  execution:\n    mode: iterative\n    validation:\n      - { type: json_schema, schema: { type: object, required: [file, entries] } }\n`,
    )
    const id = await execute(client, 'writer', { input: { prompt: 'commits' } })
    const end = await wait(client, id)
    expect(end).toMatchObject({
      execution_id: id,
      status: 'completed',
      iteration_count: 2,
      last_output: '{"file":"a","entries":2}',
      last_error: null,
    })
    expect(stage.requests[1]!.text).toContain('the output is not JSON')
    expect(await eventTypes(client, id)).toContain('refinement_applied')
    const { executions } = await ask<{ executions: Answer[] }>(client, 'aegis.task.list', { agent_id: 'writer' })
    expect(executions).toMatchObject([{ id, status: 'completed' }])
    expect(await client.call('aegis.task.execute', { agent_id: 'writer', input: {} })).toMatchObject({
      kind: 'failed',
      code: 'ERR_INVALID_INPUT',
    })
    expect(await ask(client, 'aegis.task.remove', { execution_id: id })).toEqual({ execution_id: id, removed: true })
    expect(await client.call('aegis.task.status', { execution_id: id })).toMatchObject({
      code: 'ERR_EXECUTION_NOT_FOUND',
    })
    client.endInput()
    await client.ended
    const verified = await runCastellanHere(['verify', '--data-dir', stage.dataDir], {
      home: stage.dataDir,
      environment: { MODEL_KEY: 'k' },
    })
    expect(verified.code, verified.stdout + verified.stderr).toBe(0)
    // The call that waited began before all that was logged meanwhile.
    expect(verified.stdout).not.toContain('warning')
  })

  test('a judge stops a tool call before it happens, and the model is told why', async () => {
    const stage = await setModelStage((request) => {
      if (request.text.includes('Judge.')) {
        const isBad = request.text.includes('"proposed_tool_call":{"name":"fs.write","arguments":{"path":"b.txt"')
        return { text: JSON.stringify({ score: isBad ? 0 : 1, confidence: 1, reasoning: 'only a.txt may be written' }) }
      }
      const writes = ['b.txt', 'a.txt'].map((path) => call('fs_write', { path, content: 'x' }))
      return writes[answered(request)] ?? (answered(request) === 2 ? call('fs_list', { path: '.' }) : { text: 'done' })
    })
    const client = await stage.start()
    await deploy(client, 'judge', '  task: { instruction: "Judge." }\n')
    const rule = '{ type: semantic, judge_agent: judge, criteria: "Only a.txt.", min_score: 0.8 }'
    const tools = '  tools: [fs.write, fs.list]\n'
    await deploy(
      client,
      'worker',
      `  task: { instruction: "Work." }\n${tools}  execution: { tool_validation: [${rule}] }\n`,
    )
    const id = await execute(client, 'worker')
    expect(await wait(client, id)).toMatchObject({ status: 'completed', last_output: 'done' })
    const last = stage.requests.at(-1)!.text
    expect(last).toContain('only a.txt may be written')
    expect(last).toContain('a.txt')
    const { executions } = await ask<{ executions: Answer[] }>(client, 'aegis.task.list', { agent_id: 'judge' })
    expect(executions).toHaveLength(2)
  })

  test('a server that is killed leaves the execution to the next one, which repeats no recorded call', async () => {
    const held = Promise.withResolvers<Line>()
    const asked = Promise.withResolvers<void>()
    let isFirstLife = true
    const stage = await setModelStage((request) => {
      if (answered(request) === 0) return call('cmd_run', { command: 'echo one >> /workspace/log' })
      if (answered(request) === 1) return call('cmd_run', { command: 'echo two >> /workspace/log' })
      if (answered(request) === 2 && isFirstLife) {
        asked.resolve()
        return held.promise
      }
      return answered(request) === 2 ? call('fs_read', { path: '/workspace/log' }) : { text: 'the end' }
    })
    const first = await stage.startProcess()
    await deploy(first, 'worker', '  task: { instruction: "Work." }\n  tools: [cmd.run, fs.read]\n')
    const id = await execute(first, 'worker')
    await asked.promise
    first.kill('SIGKILL')
    await first.ended
    isFirstLife = false
    held.resolve({ text: 'nobody hears this' })
    const before = stage.requests.length
    const second = await stage.start()
    expect(await wait(second, id)).toMatchObject({ status: 'completed', last_output: 'the end' })
    // The question under way is asked again; the two before it are not.
    expect(stage.requests.slice(before).map(answered)).toEqual([2, 3])
    expect(stage.requests.at(-1)!.text).toContain('one\\ntwo\\n')
    expect(stage.requests.at(-1)!.text).not.toContain('two\\none')
    const types = await eventTypes(second, id)
    expect(types.filter((type) => type === 'instance_spawned')).toHaveLength(1)
    expect(types.at(-1)).toBe('execution_completed')
  })

  test('a call that was interrupted is reported, not repeated', async () => {
    const stage = await setModelStage((request) => {
      if (answered(request) > 0) return { text: request.text.includes('restart interrupted') ? 'told' : 'not told' }
      return call('cmd_run', { command: 'echo once >> /workspace/log; sleep 30' })
    })
    const first = await stage.startProcess()
    await deploy(first, 'worker', '  task: { instruction: "Work." }\n  tools: [cmd.run]\n')
    const id = await execute(first, 'worker')
    for (;;) if ((await eventTypes(first, id)).includes('tool_invocation_started')) break
    first.kill('SIGKILL')
    await first.ended
    const second = await stage.start()
    expect(await wait(second, id)).toMatchObject({ status: 'completed', last_output: 'told' })
    type Logged = { event_type: string; payload: { tool?: string } }
    const { events } = await ask<{ events: Logged[] }>(second, 'aegis.task.logs', { execution_id: id, limit: 500 })
    expect(events.find(({ event_type }) => event_type === 'tool_invocation_failed')!.payload.tool).toBe('cmd.run')
  })

  test('an execution is cancelled while a process runs, and a wait says that it goes on', async () => {
    const stage = await setModelStage(() => call('cmd_run', { command: 'sleep', args: ['100'] }))
    const client = await stage.start()
    await deploy(client, 'worker', '  task: { instruction: "Work." }\n  tools: [cmd.run]\n')
    const id = await execute(client, 'worker')
    for (;;) if ((await eventTypes(client, id)).includes('tool_invocation_started')) break
    expect(await wait(client, id, 1)).toMatchObject({ status: 'timed_out', timed_out: true })
    expect(await ask(client, 'aegis.task.cancel', { execution_id: id })).toEqual({ execution_id: id, cancelled: true })
    expect(await wait(client, id)).toMatchObject({ status: 'cancelled' })
    const { workspaces } = await ask<{ workspaces: unknown[] }>(client, 'workspace_list')
    expect(workspaces).toEqual([])
  })
})
