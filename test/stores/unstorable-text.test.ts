import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type App, buildApp } from '../../src/app/build-app.ts'
import { loadConfig } from '../../src/app/config.ts'
import { localOwner } from '../../src/contract/principal.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { type Logger, silentLogger } from '../../src/kernel/logger.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import { sqlLogStore as log } from '../../src/stores/sql/log-store.ts'
import { dialects } from '../support/databases.ts'
import { createDatabase } from '../support/postgres.ts'

/** PostgreSQL keeps no U+0000 and no half of a surrogate pair: neither may get as far as a store, by any way in. */
describe.each(dialects)('text that no store can keep, over %s', (dialect) => {
  let app: App
  let folder: string
  const unexpected: string[] = []
  const logger: Logger = {
    ...silentLogger,
    error: (message, fields) => void unexpected.push(`${message} ${fields?.['cause']}`),
  }

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'castellan-text-'))
    const database_url = dialect === 'PostgreSQL' ? await createDatabase(inject('postgresUrl')) : undefined
    const { config } = await loadConfig({
      env: {},
      flags: { data_dir: folder, ...(database_url === undefined ? {} : { database_url }) },
      workingDirectory: folder,
    })
    app = buildApp({
      ...{ config, logger, version: '0', clock: systemClock, random: systemRandom },
      ownerPid: () => process.pid,
    })
  })
  afterAll(async () => {
    await app.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const caller = { principal: localOwner, transport: 'stdio', exposure: 'full', safeNames: false } as const
  const call = async (name: string, args: unknown) => {
    const answer = await app.host.call(caller, name, args)
    return { isError: answer.isError, ...(JSON.parse(answer.json) as Record<string, unknown>) }
  }
  const size = async () => (await log.head((await app.ready).database!.read, localOwner.tenant)).size

  const cases: [string, (text: string) => [tool: string, args: unknown]][] = [
    ['a title', (text) => ['task_create', { title: text, project: 'p' }]],
    ['a label', (text) => ['task_create', { title: 't', project: 'p', labels: ['ok', text] }]],
    ['a search', (text) => ['task_list', { search: `word ${text}` }]],
    ['an id', (text) => ['task_get', { task_id: `T-0001${text}` }]],
    ['a project', (text) => ['task_next_actions', { project: text }]],
    ['a key', (text) => ['thought_record', { task_id: 'T-0001', type: 'risk', content: 'c', metadata: { [text]: 1 } }]],
    [
      'metadata',
      (text) => ['thought_record', { task_id: 'T-0001', type: 'risk', content: 'c', metadata: { a: [text] } }],
    ],
    ['an argument name', (text) => ['task_create', { title: 't', project: 'p', [text]: 1 }]],
    ['a tool name', (text) => [`task${text}`, {}]],
    [
      'a redirected call',
      (text) => ['run_tool', { tool_name: 'task_create', tool_args: { title: text, project: 'p' } }],
    ],
    ['a redirected name', (text) => ['run_tool', { tool_name: `task_create${text}` }]],
  ]
  const texts = { 'U+0000': 'a\u0000b', 'a lone surrogate': 'a\ud800b' }

  it.each(Object.entries(texts))('%s is refused in every place, and each refusal is recorded', async (_name, text) => {
    await call('task_create', { title: 'first', project: 'p' })
    for (const [location, make] of cases) {
      const before = await size()
      const answer = await call(...make(text))
      expect(answer, location).toMatchObject({ isError: true })
      const { code } = answer['error' as keyof typeof answer] as unknown as { code: string }
      expect(['ERR_INVALID_INPUT', 'ERR_UNKNOWN_TOOL'], location).toContain(code)
      expect(await size(), location).toBe(before + 1)
    }
    expect(unexpected).toEqual([])
  })

  it('other rare characters are kept as they are', async () => {
    const title = '\u0001\u001f\u007f\u0085\u2028\ufeff\uffff\u{10ffff} 👩‍👩‍👧 e\u0301'
    const made = (await call('task_create', { title, project: 'p', labels: [title.slice(0, 20)] })) as {
      task_id?: string
    }
    expect(await call('task_get', { task_id: made.task_id })).toMatchObject({ title, labels: [title.slice(0, 20)] })
    expect(unexpected).toEqual([])
  })
})
