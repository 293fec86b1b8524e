import { readFileSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, describe, expect, it } from 'vitest'
import { leafHash } from '../../src/audit/tree.ts'
import type { Database } from '../../src/contract/database.ts'
import { tenantId } from '../../src/contract/principal.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { installFaultPlan } from '../../src/kernel/fault.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { openPostgresDatabase } from '../../src/stores/postgres/postgres-database.ts'
import { sqlAgentStore as agents } from '../../src/stores/sql/agent-store.ts'
import { sqlApiKeyStore as keys } from '../../src/stores/sql/api-key-store.ts'
import { sqlInteractionStore as interactions } from '../../src/stores/sql/interaction-store.ts'
import { sqlLogStore as log } from '../../src/stores/sql/log-store.ts'
import { sqlMcpServerStore as servers } from '../../src/stores/sql/mcp-server-store.ts'
import { migrations } from '../../src/stores/sql/migrations.ts'
import { sqlProfileStore as profiles } from '../../src/stores/sql/profile-store.ts'
import { sqlTaskStore as tasks } from '../../src/stores/sql/task-store.ts'
import { sqlTrailStore as trail } from '../../src/stores/sql/trail-store.ts'
import { type DialectName, dialects, newTestDatabase, type TestDatabase } from '../support/databases.ts'
import { withClient } from '../support/postgres.ts'
import { ACME, addTask, NOW } from '../support/sample-tasks.ts'

const latest = migrations.length
const record = '{"a":"ü"}'
const leaf = leafHash(record)

/** The last version whose tables the statements below are written for. */
const LEGACY_TABLES = 6
const BEFORE_BILLIONTHS = migrations.findIndex(({ name }) => name === 'costs in billionths of a dollar')
const BEFORE_TOOL_LISTS = migrations.findIndex(({ name }) => name === 'tools of each deployment')
const BEFORE_PROFILES = migrations.findIndex(({ name }) => name === 'sharing and profiles')

/**
 * What the first program of each version left behind, as SQL, because today's stores write today's tables; and the same as
 * today's stores read it. A migration that changes what can be stored adds its part here.
 */
