import { describe, expect, it } from 'vitest'
import { type BrokenCase, brokenLogCases, set } from '../../../test/support/broken-log-cases.ts'
import { addRunEntries, addRunRows, brokenRunCases, removal } from '../../../test/support/broken-run-cases.ts'
import { brokenStateCases } from '../../../test/support/broken-state-cases.ts'
import {
  IDENTITY,
  KEY,
  ORIGIN,
  OTHER_KEY,
  sampleDatabase,
  sampleEffects,
  sampleRecords,
  sampleSource,
  TENANT,
} from '../../../test/support/sample-log.ts'
import { AppError } from '../../contract/app-error.ts'
import { sha256Bytes, sha256Hex } from '../../kernel/hash.ts'
import { signCheckpoint } from '../checkpoint.ts'
import { fsckRules } from './findings.ts'
import { type FsckReport, runFsck } from './run-fsck.ts'

type Edits = Omit<BrokenCase, 'name' | 'expected'>

async function check(edits: Edits, verifierKey = KEY.verifierKey): Promise<FsckReport> {
  const effects = sampleEffects()
  edits.effects?.(effects)
  const records = sampleRecords(effects)
  edits.records?.(records)
  const database = sampleDatabase(records)
  edits.tables?.(database)
  return runFsck(sampleSource(database), { identity: { ...IDENTITY, verifierKey, isClaimed: true } })
}

const linesOf = (report: FsckReport): string[] =>
  report.findings.map(({ table, row, rule, field }) => [table, row, rule, field].filter(Boolean).join(' '))

const findings = async (edits: Edits): Promise<string[]> => linesOf(await check(edits))

describe('a sound store', () => {
  it('has no findings', async () => {
    const counts = { entries: 13, projects: 1, tasks: 2, thoughts: 3, sessions: 2, otherEffects: 1, checkpointSize: 13 }
    const tenants = [{ tenant: TENANT, ...counts }]
    expect(await check({})).toEqual({ ok: true, unprotected: [], findings: [], findingCount: 0, tenants })
  })

  it('may be empty', async () => {
    const tables = { projects: [], tasks: [], thoughts: [], sessions: [], runs: [], runEvents: [] }
    const empty = { head: undefined, log: [], checkpoint: undefined, anchor: undefined, identity: undefined, ...tables }
    expect(await runFsck(sampleSource(empty))).toMatchObject({ ok: true })
    const identity = { ...IDENTITY, isClaimed: false }
    expect(await runFsck(sampleSource(empty), { identity })).toMatchObject({ ok: true })
  })

  it('may have an older checkpoint', async () => {
    for (const size of [1, 7, 8, 12]) {
      const { checkpoint } = sampleDatabase(sampleRecords().slice(0, size))
      expect(await findings({ tables: (database) => set(database, { checkpoint }) })).toEqual([])
    }
    const checkpoint = signCheckpoint({ origin: ORIGIN, size: 0, root: sha256Bytes('') }, KEY.signerKey)
    expect(await findings({ tables: (database) => set(database, { checkpoint }) })).toEqual([])
  })

  it('may have runs, and runs that were removed', async () => {
    expect(await findings({ records: addRunEntries, tables: addRunRows })).toEqual([])
    const removed: Edits = {
      records(records) {
        addRunEntries(records)
        records.push({ ...records[12]!, call_id: 'call_remove', effects: [removal] })
      },
    }
    expect(await findings(removed)).toEqual([])
  })

  it('may give its tables in any order', async () => {
    expect(await findings({ tables: (database) => database.tasks.reverse() })).toEqual([])
  })

  it('may have a session that was finalized for one task', async () => {
    const leaves = sampleEffects()[7]![0]!.hash! + sampleEffects()[9]![0]!.hash!
    const frozen = { merkle_root: sha256Hex(Buffer.from(leaves, 'hex')), leaf_count: 2, tree_depth: 2 }
    const edits: Edits = {
      effects: (effects) => set(effects[10]![0]!.body, { ...frozen, task_id: 'T-0002' }),
      tables: (database) => set(database.sessions[0], { ...frozen, finalized_task_id: 'T-0002' }),
    }
    expect(await findings(edits)).toEqual([])
  })
})

describe('a log that could have been truncated unnoticed is not sound', () => {
  it.each([
    ['checkpoint', { checkpoint: undefined, anchor: undefined }],
    ['anchor', { anchor: undefined }],
  ] as const)('without its %s', async (missing, members) => {
    const report = await check({ tables: (database) => set(database, members) })
    expect(report).toMatchObject({ ok: false, findings: [], unprotected: [{ tenant: TENANT, missing }] })
  })
})

describe('every damage is found, and nothing else is', () => {
  const cases = [...brokenLogCases, ...brokenStateCases, ...brokenRunCases]

  it.each(cases.map((broken) => [broken.name, broken] as const))('%s', async (_name, broken) => {
    const report = await check(broken)
    expect(linesOf(report).sort()).toEqual([...broken.expected].sort())
    expect(report.ok).toBe(false)
  })

  it('with at least one case for every rule', () => {
    const rules = new Set(cases.flatMap(({ expected }) => expected.map((line) => line.split(' ')[2])))
    expect([...rules].sort()).toEqual(Object.keys(fsckRules).sort())
  })
})

describe('a finding', () => {
  it('names the row, the rule, what was expected and what was found', async () => {
    const report = await check({ tables: (database) => set(database.tasks[0], { progress: 7 }) })
    const message = 'tasks T-0001, progress: A row is as the log has left it.'
    const values = { field: 'progress', expected: 0, actual: 7 }
    expect(report.findings).toEqual([
      { tenant: TENANT, table: 'tasks', row: 'T-0001', rule: 'row.field', ...values, message },
    ])
  })

  it('is kept up to a number and counted beyond it', async () => {
    const database = sampleDatabase()
    for (const row of database.log) row.record = '{'
    const report = await runFsck(sampleSource(database), { findingsMax: 3 })
    expect(report.findings).toHaveLength(3)
    expect(report.findingCount).toBeGreaterThan(26)
    expect(report.ok).toBe(false)
  })
})

describe('the key', () => {
  it('decides whose signature counts', async () => {
    expect(linesOf(await check({}, OTHER_KEY.verifierKey))).toEqual([
      'log_identity log1 identity.key verifier_key',
      'checkpoints local checkpoint.signature',
    ])
  })

  it('must be one', async () => {
    await expect(check({}, 'nonsense')).rejects.toThrow(AppError)
    await expect(check({}, KEY.verifierKey.replace('log1', 'log2'))).rejects.toThrow(AppError)
    await expect(check({}, KEY.signerKey)).rejects.toThrow(AppError)
  })
})

describe('a run', () => {
  it('gives way, stops when told to, and closes what it reads', async () => {
    const closed: string[] = []
    let pauses = 0
    const source = sampleSource(sampleDatabase())
    const watched = {
      ...source,
      async *thoughts() {
        try {
          yield* source.thoughts(TENANT)
        } finally {
          closed.push('thoughts')
        }
      },
      async *logRows() {
        yield* source.logRows(TENANT)
        throw new Error('disk gone')
      },
    }
    const pause = () => {
      pauses++
    }
    await expect(runFsck(watched, { pause })).rejects.toThrow('disk gone')
    expect(closed).toEqual(['thoughts'])
    expect(pauses).toBe(1)
    await expect(runFsck(source, { signal: AbortSignal.abort() })).rejects.toThrow(/abort/i)
  })
})
