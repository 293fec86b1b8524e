import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { checkState } from '../../src/app/check-state.ts'
import { loadConfig } from '../../src/app/config.ts'
import type { FaultPoint } from '../../src/kernel/fault.ts'
import { type CastellanClient, type Outcome, startClient } from '../support/castellan-client.ts'
import { startClientHere } from '../support/castellan-here.ts'
import { isLongRun } from '../support/long-run.ts'
import { createDatabase } from '../support/postgres.ts'
import { gapsIn, readPostgresState, readSqliteState, type StoredState } from '../support/stored-state.ts'

/**
 * The real program, killed by itself as by `kill -9` at one step of its durable work, while a client works through a
 * fixed list of calls. Afterwards everything that the client was told is there, once; nothing else is there by half; and
 * the program starts again on what is left.
 */
let dataDir = ''
let running: CastellanClient[] = []

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-death-'))
  running = []
})
afterEach(async () => {
  for (const client of running) await client.leave()
  rmSync(dataDir, { recursive: true, force: true })
})

/** With a fault a process, which can die of it. */
async function start(fault: string | undefined, url: string | undefined): Promise<CastellanClient> {
  const launch = fault === undefined ? startClientHere : startClient
  const client = await launch({
    dataDir,
    args: url === undefined ? [] : ['--database-url', url],
    environment: {
      ...(fault === undefined ? {} : { CASTELLAN_FAULT: fault }),
      CASTELLAN_AUDIT_CHECKPOINT_INTERVAL_MS: '10',
    },
  })
  running.push(client)
  return client
}

type Told = Readonly<{ tool: string; mark: string; outcome: Outcome }>

/** Each call carries a mark of its own. Calls after a death are answered by nobody. */
async function work(client: CastellanClient, name: string): Promise<Told[]> {
  const told: Told[] = []
  const call = async (tool: string, mark: string, args: object): Promise<Record<string, unknown>> => {
    const outcome = await client.call(tool, args)
    told.push({ tool, mark, outcome })
    return outcome.kind === 'done' ? outcome.answer : {}
  }
  const project = `project-${name}`
  const one = await call('task_create', `${name}:one`, { title: `${name}:one`, project, labels: ['a', 'b'] })
  const first = String(one['task_id'] ?? 'T-0001')
  const rest = { project, parent_id: first, depends_on: [first] }
  await call('task_create', `${name}:two`, { title: `${name}:two`, ...rest })
  const session = await call('audit_session_start', `${name}:audit`, { task_id: first, auditor_id: `${name}:audit` })
  for (const word of ['three', 'four']) {
    const mark = `${name}:${word}`
    await call('thought_record', mark, { task_id: first, type: 'decision', content: mark })
  }
  await call('task_update', `${name}:five`, { task_id: first, description: `${name}:five`, labels: ['c'] })
  await call('task_get', `${name}:read`, { task_id: first })
  await call('task_update', `${name}:refused`, { task_id: first, status: 'done' })
  await call('merkle_finalize', `${name}:root`, { session_id: session['session_id'] ?? 'A-0001' })
  await call('task_create', `${name}:last`, { title: `${name}:last`, project })
  return told
}

const effectsWith = (state: StoredState, mark: string): number =>
  state.log.filter((record) => record.outcome === 'ok' && JSON.stringify(record.effects ?? []).includes(`"${mark}"`))
    .length

/** What was told and is not so. Finalising has no mark of its own: its root is the mark. */
function untrue(state: StoredState, told: readonly Told[]): string[] {
  const wrong: string[] = []
  for (const { tool, mark, outcome } of told) {
    if (tool === 'task_get') continue
    const root = outcome.kind === 'done' ? outcome.answer['merkle_root'] : undefined
    const count = effectsWith(state, typeof root === 'string' ? root : mark)
    if (outcome.kind === 'done' && count !== 1) wrong.push(`${mark} was acknowledged and is there ${count} times`)
    if (outcome.kind === 'failed' && count > 0) wrong.push(`${mark} failed and is there`)
    if (outcome.kind === 'gone' && count > 1) wrong.push(`${mark} is there ${count} times`)
  }
  return wrong
}

async function judge(url: string | undefined, told: readonly Told[]): Promise<void> {
  const flags = { data_dir: dataDir, ...(url === undefined ? {} : { database_url: url }) }
  const { config } = await loadConfig({ env: { HOME: dataDir }, flags, workingDirectory: dataDir })
  const state = url === undefined ? readSqliteState(join(dataDir, 'castellan.db')) : readPostgresState(url)
  expect(untrue(await state, told)).toEqual([])
  expect(gapsIn(await state)).toEqual([])
  expect((await checkState(config)).findings).toEqual([])
}

const abandoned = (): string[] =>
  readdirSync(dataDir, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.tmp'))

async function dieAndGoOn(fault: string, url: string | undefined): Promise<void> {
  const doomed = await start(fault, url)
  const told = await work(doomed, 'before')
  expect(await doomed.ended, `${fault}: ${doomed.stderr()}`).toBe('SIGKILL')
  const next = await start(undefined, url)
  const toldNext = await work(next, 'after')
  const failures = toldNext.filter(({ outcome }) => outcome.kind !== 'done').map(({ tool, outcome }) => [tool, outcome])
  expect(failures).toMatchObject([['task_update', { code: 'ERR_INVALID_TRANSITION' }]])
  await judge(url, [...told, ...toldNext])
  next.endInput()
  expect(await next.ended).toBe(0)
  expect(abandoned()).toEqual([])
  await judge(url, [...told, ...toldNext])
}

const everywhere: readonly (readonly [FaultPoint, readonly number[], readonly number[]])[] = [
  ['store.begin', [4], [1, 2, 3, 4, 5, 6, 7]],
  ['store.query', [6], [1, 2, 5, 9, 14, 20]],
  ['store.write', [1, 18], [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 22]],
  ['store.commit.before', [5], [1, 2, 3, 4, 5, 6, 7, 8]],
  ['store.commit.after', [1, 5], [1, 2, 3, 4, 5, 6, 7, 8]],
]
const onlyEmbedded: typeof everywhere = [
  ['store.migrate', [2], [1, 2, 3, 4]],
  ['file.write', [2], [1, 2]],
  ['file.replace', [1], [1, 2]],
]
const faultsOf = (points: typeof everywhere): string[] =>
  points.flatMap(([point, some, many]) => (isLongRun ? many : some).map((count) => `${point}:kill:${count}`))

describe('SQLite', () => {
  test.each(faultsOf([...everywhere, ...onlyEmbedded]))('death at %s loses nothing acknowledged', (fault) =>
    dieAndGoOn(fault, undefined),
  )
})

describe('PostgreSQL', () => {
  const brief = ['store.commit.before:kill:5', 'store.commit.after:kill:5']
  test.each(isLongRun ? faultsOf(everywhere) : brief)('death at %s loses nothing acknowledged', async (fault) =>
    dieAndGoOn(fault, await createDatabase(inject('postgresUrl'))),
  )
})

test('a plan that could never come true is refused', async () => {
  const client = await start('store.comit:kill:1', undefined)
  expect(await client.ended).toBe(2)
  expect(client.stderr()).toContain('CASTELLAN_FAULT must be')
})
