/** Durable runs: steps beside DBOS, waits that cost nothing, lists of many runs, and what an agent's tool call costs beside a plain one. */
import { join } from 'node:path'
import type { Database } from '../../src/contract/database.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { openPostgresDatabase } from '../../src/stores/postgres/postgres-database.ts'
import { openSqliteDatabase } from '../../src/stores/sqlite/sqlite-database.ts'
import { openTestApp } from '../../test/support/app.ts'
import { openEngine, type TestEngine } from '../../test/support/engine.ts'
import { agentYaml, openLoop } from '../../test/support/executions.ts'
import { createDatabase, startPostgres } from '../../test/support/postgres.ts'
import { type Bench, newDirectory, type Section } from '../bench-context.ts'
import { median } from '../interleave.ts'
import { openDbos, type StepRunner } from '../peers/dbos-workflow.ts'
import { msText, rateText } from '../table.ts'
import { reportWaits } from './human-waits.ts'
import { medianMs, reportQueries } from './run-queries.ts'

const STEPS = 10

const openSqlite = async (bench: Bench): Promise<Database> =>
  openSqliteDatabase({ path: join(await newDirectory(bench), 'state.db'), clock: systemClock, logger: silentLogger })

function stepRunnerOf(database: Database): StepRunner & { engine: TestEngine } {
  const engine = openEngine(database, { concurrentMax: 1_000 })
  engine.register('execution', async (_, steps) => {
    let sum = 0
    for (let n = 1; n <= STEPS; n++) sum += await steps.once(`step-${n}`, async () => ({ result: n }))
    return { status: 'completed', output: sum }
  })
  return {
    engine,
    async runOne() {
      await engine.end((await engine.run()).id)
    },
    async close() {
      await engine.close()
      await database.close()
    },
  }
}

/** Steps a second with so many runs under way all the time. */
async function stepRate({ runOne }: StepRunner, inFlight: number, roundMs: number): Promise<number> {
  const started = performance.now()
  let done = 0
  const lane = async (): Promise<void> => {
    while (performance.now() - started < roundMs) {
      await runOne()
      done++
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
  return (done * STEPS * 1000) / (performance.now() - started)
}

async function reportSteps(bench: Bench): Promise<void> {
  const cluster = await startPostgres()
  const open: StepRunner[] = []
  try {
    const ours = stepRunnerOf(await openSqlite(bench))
    open.push(ours)
    const dbos = await openDbos(await createDatabase(cluster.url), STEPS)
    open.push(dbos)
    const url = await createDatabase(cluster.url)
    const shared = stepRunnerOf(await openPostgresDatabase({ url, clock: systemClock, logger: silentLogger }))
    open.push(shared)
    const runners = bench.quick ? [ours, dbos] : [ours, dbos, shared]
    const { rounds, roundMs } = bench.quick ? { rounds: 3, roundMs: 600 } : { rounds: 7, roundMs: 1_500 }
    for (const inFlight of [1, 16, 64]) {
      bench.progress(`durable steps, ${inFlight} in flight`)
      const rates: [number[], number[], number[]] = [[], [], []]
      for (const runner of runners) await stepRate(runner, inFlight, roundMs / 3)
      for (let round = 0; round < rounds; round++) {
        const order = [...runners.keys()]
        if (round % 2 === 1) order.reverse()
        for (const index of order) rates[index]!.push(await stepRate(runners[index]!, inFlight, roundMs))
      }
      reportRates(bench, inFlight, rates)
    }
  } finally {
    for (const runner of open.toReversed()) await runner.close()
    await cluster.stop()
  }
}

function reportRates(bench: Bench, inFlight: number, [ours, dbos, shared]: readonly [number[], number[], number[]]) {
  for (const [store, rates] of [
    ['SQLite', ours],
    ['the same PostgreSQL', shared],
  ] as const) {
    if (rates.length === 0) continue
    const ratios = rates.map((rate, round) => rate / dbos[round]!).sort((a, b) => a - b)
    const at = (share: number): string => ratios[Math.round((ratios.length - 1) * share)]!.toFixed(2)
    bench.report({
      what: `durable steps, ours on ${store}`,
      inFlight,
      ours: rateText(median(rates)),
      peer: `DBOS on PostgreSQL ${rateText(median(dbos))}`,
      ratio: median(ratios),
      target: store === 'SQLite' && inFlight === 16 ? { atLeast: 1.5 } : null,
      note: `${at(0.25)}–${at(0.75)}; runs of ${STEPS} steps, start and end included`,
    })
  }
}

/** One model answer with so many calls of a tool that does nothing. */
async function reportToolCalls(bench: Bench): Promise<void> {
  const calls = bench.quick ? 100 : 200
  const toolCalls = Array.from({ length: calls }, (_, n) => ({ id: `c${n}`, name: 'server_ping', arguments: {} }))
  const usage = { inputTokens: 0, outputTokens: 0, costUsd: null }
  const answer = { usage, provider: 'none', model: 'none', finishReason: 'stop', failures: [] }
  let asked = 0
  await using app = await openTestApp({ config: { 'rate_limits.enabled': false } })
  const loop = await openLoop(app, {
    agents: { caller: agentYaml('caller', '  task: { instruction: "Call." }\n  tools: [server_ping]\n') },
    deps: {
      models: {
        aliases: () => ['default'],
        requireAlias() {},
        generate: async () => ({ ...answer, text: 'done', toolCalls: asked++ === 0 ? toolCalls : [] }),
      },
    },
  })
  try {
    const { id, status } = await loop.finish('caller')
    if (status !== 'completed') throw new Error(`the execution ${status}`)
    const journal = await loop.engine.journal(id)
    const times = journal.flatMap(({ key, atMs }) => (key?.includes('/tool-') === true ? [atMs] : []))
    if (times.length < calls) throw new Error(`${times.length} of ${calls} calls were recorded`)
    const oursMs = (times.at(-1)! - times[0]!) / (times.length - 1)
    const directMs = await medianMs(() => app.ask('server_ping'))
    bench.report({
      what: 'server_ping by an agent, beside a direct call',
      inFlight: 1,
      ours: msText(oursMs),
      peer: msText(directMs),
      ratio: oursMs / directMs,
      target: null,
      note: `adds ${msText(oursMs - directMs)}, one durable step each`,
    })
  } finally {
    await loop.engine.close()
  }
}

export const engine: Section = {
  name: 'engine',
  timeNeededMs: (quick) => (quick ? 100_000 : 360_000),
  async run(bench) {
    await reportSteps(bench)
    await reportWaits(bench)
    await reportQueries(bench)
    await reportToolCalls(bench)
  },
}
