import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCastellanHere } from '../support/castellan-here.ts'
import { newDataDir } from '../support/real-server.ts'
import { startServerHere } from '../support/server-here.ts'

/** A store that is older than its checkpoint, or that has lost it, is neither continued nor signed by any command. */
let dataDir = ''
const run = (...args: string[]) => runCastellanHere([...args, '--data-dir', dataDir], { home: dataDir })
const newTask = (title: string) => run('call', 'task_create', `title=${title}`, 'project=p')
const databaseFiles = ['castellan.db', 'castellan.db-wal', 'castellan.db-shm']
const checkpointFile = () => join(dataDir, 'checkpoints', 'local.checkpoint')
const exportFile = () => join(dataDir, 'export.jsonl')

beforeEach(async () => {
  dataDir = newDataDir()
  expect((await newTask('one')).code).toBe(0)
})
afterEach(() => rmSync(dataDir, { recursive: true, force: true }))

/** Puts the database back as it is now, once `work` has gone on with it. */
async function rolledBack(work: () => Promise<unknown>): Promise<void> {
  const aside = join(dataDir, 'aside')
  mkdirSync(aside)
  for (const name of readdirSync(dataDir).filter((name) => databaseFiles.includes(name)))
    cpSync(join(dataDir, name), join(aside, name))
  await work()
  for (const name of databaseFiles) rmSync(join(dataDir, name), { force: true })
  cpSync(aside, dataDir, { recursive: true })
  rmSync(aside, { recursive: true })
}

const entriesInStore = (): number => {
  const database = new DatabaseSync(join(dataDir, 'castellan.db'), { readOnly: true })
  try {
    return Number(database.prepare('SELECT count(*) AS count FROM log_entries').get()!['count'])
  } finally {
    database.close()
  }
}

const commands: readonly (readonly string[])[] = [
  ['call', 'task_create', 'title=forked', 'project=p'],
  ['call', 'log_checkpoint'],
  ['keys', 'list'],
]

describe.each([
  ['an older database was restored', () => rolledBack(() => newTask('two')), 'does not extend its last checkpoint'],
  [
    'the checkpoints are gone',
    async () => rmSync(join(dataDir, 'checkpoints'), { recursive: true }),
    "The checkpoint of tenant 'local' is missing",
  ],
] as const)('%s', (_what, meddle, problem) => {
  it('is refused by every command, in words and with the code of a conflict, and nothing is written', async () => {
    await meddle()
    const before = entriesInStore()
    for (const args of [...commands, ['export', exportFile()]]) {
      const { code, stderr } = await run(...args)
      expect([args.join(' '), code]).toEqual([args.join(' '), 5])
      expect(stderr).toContain(problem)
      expect(stderr).toContain('castellan call log_recover tenant=local')
      expect(stderr).not.toMatch(/^\s+at /m)
    }
    const verified = await run('verify')
    expect(verified.code).toBe(5)
    expect(verified.stdout).toMatch(/checkpoint\.(ahead|missing)/)
    const doctor = await run('doctor')
    expect([doctor.code, doctor.stdout]).toEqual([6, expect.stringMatching(/state +bad/)])
    const line =
      '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}'
    const stdio = await runCastellanHere(['mcp', '--data-dir', dataDir], { home: dataDir, input: `${line}\n` })
    expect(stdio.stderr).toContain(problem)
    expect(entriesInStore()).toBe(before)
  })

  it('continues when an operator decides it, with the old checkpoint as evidence and the decision in the log', async () => {
    await meddle()
    const old = problem.includes('missing') ? undefined : readFileSync(checkpointFile(), 'utf8')
    const refused = await run('call', 'log_recover', 'tenant=other', 'reason=none')
    expect(refused.code).toBe(2)
    const recovered = await run('call', 'log_recover', 'tenant=local', 'reason=restored from the backup', '--json')
    expect([recovered.code, recovered.stderr]).toEqual([0, ''])
    expect(recovered.stdout).toContain(problem)
    const { recovered: list } = JSON.parse(recovered.stdout) as { recovered: { evidence: string | null }[] }
    expect(list).toHaveLength(1)
    if (old === undefined) expect(list[0]!.evidence).toBeNull()
    else expect(readFileSync(list[0]!.evidence!, 'utf8')).toBe(old)
    expect((await newTask('three')).code).toBe(0)
    expect((await run('verify')).stdout).toMatch(/sound/)
    expect((await run('export', exportFile())).code).toBe(0)
    const effects = readFileSync(exportFile(), 'utf8')
      .trimEnd()
      .split('\n')
      .flatMap((line) => (JSON.parse(line) as { effects?: { kind: string; body: object }[] }).effects ?? [])
    expect(effects.find(({ kind }) => kind === 'log_recovered')?.body).toMatchObject({
      tenant: 'local',
      reason: 'restored from the backup',
      old_checkpoint: old ?? null,
    })
    expect((await run('call', 'log_recover', 'tenant=local', 'reason=again')).code).toBe(2)
  })
})

