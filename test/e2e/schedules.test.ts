import { describe, expect, test } from 'vitest'
import type { CastellanClient } from '../support/castellan-client.ts'
import { agentYaml } from '../support/executions.ts'
import { ask, setModelStage } from '../support/model-stage.ts'

/** Schedules in the real program, with a scripted model over HTTP. */
const setStage = () => setModelStage(() => ({ text: 'done' }))

const yaml = (schedule: string, version = '1.0.0'): string =>
  agentYaml('ticker', `  task: { instruction: "Tick." }\n  schedule: ${schedule}\n`).replace('"1.0.0"', `"${version}"`)

type Event = Readonly<{ payload: { schedule?: { due_at: string; missed: number } } }>
type Listed = Readonly<{ id: string; status: string; started_at: string }>
const executions = async (client: CastellanClient): Promise<readonly Listed[]> =>
  (await ask<{ executions: Listed[] }>(client, 'aegis.task.list', { limit: 100 })).executions

describe('through the real program', { timeout: 90_000 }, () => {
  test('an interval fires again and again, with the input of the manifest, until the agent is changed or deleted', async () => {
    const stage = await setStage()
    const client = await stage.start()
    const schedule = '{ type: interval, seconds: 1, input: "Count the birds." }'
    const { agent_id } = await ask<{ agent_id: string }>(client, 'aegis.agent.create', {
      manifest_yaml: yaml(schedule),
    })
    const isDone = async () => (await executions(client)).filter(({ status }) => status === 'completed').length
    await expect.poll(isDone, { timeout: 30_000 }).toBeGreaterThanOrEqual(2)
    expect(stage.requests[0]!.text).toContain('Count the birds.')
    const { events } = await ask<{ events: { event_type: string; payload: object }[] }>(client, 'aegis.agent.logs', {
      agent_id,
    })
    expect(events[0]).toMatchObject({
      event_type: 'execution_started',
      payload: { by: 'owner', version: '1.0.0', schedule: { missed: 0, due_at: expect.any(String) } },
    })
    await ask(client, 'aegis.agent.update', { manifest_yaml: yaml('{ type: manual }', '1.1.0') })
    const stopped = (await executions(client)).length
    await ask(client, 'aegis.agent.update', { manifest_yaml: yaml(schedule, '1.2.0') })
    await expect.poll(async () => (await executions(client)).length, { timeout: 30_000 }).toBeGreaterThan(stopped)
    await ask(client, 'aegis.agent.delete', { agent_id })
    expect(await client.call('aegis.task.execute', { agent_id })).toMatchObject({ code: 'ERR_AGENT_NOT_FOUND' })
  })

  test.each(['schedule.due', 'store.commit.before', 'store.commit.after'])(
    'killed at %s, an execution is neither lost nor doubled',
    async (point) => {
      const stage = await setStage()
      const first = await stage.start()
      const schedule = '{ type: interval, seconds: 6, overlap: allow }'
      await ask(first, 'aegis.agent.create', { manifest_yaml: yaml(schedule) })
      first.kill('SIGKILL')
      await first.ended
      const second = await stage.start({ CASTELLAN_FAULT: `${point}:kill:1` })
      await second.ended
      const third = await stage.start()
      await expect.poll(async () => (await executions(third)).length, { timeout: 30_000 }).toBeGreaterThanOrEqual(2)
      const { events } = await ask<{ events: Event[] }>(third, 'aegis.agent.logs', { agent_id: 'ticker', limit: 200 })
      const fired = events.flatMap(({ payload }) => payload.schedule ?? [])
      const beats = fired.map(({ due_at }) => Date.parse(due_at) / 6_000)
      for (const [index, { missed }] of fired.entries()) {
        if (index > 0) expect(beats[index]! - beats[index - 1]!, JSON.stringify(fired)).toBeCloseTo(1 + missed)
      }
    },
  )
})
