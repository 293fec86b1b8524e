import { describe, type TestContext, test } from 'vitest'
import type { CastellanClient } from '../support/castellan-client.ts'
import { ask } from '../support/castellan-client.ts'
import { agentYaml } from '../support/executions.ts'
import { setModelStage } from '../support/model-stage.ts'
import { type Ended, type LoggedEvent, workflowYaml } from '../support/workflows.ts'

/** Schedules in the real program, with a scripted model over HTTP. Each test waits for its times, and all together. */
const setStage = ({ onTestFinished }: TestContext) =>
  setModelStage(() => ({ text: 'done' }), { executions: { schedule_floor_secs: 1 } }, undefined, onTestFinished)

const yaml = (schedule: string, version = '1.0.0'): string =>
  agentYaml('ticker', `  task: { instruction: "Tick." }\n  schedule: ${schedule}\n`).replace('"1.0.0"', `"${version}"`)

type Event = Readonly<{ payload: { schedule?: { due_at: string; missed: number } } }>
type Listed = Readonly<{ id: string; status: string; started_at: string }>
const executions = async (client: CastellanClient): Promise<readonly Listed[]> =>
  (await ask<{ executions: Listed[] }>(client, 'aegis.task.list', { limit: 100 })).executions

describe.concurrent('through the real program', () => {
  test('an interval fires again and again, with the input of the manifest, until the agent is changed or deleted', async (context) => {
    const { expect } = context
    const stage = await setStage(context)
    const client = await stage.start()
    const schedule = '{ type: interval, seconds: 1, input: "Count the birds." }'
    const { agent_id } = await ask<{ agent_id: string }>(client, 'aegis.agent.create', {
      manifest_yaml: yaml(schedule),
    })
    const isDone = async () => (await executions(client)).filter(({ status }) => status === 'completed').length
    await expect.poll(isDone).toBeGreaterThanOrEqual(2)
    expect(stage.requests[0]!.text).toContain('Count the birds.')
    const { events } = await ask<{ events: { event_type: string; payload: object }[] }>(client, 'aegis.agent.logs', {
      agent_id,
    })
    expect(events[0]).toMatchObject({ event_type: 'agent_deployed' })
    expect(events[1]).toMatchObject({
      event_type: 'task_started',
      payload: { by: 'owner', version: '1.0.0', schedule: { missed: expect.any(Number), due_at: expect.any(String) } },
    })
    await ask(client, 'aegis.agent.update', { manifest_yaml: yaml('{ type: manual }', '1.1.0') })
    const stopped = (await executions(client)).length
    await ask(client, 'aegis.agent.update', { manifest_yaml: yaml(schedule, '1.2.0') })
    await expect.poll(async () => (await executions(client)).length).toBeGreaterThan(stopped)
    await ask(client, 'aegis.agent.delete', { agent_id })
    expect(await client.call('aegis.task.execute', { agent_id })).toMatchObject({ code: 'ERR_AGENT_NOT_FOUND' })
  })

  test.for(['schedule.due', 'store.commit.before', 'store.commit.after'])(
    'killed at %s, an execution is neither lost nor doubled',
    async (point, context) => {
      const { expect } = context
      const stage = await setStage(context)
      const first = await stage.start()
      const schedule = '{ type: interval, seconds: 6, overlap: allow }'
      await ask(first, 'aegis.agent.create', { manifest_yaml: yaml(schedule) })
      await first.leave()
      const second = await stage.startProcess({ CASTELLAN_FAULT: `${point}:kill:1` })
      await second.ended
      const third = await stage.start()
      await expect.poll(async () => (await executions(third)).length).toBeGreaterThanOrEqual(2)
      const { events } = await ask<{ events: Event[] }>(third, 'aegis.agent.logs', { agent_id: 'ticker', limit: 200 })
      const fired = events.flatMap(({ payload }) => payload.schedule ?? [])
      const beats = fired.map(({ due_at }) => Date.parse(due_at) / 6_000)
      for (const [index, { missed }] of fired.entries()) {
        if (index > 0) expect(beats[index]! - beats[index - 1]!, JSON.stringify(fired)).toBeCloseTo(1 + missed)
      }
    },
  )
})

type ListedRun = Readonly<{ execution_id: string; status: string; version: string }>
const runs = async (client: CastellanClient): Promise<readonly ListedRun[]> =>
  (
    await ask<{ executions: ListedRun[] }>(client, 'aegis.workflow.executions.list', { limit: 100 })
  ).executions.toReversed()

/** What the first event of a run says about its schedule. */
async function reasonOf(client: CastellanClient, execution_id: string) {
  const { events } = await ask<{ events: LoggedEvent[] }>(client, 'aegis.workflow.logs', { execution_id })
  return events[0]!.payload['schedule'] as { due_at: string; missed: number; skipped: number }
}