const json = { 'content-type': 'application/json' }

it('a server says so, and does nothing for that tenant', async () => {
  await rolledBack(() => newTask('two'))
  const server = await startServerHere({ dataDir })
  try {
    const origin = new URL(server.url).origin
    const refused = await fetch(`${origin}/v1/tools/log_checkpoint`, { method: 'POST', body: '{}', headers: json })
    expect([refused.status, await refused.text()]).toEqual([409, expect.stringContaining('ERR_LOG_INVALID')])
    const health = (await (await fetch(`${origin}/health`)).json()) as { status: string }
    expect(health.status).toBe('degraded')
    const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    const bridge = await runCastellanHere(['mcp', '--data-dir', dataDir], { home: dataDir, input: ping })
    expect(bridge.stderr).toContain('does not extend its last checkpoint')
    const other = await run('call', 'task_list')
    expect([other.code, other.stderr]).toEqual([5, expect.stringContaining('does not extend its last checkpoint')])
  } finally {
    await server.stop()
  }
})

it('what was signed for anybody is kept first, so that a roll-back to before it is noticed', async () => {
  const signed = JSON.parse((await run('call', 'log_checkpoint', '--json')).stdout) as { size: number }
  await rolledBack(() => run('call', 'log_checkpoint'))
  expect(signed.size).toBeGreaterThan(0)
  expect((await newTask('fork')).code).toBe(5)
})

it('a store from before there were marks, or whose first checkpoint was never written, is not sound until it goes on', async () => {
  rmSync(join(dataDir, 'checkpoints'), { recursive: true })
  const database = new DatabaseSync(join(dataDir, 'castellan.db'))
  database.exec('DELETE FROM log_anchors')
  database.close()
  const verified = await run('verify')
  expect([verified.code, verified.stdout]).toEqual([5, expect.stringContaining(': 1 log not protected')])
  expect(verified.stdout).toContain('castellan call log_checkpoint')
  const doctor = await run('doctor')
  expect([doctor.code, doctor.stdout]).toEqual([
    6,
    expect.stringMatching(/^state +\w+ +\d+ log entr(y|ies); 1 log without a checkpoint or its mark/m),
  ])
  expect((await run('call', 'log_checkpoint')).code).toBe(0)
  expect((await run('verify')).stdout).toContain(': sound\n')
  expect((await newTask('two')).code).toBe(0)
  expect((await run('verify')).stdout).toContain(': sound\n')
  rmSync(join(dataDir, 'checkpoints'), { recursive: true })
  expect((await run('verify')).code).toBe(5)
})

it('a store whose mark was removed, or whose trail index is said to go further, is not sound', async () => {
  const alter = (sql: string): void => {
    const database = new DatabaseSync(join(dataDir, 'castellan.db'))
    database.exec(sql)
    database.close()
  }
  expect((await run('verify')).code).toBe(0)
  alter('UPDATE log_heads SET trail_to = size')
  expect(await run('verify')).toMatchObject({ code: 5, stdout: expect.stringContaining('[head.trail]') })
  alter('UPDATE log_heads SET trail_to = 0; DELETE FROM log_anchors')
  expect(await run('verify')).toMatchObject({ code: 5, stdout: expect.stringContaining('has no mark') })
})