const legacies: readonly Readonly<{
  since: number
  sql(blob: (hex: string) => string): readonly (string | Readonly<{ only: DialectName; sql: string }>)[]
  read(database: Database): Promise<unknown>
  expected: unknown
}>[] = [
  {
    since: 1,
    sql: (blob) => [
      `INSERT INTO log_heads VALUES ('acme', 1, ${blob(leaf.toString('hex'))}, 2, 1, 1)`,
      `INSERT INTO log_entries VALUES ('acme', 0, ${NOW}, '${record}', ${blob(leaf.toString('hex'))}, 1, 'h')`,
      `INSERT INTO log_heads VALUES ('a', 1, ${blob(leaf.toString('hex'))}, 0, 0, 0)`,
      `INSERT INTO log_entries VALUES ('a', 0, ${NOW}, '"of a"', ${blob(leaf.toString('hex'))}, NULL, NULL)`,
    ],
    read: async ({ read }) => [
      await log.head(read, ACME),
      await log.trailRecords(read, ACME, 1, { fromSeq: 0, toSeq: 9 }),
      (await log.entries(read, ACME, 0, 9)).map((entry) => entry.record),
      (await log.entries(read, tenantId('a'), 0, 9)).map((entry) => entry.record),
    ],
    expected: [{ size: 1, peaks: leaf }, [{ seq: 0, hash: 'h', atMs: NOW }], [record], ['"of a"']],
  },
  {
    since: 2,
    sql: () => [
      `INSERT INTO api_keys VALUES ('acme', 'k', 'p', 'h', 'ann', 'editor', 'user', NULL, ${NOW}, 'owner', NULL, NULL, NULL)`,
    ],
    read: async ({ read }) => [await keys.findKeyByPrefix(read, 'p')],
    expected: [expect.objectContaining({ tenant: ACME, id: 'k', name: 'ann', role: 'editor', scopes: null })],
  },
  {
    since: 3,
    sql: () => [
      `INSERT INTO projects VALUES ('acme', 'alpha', 2, ${NOW}, 'owner')`,
      `INSERT INTO tasks (tenant, number, project, sequence, title, description, status, priority_rank, progress, assignee,
        labels, created_at, created_by, updated_at, updated_by) VALUES
        ('acme', 1, 'alpha', 1, 'Running Ärzte', '', 'todo', 3, 5, 'ann', '["x"]', ${NOW}, 'owner', ${NOW}, 'owner'),
        ('acme', 2, 'alpha', 2, 'Two', 'see docs/guide.md', 'todo', 0, 0, 'ann', '[]', ${NOW}, 'owner', ${NOW}, 'owner')`,
      {
        only: 'SQLite',
        sql: 'INSERT INTO tasks_search (rowid, title, description) SELECT row_id, title, description FROM tasks',
      },
      `INSERT INTO task_labels (tenant, task_number, label) VALUES ('acme', 1, 'x')`,
      `INSERT INTO task_dependencies VALUES ('acme', 2, 1)`,
      `INSERT INTO thoughts VALUES ('acme', 1, 1, 1, 0, 'risk', 'c', NULL, NULL, NULL, NULL, '{"a":1}', 'h', NULL, ${NOW}, 'owner')`,
      `INSERT INTO audit_sessions VALUES ('acme', 1, 1, 'a', NULL, 'deep', ${NOW}, 'owner', 1, NULL, NULL, NULL, NULL, NULL, NULL)`,
    ],
    read: async ({ read }) => [
      await tasks.findTask(read, ACME, 1),
      await tasks.listNextActions(read, ACME, 'alpha', 9),
      await tasks.countTasks(read, ACME, { label: 'x' }),
      await tasks.findProject(read, ACME, 'alpha'),
      await trail.listThoughts(read, ACME, {}, { limit: 9, offset: 0 }),
      await trail.findSession(read, ACME, 1),
      await Promise.all(
        ['run', 'arzte', 'guide', 'none'].map((word) => tasks.countTasks(read, ACME, { words: [word] })),
      ),
    ],
    expected: [
      expect.objectContaining({ title: 'Running Ärzte', priority: 'critical', labels: ['x'], progress: 5 }),
      [expect.objectContaining({ number: 1 }), expect.objectContaining({ number: 2, dependenciesUnmet: 1 })],
      1,
      expect.objectContaining({ taskCount: 2 }),
      [expect.objectContaining({ content: 'c', metadata: { a: 1 } })],
      expect.objectContaining({ scope: 'deep', startSeq: 1, finalized: null }),
      [1, 1, 1, 0],
    ],
  },
  {
    since: BEFORE_TOOL_LISTS,
    sql: () => [
      ...['acme', 'other'].flatMap((tenant) =>
        [
          ['echo', 'NULL'],
          ['gone', '7'],
        ].map(
          ([
            id,
            removed,
          ]) => `INSERT INTO mcp_tools (tenant, id, catalog_id, upstream_name, name, aliases, title, description,
            input_schema, output_schema, annotations, list_version, removed_at, task_support)
            VALUES ('${tenant}', '${id}', 'one', '${id}', 'up__${id}', '["a"]', 'T', 'D of ${tenant}', '{"type":"object"}',
              NULL, '{"readOnlyHint":true}', 3, ${removed}, 'optional')`,
        ),
      ),
      ...[
        ['ann', 'success'],
        ['bob', 'error'],
        ['cy', 'pending'],
      ].map(
        ([
          author,
          status,
        ]) => `INSERT INTO mcp_deployments (tenant, id, catalog_id, scope, author, holder, status, field_values, created_at,
          updated_at) VALUES ('acme', '${author}', 'one', 'personal', '${author}', '${author}', '${status}', '{}', 1, 1)`,
      ),
    ],
    read: async ({ read }) => {
      const deployments = await servers.listDeployments(read, ACME, 'one')
      return [
        deployments.map(({ id, toolList }) => [id, toolList]),
        await servers.findToolList(read, ACME, 'one', 'one'),
        await servers.definitions(read, ACME, 'one'),
        (await servers.listTools(read, ACME, 'one')).map(({ id, name, aliases }) => [id, name, aliases]),
      ]
    },
    expected: [
      [
        ['ann', 'one'],
        ['bob', 'one'],
        ['cy', null],
      ],
      new Map([['echo', 'echo']]),
      new Map([
        [
          'echo',
          {
            ...{ title: 'T', description: 'D of acme', inputSchema: { type: 'object' }, outputSchema: null },
            ...{ annotations: { readOnlyHint: true }, taskSupport: 'optional' },
          },
        ],
      ]),
      [
        ['echo', 'up__echo', ['a']],
        ['gone', 'up__gone', ['a']],
      ],
    ],
  },
]

