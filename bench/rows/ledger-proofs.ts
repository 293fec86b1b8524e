/** What it costs to check the record: a long chain inside the server, its export outside it, and one inclusion proof. */
import { type Bench, newDirectory, type Section } from '../bench-context.ts'
import { createTasks, thoughtRecordBody } from '../calls.ts'
import { type Connection, callBody, callTool, drive, request } from '../client.ts'
import { exportLog, verifyExport } from '../export-log.ts'
import { median } from '../interleave.ts'
import { openStdio } from '../launch.ts'
import { msText, rateText } from '../table.ts'

const aimPerSecond = 100_000

const grow = async (connection: Connection, taskId: string, records: number, timeMaxMs: number): Promise<number> => {
  const body = thoughtRecordBody([taskId])
  const grown = await drive(connection, { inFlight: 64, callsMax: records, timeMaxMs, body })
  return grown.calls
}

const medianOfRuns = async (runs: number, one: () => Promise<void>): Promise<number> => {
  const times: number[] = []
  for (let n = 0; n < runs; n++) {
    const started = performance.now()
    await one()
    times.push(performance.now() - started)
  }
  return median(times)
}

const reportChain = async (bench: Bench, connection: Connection, taskId: string): Promise<void> => {
  let records = 0
  const elapsedMs = await medianOfRuns(3, async () => {
    const verdict = await callTool(connection, 'audit_verify_chain', { task_id: taskId })
    if (verdict['chain_valid'] !== true)
      throw new Error(`the chain reads as broken: ${JSON.stringify(verdict).slice(0, 300)}`)
    records = Number(verdict['total_records'])
  })
  const perSecond = (records / elapsedMs) * 1000
  bench.report({
    what: 'audit_verify_chain',
    inFlight: 1,
    ours: rateText(perSecond),
    peer: `aim ${rateText(aimPerSecond)}`,
    ratio: perSecond / aimPerSecond,
    target: { atLeast: 1 },
    note: `${records} records in ${msText(elapsedMs)}`,
  })
}

const reportExport = async (bench: Bench, connection: Connection): Promise<void> => {
  const exported = await exportLog(connection, await newDirectory(bench))
  const elapsedMs = await medianOfRuns(3, () => verifyExport(exported))
  const perSecond = (exported.entries / elapsedMs) * 1000
  bench.report({
    what: 'castellan verify of the export, start included',
    inFlight: null,
    ours: rateText(perSecond),
    peer: `aim ${rateText(aimPerSecond)}`,
    ratio: perSecond / aimPerSecond,
    target: { atLeast: 1 },
    note: `${exported.entries} entries in ${msText(elapsedMs)}`,
  })
}

/** The median time of one proof, over entries spread across the whole log. */
const inclusionProofMs = async (connection: Connection, logSize: number): Promise<number> => {
  const body = (n: number): string => callBody('log_inclusion_proof', { seq: Math.floor(((n * 0.618) % 1) * logSize) })
  const load = { inFlight: 1, timeMaxMs: 3_000, body }
  await drive(connection, { ...load, callsMax: 100 })
  return (await drive(connection, { ...load, callsMax: 400 })).p50Ms
}

export const ledgerProofs: Section = {
  name: 'verify',
  timeNeededMs: (quick) => (quick ? 12_000 : 90_000),
  async run(bench) {
    const [small, large] = bench.quick ? [500, 5_000] : [1_000, 100_000]
    const connection = await openStdio(bench.subject.stdio(await newDirectory(bench)))
    try {
      const { tools } = (await request(connection, 'tools/list', {})) as { tools: { name: string }[] }
      const has = (name: string): boolean => tools.some((tool) => tool.name === name)
      const [taskId = ''] = await createTasks(connection, 1)
      const first = await grow(connection, taskId, small, 20_000)
      const smallMs = has('log_inclusion_proof') ? await inclusionProofMs(connection, first) : Number.NaN
      const grown = first + (await grow(connection, taskId, large - small, bench.quick ? 6_000 : 60_000))
      if (has('log_inclusion_proof')) {
        const largeMs = await inclusionProofMs(connection, grown)
        bench.report({
          what: `inclusion proof at ${grown} entries beside ${first}`,
          inFlight: 1,
          ours: msText(largeMs),
          peer: msText(smallMs),
          ratio: largeMs / smallMs,
          target: { atMost: 2 },
          note: `O(log n) allows ${(Math.log2(grown) / Math.log2(first)).toFixed(2)}`,
        })
      }
      if (has('audit_verify_chain')) await reportChain(bench, connection, taskId)
      if (has('log_export')) await reportExport(bench, connection)
    } finally {
      await connection.close()
    }
  },
}