const quick = 'A: { kind: System, command: update_blackboard, env: { said: "{{input.word}}" }, transitions: [] }'
const asking = 'A: { kind: Human, prompt: "Go on?", transitions: [] }'
const flow = (states: string, schedule: string, version = '1.0.0') =>
  workflowYaml('clockwork', states, { spec: schedule && `default_schedule: ${schedule}`, version })

describe.concurrent('default_schedule of a workflow, through the real program', () => {
  test('fires again and again with its input, until the workflow is changed or deleted', async (context) => {
    const { expect } = context
    const client = await (await setStage(context)).start()
    const schedule = '{ cron: "* * * * * *", enabled: true, input: { word: tick } }'
    await ask(client, 'aegis.workflow.create', { manifest_yaml: flow(quick, schedule) })
    await expect.poll(async () => (await runs(client)).length).toBeGreaterThanOrEqual(2)
    const [first, second] = await runs(client)
    const run = await ask<Ended>(client, 'aegis.workflow.wait', { execution_id: first!.execution_id })
    expect(run).toMatchObject({ status: 'completed', blackboard: { said: 'tick' } })
    const [one, two] = [await reasonOf(client, first!.execution_id), await reasonOf(client, second!.execution_id)]
    expect(Date.parse(two.due_at) - Date.parse(one.due_at)).toBe(1_000 * (1 + two.missed + two.skipped))
    await ask(client, 'aegis.workflow.update', { manifest_yaml: flow(quick, '', '1.1.0') })
    const stopped = (await runs(client)).length
    await ask(client, 'aegis.workflow.update', { manifest_yaml: flow(quick, schedule, '1.2.0') })
    await expect.poll(async () => (await runs(client)).length).toBeGreaterThan(stopped)
    expect((await runs(client)).slice(stopped).map(({ version }) => version)).toContain('1.2.0')
    expect((await runs(client)).map(({ version }) => version)).not.toContain('1.1.0')
    await ask(client, 'aegis.workflow.delete', { name: 'clockwork' })
    const left = await ask<{ executions: unknown[] }>(client, 'aegis.workflow.executions.list', { limit: 1 })
    expect(left.executions).toHaveLength(1)
  })

  test('lets times pass while a person is waited for, and makes up once for those without a server', async (context) => {
    const { expect } = context
    const stage = await setStage(context)
    const first = await stage.start()
    await ask(first, 'aegis.workflow.create', {
      manifest_yaml: flow(asking, '{ cron: "*/2 * * * * *", enabled: true }'),
    })
    await expect.poll(async () => (await runs(first)).length).toBe(1)
    const { execution_id } = (await runs(first))[0]!
    const due = Date.parse((await reasonOf(first, execution_id)).due_at)
    await expect.poll(() => Date.now()).toBeGreaterThan(due + 4_500)
    expect(await runs(first)).toHaveLength(1)
    await first.leave()
    const killed = Date.now()
    await expect.poll(() => Date.now()).toBeGreaterThan(killed + 4_500)
    const second = await stage.start()
    await ask(second, 'aegis.workflow.signal', { execution_id, response: 'yes' })
    await expect.poll(async () => (await runs(second)).length).toBe(2)
    const reason = await reasonOf(second, (await runs(second))[1]!.execution_id)
    expect(Date.parse(reason.due_at) - due).toBe(2_000 * (1 + reason.missed + reason.skipped))
    expect(reason.missed).toBeGreaterThanOrEqual(1)
    expect(reason.skipped).toBeGreaterThanOrEqual(2)
  })

  test.for(['schedule.due', 'store.commit.before', 'store.commit.after'])(
    'killed at %s, a run is neither lost nor doubled',
    async (point, context) => {
      const { expect } = context
      const stage = await setStage(context)
      const first = await stage.start()
      const schedule = '{ cron: "*/3 * * * * *", enabled: true, overlap: allow, input: { word: x } }'
      await ask(first, 'aegis.workflow.create', { manifest_yaml: flow(quick, schedule) })
      await first.leave()
      const second = await stage.startProcess({ CASTELLAN_FAULT: `${point}:kill:1` })
      await second.ended
      const third = await stage.start()
      await expect.poll(async () => (await runs(third)).length).toBeGreaterThanOrEqual(2)
      const fired = await Promise.all((await runs(third)).map(({ execution_id }) => reasonOf(third, execution_id)))
      const beats = fired.map(({ due_at }) => Date.parse(due_at) / 3_000)
      for (const [index, { missed }] of fired.entries()) {
        if (index > 0) expect(beats[index]! - beats[index - 1]!, JSON.stringify(fired)).toBe(1 + missed)
      }
    },
  )
})
