/**
 * `npm run bench [-- --only SECTION,… --quick --json --subject stand-in]`: one table, each row beside its floor or peer in the
 * same run. It reports and never judges: the exit code is 1 only when something could not be measured.
 * `--subject stand-in` puts the stand-in in our place: its ratios to itself show how noisy the machine is.
 */
import { statfsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Bench, Section } from './bench-context.ts'
import { castellan, endChildren, standIn } from './launch.ts'
import { engine } from './rows/engine.ts'
import { gatewayHop } from './rows/gateway-hop.ts'
import { httpPing } from './rows/http-ping.ts'
import { ledgerProofs } from './rows/ledger-proofs.ts'
import { manyTools } from './rows/many-tools.ts'
import { modelProxy } from './rows/model-proxy.ts'
import { ping } from './rows/ping.ts'
import { pingUnderLoad } from './rows/ping-under-load.ts'
import { policyEvaluation } from './rows/policies.ts'
import { idleMemory, memoryGrowth, startUp } from './rows/process-cost.ts'
import { sdkPath } from './rows/sdk-path.ts'
import { taskList } from './rows/task-list.ts'
import { toolSearch } from './rows/tool-search.ts'
import { workspaces } from './rows/workspaces.ts'
import { taskCreate, thoughtRecord } from './rows/writes.ts'
import { buildSlowDisk, measureFsyncMs } from './slow-fsync.ts'
import { formatRows, msText, type Row, reached } from './table.ts'

const slowerMs = 3
const sections: readonly Section[] = [
  ping,
  httpPing,
  sdkPath,
  taskCreate,
  thoughtRecord,
  taskList,
  startUp,
  idleMemory,
  ledgerProofs,
  pingUnderLoad,
  memoryGrowth,
  workspaces,
  engine,
  toolSearch,
  manyTools,
  gatewayHop,
  modelProxy,
  policyEvaluation,
]
const temporaryFilesystem = 0x01021994

const options = () => {
  const { values } = parseArgs({
    options: {
      only: { type: 'string' },
      quick: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      subject: { type: 'string', default: 'castellan' },
      help: { type: 'boolean', default: false },
    },
  })
  const names = sections.map((section) => section.name)
  if (values.help) {
    console.log(`npm run bench [-- --only ${names.join(',')} --quick --json --subject castellan|stand-in]`)
    process.exit(0)
  }
  const chosen = values.only?.split(',') ?? names
  const unknown = chosen.filter((name) => !names.includes(name))
  if (unknown.length > 0) {
    console.error(`--only: unknown section ${unknown.join(', ')}; there are ${names.join(', ')}`)
    process.exit(2)
  }
  return { ...values, chosen: sections.filter((section) => chosen.includes(section.name)) }
}

type Outcome = { rows: Row[]; failures: string[] }

const measureAll = async (chosen: readonly Section[], bench: Omit<Bench, 'report'>): Promise<Outcome> => {
  const outcome: Outcome = { rows: [], failures: [] }
  for (const section of chosen) {
    if (section.timeNeededMs(bench.quick) > bench.timeLeftMs()) {
      outcome.failures.push(`${section.name}: skipped, not enough time left`)
      continue
    }
    bench.progress(section.name)
    try {
      await section.run({ ...bench, report: (row) => outcome.rows.push({ section: section.name, ...row }) })
    } catch (error) {
      outcome.failures.push(`${section.name}: ${(error as Error).message}`)
    }
  }
  return outcome
}

const describeMachine = async (directory: string, slowDisk: Bench['slowDisk']): Promise<string[]> => {
  const lines = [
    `Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown processor'}`,
    `one fdatasync in ${tmpdir()}: ${msText(await measureFsyncMs(directory))}`,
  ]
  if (slowDisk.available) {
    lines[1] += `, on the slowed disk: ${msText(await measureFsyncMs(directory, slowDisk.environment))}`
  }
  if (statfsSync(directory).type === temporaryFilesystem) {
    lines.push(
      `WARNING: ${tmpdir()} is in memory (tmpfs): commits cost nothing there. Set TMPDIR to a directory on a disk.`,
    )
  }
  return lines
}

const main = async (): Promise<number> => {
  const { chosen, quick, json, subject } = options()
  const directory = await mkdtemp(join(tmpdir(), 'castellan-bench-'))
  const deadline = performance.now() + (quick ? 90_000 : 480_000)
  process.on('SIGINT', () => process.exit(130))
  process.on('SIGTERM', () => process.exit(143))
  process.on('exit', endChildren)
  try {
    const slowDisk = await buildSlowDisk(directory, slowerMs)
    const machine = await describeMachine(directory, slowDisk)
    const { rows, failures } = await measureAll(chosen, {
      quick,
      subject: subject === 'stand-in' ? standIn : castellan,
      slowDisk,
      directory,
      progress: (text) => process.stderr.write(`bench: ${text}\n`),
      timeLeftMs: () => deadline - performance.now(),
    })
    if (json) {
      const withVerdict = rows.map((row) => ({ ...row, reached: reached(row) }))
      console.log(JSON.stringify({ machine, quick, rows: withVerdict, failures }, null, 2))
    } else {
      const notes = quick ? ['--quick: few short rounds; ratios are rough.'] : []
      console.log(
        [...machine, ...notes, '', formatRows(rows), '', ...failures.map((text) => `FAILED ${text}`)].join('\n'),
      )
    }
    return failures.length === 0 ? 0 : 1
  } finally {
    endChildren()
    await rm(directory, { recursive: true, force: true })
  }
}

process.exitCode = await main()
