import type { Database } from '../../src/contract/database.ts'
import { identityOf, LOCAL_TENANT, localOwner } from '../../src/contract/principal.ts'
import { newRunOf } from '../../src/engine/core.ts'
import { sqlRunStore } from '../../src/stores/sql/run-store.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, ownerCaller, type TestApp } from '../../test/support/app.ts'
import type { Bench } from '../bench-context.ts'
import { median } from '../interleave.ts'
import { msText } from '../table.ts'

const fewRuns = 1_000
const EVENTS_EACH = 10
/** Each kind of run has so many subjects and, beside the one who asks, so many owners. */
const SUBJECTS = 100
const OWNERS = 100

/**
 * Lists and logs as clients ask for them, with so many executions of agents and as many of workflows in the store: by an
 * admin, who sees all, and by a member, who sees one run in a hundred.
 */
export async function reportQueries(bench: Bench): Promise<void> {
  const many = bench.quick ? 10_000 : 100_000
  await using app = await openTestApp({ config: { 'rate_limits.enabled': false } })
  const { database } = await app.app.ready
  const member = await app.keyCaller({ role: 'member' })
  const owner = identityOf(member.principal)
  await fill(database!, { from: 0, to: fewRuns, owner })
  const small = await queryTimes(app, member)
  bench.progress(`${many} executions of each kind`)
  await fill(database!, { from: fewRuns, to: many, owner })
  const large = await queryTimes(app, member)
  for (const [what, ms] of Object.entries(large)) {
    bench.report({
      what: `${what}, of ${many} runs beside ${fewRuns}`,
      inFlight: 1,
      ours: msText(ms),
      peer: msText(small[what]!),
      ratio: ms / small[what]!,
      target: what.includes('total') ? null : { atMost: 2 },
    })
  }
}

type Filling = Readonly<{ from: number; to: number; owner: string }>

async function fill(database: Database, { from, to, owner }: Filling): Promise<void> {
  const names = { newId: () => '', node: 'elsewhere', bootId: 'none' }
  for (let first = from; first < to; first += 500) {
    await database.write(LOCAL_TENANT, async (unit) => {
      for (let n = first; n < Math.min(first + 500, to); n++) {
        for (const kind of ['execution', 'workflow'] as const) {
          const subject = { subjectId: `${kind}-${n % SUBJECTS}`, subjectName: 'filled', subjectVersion: '1.0.0' }
          const start = { kind, ...subject, id: `${kind}-${n}`, input: { text: 'x'.repeat(2_000) } }
          const run = newRunOf(names, start, localOwner, 1_000_000 + n, undefined)
          const whose = n % OWNERS === 0 ? owner : `user:somebody-${n % OWNERS}`
          const ended = { status: 'completed' as const, endedAtMs: 1_000_000 + n, lastSequence: EVENTS_EACH }
          await sqlRunStore.insertRun(unit, { ...run, ...ended, owner: whose })
          for (let sequence = 1; sequence <= EVENTS_EACH; sequence++) {
            const event = { sequence, type: 'step_completed', key: `step-${sequence}`, payloadText: '{"n":1}' }
            await sqlRunStore.insertEvent(unit, LOCAL_TENANT, run.id, { ...event, state: null, iteration: 1, atMs: n })
          }
        }
      }
    })
  }
}

async function queryTimes(app: TestApp, member: ToolCaller): Promise<Record<string, number>> {
  const timed = (tool: string, args: object, caller = ownerCaller) => medianMs(() => app.ask(tool, args, caller))
  return {
    'aegis.task.list, 50': await timed('aegis.task.list', { limit: 50 }),
    'aegis.task.list, 10 of one agent': await timed('aegis.task.list', { limit: 10, agent_id: 'execution-7' }),
    'aegis.task.list, 10 of a member': await timed('aegis.task.list', { limit: 10 }, member),
    'aegis.workflow.executions.list, 50 and the total': await timed('aegis.workflow.executions.list', { limit: 50 }),
    'aegis.workflow.executions.list, 10 of a member and their total': await timed(
      'aegis.workflow.executions.list',
      { limit: 10 },
      member,
    ),
    'aegis.task.logs': await timed('aegis.task.logs', { execution_id: 'execution-500' }),
    'aegis.workflow.logs': await timed('aegis.workflow.logs', { execution_id: 'workflow-500' }),
  }
}

export async function medianMs(work: () => Promise<unknown>): Promise<number> {
  const times: number[] = []
  for (let n = 0; n < 200; n++) {
    const begun = performance.now()
    await work()
    times.push(performance.now() - begun)
  }
  return median(times.slice(20))
}
