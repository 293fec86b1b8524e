import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, expect, it } from 'vitest'
import { runCastellanHere } from '../support/castellan-here.ts'
import { newDataDir } from '../support/real-server.ts'

/** A user who can write the database can empty it; the files outside it must still show that. */
const dataDir = newDataDir()
afterAll(() => rmSync(dataDir, { recursive: true, force: true }))
const run = (...args: string[]) => runCastellanHere([...args, '--data-dir', dataDir], { home: dataDir })

it('a log that was erased whole is missed by verify, and a key without its log begins no other', async () => {
  expect((await run('call', 'task_create', 'title=one', 'project=p')).code).toBe(0)
  expect((await run('verify')).code).toBe(0)
  const database = new DatabaseSync(join(dataDir, 'castellan.db'))
  for (const table of ['log_entries', 'log_heads', 'tasks', 'projects']) database.exec(`DELETE FROM ${table}`)
  database.close()
  const verified = await run('verify')
  expect(verified.code).toBe(5)
  expect(verified.stdout).toContain('checkpoint.ahead')
  expect((await run('doctor')).code).not.toBe(0)

  for (const suffix of ['', '-wal', '-shm']) rmSync(join(dataDir, `castellan.db${suffix}`), { force: true })
  const started = await run('call', 'server_ping')
  expect(started.code).not.toBe(0)
  expect(started.stderr).toContain('log-key.json')
})