describe.each(dialects)('migrations in %s', (dialect) => {
  let testDatabase: TestDatabase
  const opened: Database[] = []
  const open = async (targetVersion = latest) => {
    const database = await testDatabase.open({ targetVersion })
    opened.push(database)
    return database
  }
  afterEach(async () => {
    installFaultPlan(undefined)
    await Promise.all(opened.splice(0).map((database) => database.close()))
    testDatabase.remove()
  })

  it.each(migrations.map((_, index) => index))('carry the data of version %i to the latest', async (version) => {
    testDatabase = await newTestDatabase(dialect)
    const known = legacies.filter(({ since }) => since <= Math.min(version, LEGACY_TABLES) || since === version)
    await (await open(Math.min(version, LEGACY_TABLES))).close()
    const isOfFirst = ({ since }: (typeof legacies)[number]): boolean => since <= LEGACY_TABLES
    for (const legacy of known.filter(isOfFirst)) await runSql(dialect, testDatabase, legacy.sql)
    const old = await open(version)
    expect(old.schemaVersion).toBe(version)
    await old.close()
    for (const legacy of known.filter((one) => !isOfFirst(one))) await runSql(dialect, testDatabase, legacy.sql)
    const migrated = await open()
    expect(migrated.schemaVersion).toBe(latest)
    for (const legacy of known) expect(await legacy.read(migrated)).toEqual(legacy.expected)
    const added = await addTask(migrated, ACME, { title: 'Runs again', labels: ['x'] })
    expect(added.number).toBe(known.length === 0 ? 1 : 3)
    const before = version < 3 ? 0 : 1
    expect(await tasks.countTasks(migrated.read, ACME, { words: ['running'] })).toBe(before + 1)
    expect(await tasks.countTasks(migrated.read, ACME, { label: 'x' })).toBe(before + 1)
  })

  it('give each agent a profile that all in its tenant see, whatever user created it', async () => {
    testDatabase = await newTestDatabase(dialect)
    await (await open(BEFORE_PROFILES)).close()
    await runSql(dialect, testDatabase, () => [
      `INSERT INTO api_keys VALUES ('acme', 'k1', 'p1', 'h', 'ann', 'editor', 'user', NULL, 1, 'owner', NULL, NULL, 2)`,
      `INSERT INTO api_keys VALUES ('acme', 'k2', 'p2', 'h', 'ann', 'editor', 'user', NULL, 3, 'owner', NULL, NULL, NULL)`,
      `INSERT INTO agents VALUES ('acme', 'a', 'coder', 'active', '1.0.0', 'Codes.', '{"x":"1","y/z":""}', 5, 'ann', 6)`,
      `INSERT INTO agents VALUES ('other', 'b', 'coder', 'active', '1.0.0', '', '{}', 5, 'owner', 6)`,
      `INSERT INTO agents VALUES ('other', 'c', 'writer', 'active', '1.0.0', '', '{}', 5, 'ann', 6)`,
    ])
    const { read } = await open()
    const [coder] = await agents.findAgentsByName(read, ACME, 'coder')
    expect(coder).toMatchObject({ id: 'a', name: 'coder', labels: { x: '1', 'y/z': '' }, createdAtMs: 5 })
    expect(await profiles.findProfile(read, ACME, 'a')).toMatchObject({
      kind: 'agent',
      name: 'coder',
      slug: 'coder',
      description: 'Codes.',
      sharing: { scope: 'org', author: 'key:k2', teams: [] },
      labels: [
        { key: 'x', value: '1' },
        { key: 'y/z', value: '' },
      ],
      createdAtMs: 5,
      updatedAtMs: 6,
    })
    const other = tenantId('other')
    expect(await profiles.findProfile(read, other, 'b')).toMatchObject({ sharing: { author: 'owner' }, labels: [] })
    expect(await profiles.findProfile(read, other, 'c')).toMatchObject({ sharing: { author: 'ann' } })
  })

  it('count the costs of interactions in billionths of a dollar', async () => {
    testDatabase = await newTestDatabase(dialect)
    await (await open(BEFORE_BILLIONTHS)).close()
    const columns = 'tenant, id, started_at, owner, source, provider, outcome, facts, cost, saved'
    const costs = { a: '7, -2', b: 'NULL, NULL', c: '9007199254740992, -9007199254740992' }
    await runSql(dialect, testDatabase, () =>
      Object.entries(costs).map(
        ([id, numbers]) =>
          `INSERT INTO interactions (${columns}) VALUES ('acme', '${id}', 1, 'u', 'proxy', 'p', 'ok', '{}', ${numbers})`,
      ),
    )
    const { read } = await open()
    const found = await interactions.listInteractions(read, ACME, {}, 9)
    const most = Number.MAX_SAFE_INTEGER
    expect(found.map(({ id, costNanodollars: cost, savedNanodollars: saved }) => [id, cost, saved])).toEqual([
      ['c', most, -most],
      ['b', null, null],
      ['a', 7_000, -2_000],
    ])
  })

  it('do nothing to a database that is up to date', async () => {
    testDatabase = await newTestDatabase(dialect)
    await (await open()).close()
    installFaultPlan((point) => {
      if (point === 'store.migrate') throw new Error('migrated again')
    })
    expect((await open()).schemaVersion).toBe(latest)
  })

  it.each(migrations.map((_, index) => index + 1))(
    'leave the old version when number %i fails midway',
    async (failing) => {
      testDatabase = await newTestDatabase(dialect)
      const old = Math.floor(failing / 2)
      await (await open(old)).close()
      let count = old
      installFaultPlan((point) => {
        if (point === 'store.migrate' && ++count === failing) throw new Error('injected')
      })
      await expect(open()).rejects.toMatchObject({ code: 'ERR_INIT_FAILED' })
      expect(await storedVersion(dialect, testDatabase)).toBe(old)
      installFaultPlan(undefined)
      const next = await open()
      expect(next.schemaVersion).toBe(latest)
      expect((await addTask(next, ACME)).number).toBe(1)
    },
  )

  it('refuse a database of a newer program and leave it as it is', async () => {
    testDatabase = await newTestDatabase(dialect)
    const database = await open()
    const task = await addTask(database, ACME)
    await database.close()
    await setStoredVersion(dialect, testDatabase, latest + 1)
    const before = dialect === 'SQLite' ? readFileSync(testDatabase.location) : undefined
    await expect(open()).rejects.toMatchObject({
      code: 'ERR_INIT_FAILED',
      details: { schema_version: latest + 1, known_version: latest },
    })
    expect(await storedVersion(dialect, testDatabase)).toBe(latest + 1)
    if (before !== undefined) expect(readFileSync(testDatabase.location).equals(before)).toBe(true)
    await setStoredVersion(dialect, testDatabase, latest)
    expect(await tasks.findTask((await open()).read, ACME, 1)).toEqual(task)
  })

  it('are run once when several open the same database at once', async () => {
    testDatabase = await newTestDatabase(dialect)
    let count = 0
    installFaultPlan((point) => {
      if (point === 'store.migrate') count++
    })
    const both = await Promise.all([open(), open(), open()])
    expect(both.map((database) => database.schemaVersion)).toEqual([latest, latest, latest])
    expect(count).toBe(latest)
    await addTask(both[0]!, ACME)
    expect(await log.tenants(both[1]!.read)).toEqual([ACME])
  })
})

