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
 * admin, who sees all, and by a member, who sees one run in a hundred. A store with few runs takes turns with it.
 */
export async function reportQueries(bench: Bench): Promise<void> {
  const many = bench.quick ? 10_000 : 100_000
  bench.progress(`${many} executions of each kind`)
  await using few = await openFilled(fewRuns)
  await using full = await openFilled(many)
  for (const [what, query] of Object.entries(queries)) {
    const { ours, peer, ratio } = await inTurns(
      () => query(full),
      () => query(few),
    )
    bench.report({
      what: `${what}, of ${many} runs beside ${fewRuns}`,
      inFlight: 1,
      ours: msText(ours),
      peer: msText(peer),
      ratio,
      target: what.includes('total') ? null : { atMost: 2 },
    })
  }
}

type Filled = AsyncDisposable & Readonly<{ app: TestApp; member: ToolCaller }>

async function openFilled(runs: number): Promise<Filled> {
  const app = await openTestApp({ config: { 'rate_limits.enabled': false } })
  const { database } = await app.app.ready
  const member = await app.keyCaller({ role: 'member' })
  await fill(database!, { runs, owner: identityOf(member.principal) })
  return { app, member, [Symbol.asyncDispose]: () => app[Symbol.asyncDispose]() }
}

type Filling = Readonly<{ runs: number; owner: string }>

async function fill(database: Database, { runs, owner }: Filling): Promise<void> {
  const names = { newId: () => '', node: 'elsewhere', bootId: 'none' }
  for (let first = 0; first < runs; first += 500) {
    await database.write(LOCAL_TENANT, async (tx) => {
      for (let n = first; n < Math.min(first + 500, runs); n++) {
        for (const kind of ['execution', 'workflow'] as const) {
          const subject = { subjectId: `${kind}-${n % SUBJECTS}`, subjectName: 'filled', subjectVersion: '1.0.0' }
          const start = { kind, ...subject, id: `${kind}-${n}`, input: { text: 'x'.repeat(2_000) } }
          const run = newRunOf(names, start, localOwner, 1_000_000 + n, undefined)
          const whose = n % OWNERS === 0 ? owner : `user:someone-${n % OWNERS}`
          const ended = { status: 'completed' as const, endedAtMs: 1_000_000 + n, lastSequence: EVENTS_EACH }
          await sqlRunStore.insertRun(tx, { ...run, ...ended, owner: whose })
          for (let sequence = 1; sequence <= EVENTS_EACH; sequence++) {
            const event = { sequence, type: 'step_completed', key: `step-${sequence}`, payloadText: '{"n":1}' }
            await sqlRunStore.insertEvent(tx, LOCAL_TENANT, run.id, { ...event, state: null, iteration: 1, atMs: n })
          }
        }
      }
    })
  }
}

const asked =
  (tool: string, args: object, as: 'admin' | 'member' = 'admin') =>
  ({ app, member }: Filled): Promise<unknown> =>
    app.ask(tool, args, as === 'admin' ? ownerCaller : member)

const queries: Readonly<Record<string, (filled: Filled) => Promise<unknown>>> = {
  'aegis.task.list, 50': asked('aegis.task.list', { limit: 50 }),
  'aegis.task.list, 10 of one agent': asked('aegis.task.list', { limit: 10, agent_id: 'execution-7' }),
  'aegis.task.list, 10 of a member': asked('aegis.task.list', { limit: 10 }, 'member'),
  'aegis.workflow.executions.list, 50 and the total': asked('aegis.workflow.executions.list', { limit: 50 }),
  'aegis.workflow.executions.list, 10 of a member and their total': asked(
    'aegis.workflow.executions.list',
    { limit: 10 },
    'member',
  ),
  'aegis.task.logs': asked('aegis.task.logs', { execution_id: 'execution-500' }),
  'aegis.workflow.logs': asked('aegis.workflow.logs', { execution_id: 'workflow-500' }),
}

const ROUNDS = 10

/** In rounds of both, the first of which warms up. */
async function inTurns(ours: () => Promise<unknown>, peer: () => Promise<unknown>) {
  const rounds: { ours: number; peer: number }[] = []
  for (let round = 0; round <= ROUNDS; round++) {
    rounds.push({ ours: await medianMs(ours), peer: await medianMs(peer) })
  }
  const warm = rounds.slice(1)
  return {
    ours: median(warm.map((one) => one.ours)),
    peer: median(warm.map((one) => one.peer)),
    ratio: median(warm.map((one) => one.ours / one.peer)),
  }
}

export async function medianMs(work: () => Promise<unknown>): Promise<number> {
  const times: number[] = []
  for (let n = 0; n < 200; n++) {
    const started = performance.now()
    await work()
    times.push(performance.now() - started)
  }
  return median(times.slice(20))
}
