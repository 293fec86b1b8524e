import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect } from 'vitest'
import { checkState } from '../../src/app/check-state.ts'
import { loadConfig } from '../../src/app/config.ts'
import type { CastellanClient } from './castellan-client.ts'
import { ask } from './castellan-client.ts'
import type { ModelStage } from './model-stage.ts'

export type JournalRow = Readonly<{
  run_id: string
  /** Of the run that it belongs to, in which a test leaves its marks. */
  input: string
  sequence: number
  type: string
  key: string | null
  payload: string
  state: string | null
}>

/** What is swept: a kind of run that is under way when the server begins which is to die. */
export type DyingRun = Readonly<{
  /** Answers the id of a run that has done nothing yet. Its server ends, and it goes on with the next. */
  begin(client: CastellanClient, turn: string): Promise<string>
  /** Called for each death. `atDeath` has the journals of the run and of all below it as the death left them. */
  judge(client: CastellanClient, id: string, turn: string, atDeath: readonly JournalRow[]): Promise<void>
}>

/** Starts a workflow whose first state asks a person: nothing is done before a server comes that is to die. */
export const startedAtGate =
  (name: string): DyingRun['begin'] =>
  async (client, turn) => {
    const started = await ask<{ execution_id: string }>(client, 'aegis.workflow.run', { name, input: { turn } })
    const { execution_id } = started
    const access = () => ask<{ waiting_for: object | null }>(client, 'aegis.workflow.status', { execution_id })
    await expect.poll(async () => (await access()).waiting_for).not.toBeNull()
    return execution_id
  }

/** Journals of a run and all below it, read past the program. */
export function journalsOf(dataDir: string, id: string): readonly JournalRow[] {
  const database = new DatabaseSync(join(dataDir, 'castellan.db'), { readOnly: true, timeout: 5_000 })
  try {
    return database
      .prepare(
        `SELECT j.run_id, r.input, j.sequence, j.type, j.key, j.payload, j.state FROM run_journal j JOIN runs r
         ON r.tenant = j.tenant AND r.id = j.run_id WHERE r.root_id = ? ORDER BY j.run_id, j.sequence`,
      )
      .all(id) as unknown as JournalRow[]
  } finally {
    database.close()
  }
}

type Access = Readonly<{ status: string; waiting_for: { execution_id: string } | null }>

/** Answers every question of the run until it has ended, or until the server is gone. */
async function drive(client: CastellanClient, id: string): Promise<'ended' | 'gone'> {
  for (;;) {
    const outcome = await client.call('aegis.workflow.status', { execution_id: id })
    if (outcome.kind === 'gone') return 'gone'
    if (outcome.kind === 'failed') throw new Error(`${outcome.message} ${client.stderr()}`)
    const { status, waiting_for: question } = outcome.answer as unknown as Access
    if (status !== 'pending' && status !== 'running') return 'ended'
    if (question !== null) {
      await client.call('aegis.workflow.signal', { execution_id: question.execution_id, response: 'yes' })
    }
    await new Promise((resolve) => setTimeout(resolve, 30))
  }
}

/**
 * For each plan a run goes on with a server that kills itself there, and then with one that does not. Answers the plans that
 * were never reached, because the run came to its end before.
 */
export async function sweepDeaths(stage: ModelStage, run: DyingRun, plans: readonly string[]): Promise<string[]> {
  const unreached: string[] = []
  for (const [index, plan] of plans.entries()) {
    const turn = `turn-${index + 1}`
    // A client that read an untrusted run would make the next one untrusted, and then nobody could answer it here.
    let client = await stage.start()
    const id = await run.begin(client, turn)
    await client.leave()
    const doomed = await stage.startProcess({ CASTELLAN_FAULT: plan })
    if ((await drive(doomed, id)) === 'ended') {
      unreached.push(plan)
      await doomed.leave()
      continue
    }
    expect(await doomed.ended, `${plan}: ${doomed.stderr()}`).toBe('SIGKILL')
    const atDeath = journalsOf(stage.dataDir, id)
    client = await stage.start()
    expect(await drive(client, id), `${plan}: ${client.stderr()}`).toBe('ended')
    await run.judge(client, id, turn, atDeath)
    await requireWhole(stage, id, plan, atDeath)
    expect((await ask<{ workspaces: unknown[] }>(client, 'workspace_list')).workspaces, plan).toEqual([])
    await client.leave()
  }
  return unreached
}

/** What was recorded is there as it was, nothing is recorded twice, and the independent checker finds nothing. */
export async function requireWhole({ dataDir }: ModelStage, id: string, plan: string, atDeath: readonly JournalRow[]) {
  const rows = journalsOf(dataDir, id)
  const written = new Set(rows.map((row) => JSON.stringify(row)))
  expect(
    atDeath.filter((row) => !written.has(JSON.stringify(row))),
    plan,
  ).toEqual([])
  const keys = rows.flatMap(({ run_id, key }) => (key === null ? [] : `${run_id} ${key}`))
  expect(
    keys.filter((key, position) => keys.indexOf(key) !== position),
    plan,
  ).toEqual([])
  const { config } = await loadConfig({ env: { HOME: dataDir }, flags: { data_dir: dataDir }, workingDirectory: '/' })
  expect((await checkState(config)).findings, plan).toEqual([])
}