describe('what cannot be opened', () => {
  it('is refused by name: a server that is not there', async () => {
    const url = 'postgres://castellan:geheim@127.0.0.1:1/none'
    const opening = openPostgresDatabase({ url, clock: systemClock, logger: silentLogger })
    await expect(opening).rejects.toMatchObject({ code: 'ERR_INIT_FAILED', details: { field: 'database_url' } })
    await expect(opening).rejects.not.toThrow('geheim')
  })

  it('is refused by name and left alone: a file that is no database', async () => {
    const testDatabase = await newTestDatabase('SQLite')
    writeFileSync(testDatabase.location, 'not a database, but long enough to be looked at as one. '.repeat(100))
    const before = readFileSync(testDatabase.location)
    await expect(testDatabase.open()).rejects.toMatchObject({ code: 'ERR_INIT_FAILED', details: { field: 'data_dir' } })
    expect(readFileSync(testDatabase.location).equals(before)).toBe(true)
    testDatabase.remove()
  })
})

async function storedVersion(dialect: DialectName, { location }: TestDatabase): Promise<number> {
  if (dialect === 'PostgreSQL') {
    return await withClient(
      location,
      async (client) => (await client.query('SELECT version FROM schema_version')).rows[0].version,
    )
  }
  const database = new DatabaseSync(location)
  const row = database.prepare('PRAGMA user_version').get() as { user_version: number }
  database.close()
  return row.user_version
}

async function runSql(
  dialect: DialectName,
  { location }: TestDatabase,
  sql: (typeof legacies)[number]['sql'],
): Promise<void> {
  const statements = sql((hex) => (dialect === 'SQLite' ? `x'${hex}'` : `'\\x${hex}'`))
    .filter((part) => typeof part === 'string' || part.only === dialect)
    .map((part) => (typeof part === 'string' ? part : part.sql))
  if (dialect === 'PostgreSQL') {
    await withClient(location, async (client) => {
      for (const statement of statements) await client.query(statement)
    })
    return
  }
  const database = new DatabaseSync(location)
  for (const statement of statements) database.exec(statement)
  database.close()
}

async function setStoredVersion(dialect: DialectName, { location }: TestDatabase, version: number): Promise<void> {
  if (dialect === 'PostgreSQL') {
    await withClient(location, (client) => client.query('UPDATE schema_version SET version = $1', [version]))
    return
  }
  const database = new DatabaseSync(location)
  database.exec(`PRAGMA user_version = ${version}`)
  database.close()
}
