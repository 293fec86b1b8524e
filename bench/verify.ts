import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { checkpointOrigin, generateKey, signCheckpoint } from '../src/audit/checkpoint.ts'
import { exportHeaderLine, exportRecordLine } from '../src/audit/export-format.ts'
import { thoughtHash } from '../src/audit/thought-chain.ts'
import { appendLeaf, emptyHead, leafHash, rootOf, type TreeHead } from '../src/audit/tree.ts'
import { verifyDocument } from '../src/audit/verify-document.ts'
import { canonicalJson } from '../src/kernel/canonical-json.ts'

/**
 * Offline verification of an export, records per second on one core: a third thoughts, a third task updates, a third
 * reads, over 500 tasks. Usage: node bench/verify.ts [records]
 */
const recordCount = Number(process.argv[2] ?? 100_000)
const taskCount = 500
const digest = (text: string): string => createHash('sha256').update(text).digest('hex')

function* makeRecords(): Generator<string> {
  const chains = new Map<string, { hash: string; position: number }>()
  for (let seq = 0; seq < recordCount; seq++) {
    const number = (seq % taskCount) + 1
    const taskId = `T-${String(number).padStart(4, '0')}`
    const at = new Date(1_790_000_000_000 + seq * 7).toISOString()
    const effects = []
    if (seq % 3 === 0) {
      const last = chains.get(taskId)
      const link = {
        task_id: taskId,
        type: 'decision',
        content: `Step ${seq}: keep the index on created_at, because the list is sorted by it and pages must be stable.`,
        previous_hash: last?.hash ?? null,
        recorded_at: at,
        recorded_by: 'owner',
      }
      const hash = thoughtHash(link)
      const position = (last?.position ?? 0) + 1
      chains.set(taskId, { hash, position })
      const body = { ...link, thought_id: `Θ-${String(seq + 1).padStart(4, '0')}`, chain_position: position, hash }
      effects.push({ kind: 'thought_recorded', subject: `task:${number}`, hash, body })
    } else if (seq % 3 === 1) {
      const changes = { status: 'in_progress', progress: seq % 100 }
      const body = { task_id: taskId, changes, previous_status: 'todo', updated_at: at, updated_by: 'owner' }
      effects.push({ kind: 'task_updated', subject: `task:${number}`, hash: digest(canonicalJson(body)), body })
    }
    yield canonicalJson({
      v: 1,
      kind: 'call',
      call_id: `call_${digest(`${seq}`).slice(0, 16)}`,
      at,
      tenant: 'local',
      principal: { actor: 'owner', kind: 'owner', role: 'admin', tier: 'operator' },
      transport: 'stdio',
      tool: ['thought_record', 'task_update', 'task_list'][seq % 3],
      input: `sha256:${digest(`in ${seq}`)}`,
      output: `sha256:${digest(`out ${seq}`)}`,
      outcome: 'ok',
      duration_ms: (seq % 50) / 10,
      ...(effects.length > 0 ? { effects } : {}),
    })
  }
}

const directory = mkdtempSync(join(tmpdir(), 'castellan-bench-'))
try {
  const file = join(directory, 'export.jsonl')
  const { signerKey, verifierKey } = generateKey('castellan/bench')
  const origin = checkpointOrigin('bench', 'local')
  const records = [...makeRecords()]
  let head: TreeHead = emptyHead
  for (const record of records) head = appendLeaf(head, leafHash(record)).head
  const checkpoint = signCheckpoint({ origin, size: head.size, root: rootOf(head.size, head.peaks) }, signerKey)
  const out = createWriteStream(file)
  out.write(exportHeaderLine({ origin, tenant: 'local', size: head.size, checkpoint, verifierKey }))
  for (const record of records) out.write(exportRecordLine(record))
  out.end()
  await finished(out)
  records.length = 0

  const fromMicros = Number(process.hrtime.bigint() / 1000n)
  const rates: number[] = []
  const cpuRates: number[] = []
  for (let round = 0; round < 3; round++) {
    const start = performance.now()
    const cpuStart = process.cpuUsage()
    const chunks = createReadStream(file, { highWaterMark: 256 * 1024 })
    const result = await verifyDocument({ chunks, key: verifierKey })
    if (!result.ok) throw new Error(result.problem.message)
    rates.push(recordCount / ((performance.now() - start) / 1000))
    const { user, system } = process.cpuUsage(cpuStart)
    cpuRates.push(recordCount / ((user + system) / 1e6))
  }
  const megabytes = statSync(file).size / 1e6
  process.stdout.write(
    `${JSON.stringify({
      bench: 'verify',
      records: recordCount,
      megabytes: Math.round(megabytes),
      records_per_second: rates.map(Math.round),
      records_per_cpu_second: cpuRates.map(Math.round),
      from_micros: fromMicros,
    })}\n`,
  )
} finally {
  rmSync(directory, { recursive: true, force: true })
}
