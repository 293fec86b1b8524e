import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { ask, type CastellanClient } from '../support/castellan-client.ts'
import { runCastellanHere } from '../support/castellan-here.ts'
import { isLongRun } from '../support/long-run.ts'
import { setModelStage } from '../support/model-stage.ts'
import { requireWhole } from '../support/run-deaths.ts'
import type { Line, SeenRequest } from '../support/scripted-model.ts'

/**
 * An agent waits for the approval of a delegation, and the server dies between the approval and the end of the task. The task is done
 * once: neither lost nor repeated. An approval counts for one call, so a person is asked again if the death came after it was used and
 * before the delegation was recorded.
 */
const every = Array.from({ length: 16 }, (_, index) => index + 1)
const plans = isLongRun
  ? ['store.commit.after', 'store.commit.before', 'run.step.before', 'run.step.after'].flatMap((point) =>
      every.slice(0, point.startsWith('run') ? 4 : 16).map((count) => `${point}:kill:${count}`),
    )
  : ['store.commit.after:kill:3', 'store.commit.after:kill:5', 'run.step.before:kill:1', 'run.step.after:kill:2']

type Approval = Readonly<{ id: string; status: string; arguments: { message: string } }>

function answer({ messages }: SeenRequest): Line {
  const told = messages.filter(({ role }) => role === 'tool').at(-1)
  if (told !== undefined) return { text: `told: ${String(told.content)}` }
  if (String(messages[0]!.content) === 'You help.') return { text: 'helped' }
  return { toolCalls: [{ name: 'agent__helper', arguments: { message: String(messages.at(-1)!.content) } }] }
}

const pending = async (client: CastellanClient, execution_id: string): Promise<readonly Approval[] | undefined> => {
  const outcome = await client.call('approval_list', { execution_id, kind: 'tool_call' })
  return outcome.kind === 'done' ? (outcome.answer['approvals'] as Approval[]) : undefined
}

/** At the command line, approves whatever the execution waits for until it has ended, or until the server is gone. */
async function drive(client: CastellanClient, dataDir: string, execution_id: string): Promise<'ended' | 'gone'> {
  const person = { home: dataDir, environment: { MODEL_KEY: 'k' } }
  for (;;) {
    const waiting = await pending(client, execution_id)
    if (waiting === undefined) return 'gone'
    for (const { id } of waiting) {
      await runCastellanHere(['approvals', 'approve', id, '--data-dir', dataDir], person)
    }
    const outcome = await client.call('aegis.task.status', { execution_id })
    if (outcome.kind === 'gone') return 'gone'
    if (outcome.kind === 'failed') throw new Error(`${outcome.message} ${client.stderr()}`)
    if (!['pending', 'running'].includes(String(outcome.answer['status']))) return 'ended'
    await new Promise((resolve) => setTimeout(resolve, 30))
  }
}

test('a server that dies after a granted delegation neither loses the task nor does it twice', {
  timeout: isLongRun ? 3_600_000 : 240_000,
}, async () => {
  const stage = await setModelStage(answer, { rate_limits: { enabled: false } })
  let client = await stage.start()
  const helper = await ask<{ id: string }>(client, 'create_agent', { name: 'helper', systemPrompt: 'You help.' })
  await ask(client, 'create_agent', { name: 'lead', systemPrompt: 'You lead.', subAgentIds: [helper.id] })
  await ask(client, 'create_tool_invocation_policy', {
    toolId: 'agent__helper',
    conditions: [],
    action: 'require_approval',
    reason: 'a person decides',
  })
  const approvalsOfRuns: number[] = []
  const unreached: string[] = []
  for (const [index, plan] of plans.entries()) {
    const intent = `turn-${index + 1}`
    const { execution_id } = await ask<{ execution_id: string }>(client, 'aegis.task.execute', {
      agent_id: 'lead',
      intent,
    })
    await expect.poll(async () => (await pending(client, execution_id))?.length).toBe(1)
    await client.leave()
    const doomed = await stage.startProcess({ CASTELLAN_FAULT: plan })
    const isDead = (await drive(doomed, stage.dataDir, execution_id)) === 'gone'
    if (isDead) expect(await doomed.ended, `${plan}: ${doomed.stderr()}`).toBe('SIGKILL')
    else {
      unreached.push(plan)
      await doomed.leave()
    }
    client = await stage.start()
    expect(await drive(client, stage.dataDir, execution_id), `${plan}: ${client.stderr()}`).toBe('ended')
    const end = await ask<{ status: string; last_output: string }>(client, 'aegis.task.wait', { execution_id })
    expect(end, plan).toMatchObject({ status: 'completed', last_output: 'told: helped' })
    const { tasks, used } = tracesOf(stage.dataDir, execution_id)
    expect(tasks, plan).toEqual(['completed'])
    // Each approval was used by one call; nothing was delegated without one.
    expect(used, plan).toBeGreaterThan(0)
    approvalsOfRuns.push(used)
    await requireWhole(stage, execution_id, plan, [])
  }
  expect(unreached.length, `${unreached}`).toBeLessThan(plans.length / 3)
  // Deaths on both sides of the record of the delegation were seen.
  expect(new Set(approvalsOfRuns)).toEqual(new Set([1, 2]))
})

/** The delegated tasks of a run, and how many approvals it used, read past the program. */
function tracesOf(dataDir: string, id: string): { tasks: string[]; used: number } {
  const database = new DatabaseSync(join(dataDir, 'castellan.db'), { readOnly: true, timeout: 5_000 })
  try {
    const tasks = database.prepare('SELECT status FROM runs WHERE root_id = ? AND id <> root_id').all(id)
    const approvals = database
      .prepare("SELECT count(*) AS used FROM approvals WHERE context = ? AND status = 'used'")
      .get(`execution:${id}`)
    return { tasks: tasks.map(({ status }) => String(status)), used: Number(approvals!['used']) }
  } finally {
    database.close()
  }
}
