import { AppError } from '../../contract/app-error.ts'
import { governanceMigrations } from './governance-migrations.ts'
import type { Dialect } from './statements.ts'

/**
 * Append-only: a migration that has landed is never edited. Each runs in one transaction and raises the version by one.
 * `$blob`, `$integer` and `$identity` stand for the dialect's types; a statement for one dialect only says so.
 */
export type Migration = Readonly<{
  name: string
  statements: readonly (string | Readonly<{ only: Dialect; sql: string }>)[]
}>

const sqliteOnly = (statements: readonly string[]): Migration['statements'] =>
  statements.map((sql) => ({ only: 'sqlite', sql }))

export const migrations: readonly Migration[] = [
  {
    name: 'log',
    statements: [
      `CREATE TABLE log_heads (
        tenant TEXT PRIMARY KEY, size $integer NOT NULL, peaks $blob NOT NULL,
        task_count $integer NOT NULL, thought_count $integer NOT NULL, session_count $integer NOT NULL)`,
      `CREATE TABLE log_entries (
        tenant TEXT NOT NULL, seq $integer NOT NULL, at $integer NOT NULL, record TEXT NOT NULL, nodes $blob NOT NULL,
        task_number $integer, record_hash TEXT, PRIMARY KEY (tenant, seq))`,
      'CREATE INDEX log_entries_by_task ON log_entries (tenant, task_number, seq) WHERE task_number IS NOT NULL',
    ],
  },
  {
    name: 'api keys',
    statements: [
      `CREATE TABLE api_keys (
        tenant TEXT NOT NULL, id TEXT NOT NULL, prefix TEXT NOT NULL UNIQUE, hash TEXT NOT NULL, name TEXT NOT NULL,
        role TEXT NOT NULL, tier TEXT NOT NULL, scopes TEXT, created_at $integer NOT NULL, created_by TEXT NOT NULL,
        expires_at $integer, last_used_at $integer, revoked_at $integer, PRIMARY KEY (tenant, id))`,
    ],
  },
  {
    name: 'ledger',
    statements: [
      `CREATE TABLE projects (
        tenant TEXT NOT NULL, slug TEXT NOT NULL, task_count $integer NOT NULL, created_at $integer NOT NULL,
        created_by TEXT NOT NULL, PRIMARY KEY (tenant, slug))`,
      `CREATE TABLE tasks (
        row_id $identity, tenant TEXT NOT NULL, number $integer NOT NULL, project TEXT NOT NULL,
        sequence $integer NOT NULL, title TEXT NOT NULL, description TEXT NOT NULL, status TEXT NOT NULL,
        priority_rank $integer NOT NULL, progress $real NOT NULL, assignee TEXT NOT NULL, labels TEXT NOT NULL,
        estimate_hours $real, blocked_reason TEXT, parent_number $integer, created_at $integer NOT NULL,
        created_by TEXT NOT NULL, updated_at $integer NOT NULL, updated_by TEXT NOT NULL, UNIQUE (tenant, number))`,
      'CREATE INDEX tasks_by_updated ON tasks (tenant, updated_at, number)',
      'CREATE INDEX tasks_by_project ON tasks (tenant, project, status, updated_at)',
      'CREATE INDEX tasks_by_parent ON tasks (tenant, parent_number) WHERE parent_number IS NOT NULL',
      `CREATE TABLE task_labels (
        tenant TEXT NOT NULL, task_number $integer NOT NULL, label TEXT NOT NULL, PRIMARY KEY (tenant, label, task_number))`,
      'CREATE INDEX task_labels_by_task ON task_labels (tenant, task_number)',
      `CREATE TABLE task_dependencies (
        tenant TEXT NOT NULL, task_number $integer NOT NULL, depends_on_number $integer NOT NULL,
        PRIMARY KEY (tenant, task_number, depends_on_number))`,
      `CREATE TABLE thoughts (
        tenant TEXT NOT NULL, number $integer NOT NULL, task_number $integer NOT NULL, chain_position $integer NOT NULL,
        log_seq $integer NOT NULL, type TEXT NOT NULL, content TEXT NOT NULL, branch TEXT, commit_sha TEXT,
        tests_run TEXT, blockers TEXT, metadata TEXT, hash TEXT NOT NULL, previous_hash TEXT,
        recorded_at $integer NOT NULL, recorded_by TEXT NOT NULL, PRIMARY KEY (tenant, number))`,
      'CREATE UNIQUE INDEX thoughts_by_task ON thoughts (tenant, task_number, chain_position)',
      `CREATE TABLE audit_sessions (
        tenant TEXT NOT NULL, number $integer NOT NULL, task_number $integer NOT NULL, auditor_id TEXT NOT NULL,
        reason TEXT, scope TEXT NOT NULL, started_at $integer NOT NULL, started_by TEXT NOT NULL,
        start_seq $integer NOT NULL, end_seq $integer, finalized_at $integer, only_task_number $integer,
        merkle_root TEXT, tree_depth $integer, leaf_count $integer, PRIMARY KEY (tenant, number))`,
      {
        only: 'sqlite',
        sql: `CREATE VIRTUAL TABLE tasks_search USING fts5 (title, description, content='tasks', content_rowid='row_id',
          tokenize='porter unicode61 remove_diacritics 2')`,
      },
      {
        only: 'postgres',
        sql: `ALTER TABLE tasks ADD COLUMN search tsvector GENERATED ALWAYS AS
          (to_tsvector('english', title || ' ' || description)) STORED`,
      },
      { only: 'postgres', sql: 'CREATE INDEX tasks_search ON tasks USING gin (search)' },
    ],
  },
  {
    // Both dialects find the same: no stop words, accents are ignored, and a word inside a path or an address is a word.
    name: 'search alike',
    statements: [
      { only: 'sqlite', sql: 'DROP TABLE tasks_search' },
      {
        only: 'sqlite',
        sql: `CREATE VIRTUAL TABLE tasks_search USING fts5 (title, description, content='tasks', content_rowid='row_id',
          columnsize=0, tokenize='porter unicode61 remove_diacritics 2')`,
      },
      { only: 'sqlite', sql: `INSERT INTO tasks_search (tasks_search) VALUES ('rebuild')` },
      { only: 'postgres', sql: 'ALTER TABLE tasks DROP COLUMN search' },
      {
        only: 'postgres',
        sql: 'CREATE TEXT SEARCH DICTIONARY castellan_stem (TEMPLATE = pg_catalog.snowball, LANGUAGE = english)',
      },
      { only: 'postgres', sql: 'CREATE TEXT SEARCH CONFIGURATION castellan_words (COPY = pg_catalog.simple)' },
      {
        only: 'postgres',
        sql: 'ALTER TEXT SEARCH CONFIGURATION castellan_words ALTER MAPPING FOR asciiword, word WITH castellan_stem',
      },
      {
        only: 'postgres',
        sql: String.raw`CREATE FUNCTION castellan_fold(input TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
          'SELECT regexp_replace(normalize(regexp_replace(normalize(lower(input), NFD), ''[\u0300-\u036f]'', '''', ''g''), NFC),
            ''[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u2000-\u206f\u3000-\u303f]+'', '' '', ''g'')'`,
      },
      {
        only: 'postgres',
        sql: `ALTER TABLE tasks ADD COLUMN search tsvector GENERATED ALWAYS AS
          (to_tsvector('castellan_words', castellan_fold(title || ' ' || description))) STORED`,
      },
      { only: 'postgres', sql: 'CREATE INDEX tasks_search ON tasks USING gin (search)' },
    ],
  },
  {
    // SQLite enters tasks into its indexes in bulk, up to a mark; `task-index.ts` has the rules.
    name: 'index in bulk',
    statements: [
      { only: 'postgres', sql: 'DROP INDEX task_labels_by_task' },
      { only: 'sqlite', sql: 'ALTER TABLE task_labels RENAME TO old_task_labels' },
      {
        only: 'sqlite',
        sql: `CREATE TABLE task_labels (tenant TEXT NOT NULL, task_number INTEGER NOT NULL, label TEXT NOT NULL,
          PRIMARY KEY (tenant, label, task_number)) WITHOUT ROWID`,
      },
      {
        only: 'sqlite',
        sql: `INSERT INTO task_labels (tenant, task_number, label)
          SELECT tenant, task_number, label FROM old_task_labels`,
      },
      { only: 'sqlite', sql: 'DROP TABLE old_task_labels' },
      {
        only: 'sqlite',
        sql: `CREATE TABLE task_index (only_row INTEGER PRIMARY KEY CHECK (only_row = 0), indexed_to INTEGER NOT NULL)`,
      },
      { only: 'sqlite', sql: 'INSERT INTO task_index SELECT 0, coalesce(max(row_id), 0) FROM tasks' },
      {
        only: 'sqlite',
        sql: `CREATE VIEW indexed_tasks AS SELECT row_id, title, description FROM tasks
          WHERE row_id <= (SELECT indexed_to FROM task_index)`,
      },
      { only: 'sqlite', sql: 'DROP TABLE tasks_search' },
      {
        only: 'sqlite',
        sql: `CREATE VIRTUAL TABLE tasks_search USING fts5 (title, description, content='indexed_tasks',
          content_rowid='row_id', columnsize=0, tokenize='porter unicode61 remove_diacritics 2')`,
      },
      { only: 'sqlite', sql: `INSERT INTO tasks_search (tasks_search) VALUES ('rebuild')` },
    ],
  },
  {
    name: 'log identity',
    statements: [
      `CREATE TABLE log_identity (
        only_row $integer PRIMARY KEY CHECK (only_row = 0), log_id TEXT NOT NULL, verifier_key TEXT NOT NULL)`,
    ],
  },
  {
    // SQLite writes whole pages, one for every index that a commit touches: `row-ids.ts` and `trail-index.ts` have the rules.
    name: 'fewer pages',
    statements: sqliteOnly([
      'ALTER TABLE log_heads ADD COLUMN tenant_number INTEGER NOT NULL DEFAULT 0',
      'ALTER TABLE log_heads ADD COLUMN trail_to INTEGER NOT NULL DEFAULT 0',
      `UPDATE log_heads SET trail_to = size,
        tenant_number = (SELECT count(*) FROM log_heads AS other WHERE other.tenant <= log_heads.tenant)`,
      'CREATE UNIQUE INDEX log_heads_by_number ON log_heads (tenant_number)',
      `CREATE TABLE trail_entries (tenant TEXT NOT NULL, task_number INTEGER NOT NULL, seq INTEGER NOT NULL,
        PRIMARY KEY (tenant, task_number, seq)) WITHOUT ROWID`,
      `INSERT INTO trail_entries (tenant, task_number, seq)
        SELECT tenant, task_number, seq FROM log_entries WHERE task_number IS NOT NULL`,
      'DROP INDEX log_entries_by_task',
      'ALTER TABLE log_entries RENAME TO old_log_entries',
      `CREATE TABLE log_entries (
        row_id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
        record TEXT NOT NULL, nodes BLOB NOT NULL, task_number INTEGER, record_hash TEXT)`,
      `INSERT INTO log_entries (row_id, tenant, seq, at, record, nodes, task_number, record_hash)
        SELECT tenant_number * 17179869184 + seq, old.tenant, seq, at, record, nodes, task_number, record_hash
        FROM old_log_entries AS old LEFT JOIN log_heads ON log_heads.tenant = old.tenant ORDER BY tenant_number, seq`,
      'DROP TABLE old_log_entries',
      'DROP INDEX thoughts_by_task',
      'ALTER TABLE thoughts RENAME TO old_thoughts',
      `CREATE TABLE thoughts (
        row_id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, number INTEGER NOT NULL, task_number INTEGER NOT NULL,
        chain_position INTEGER NOT NULL, log_seq INTEGER NOT NULL, type TEXT NOT NULL, content TEXT NOT NULL,
        branch TEXT, commit_sha TEXT, tests_run TEXT, blockers TEXT, metadata TEXT, hash TEXT NOT NULL,
        previous_hash TEXT, recorded_at INTEGER NOT NULL, recorded_by TEXT NOT NULL)`,
      `INSERT INTO thoughts (row_id, tenant, number, task_number, chain_position, log_seq, type, content, branch,
          commit_sha, tests_run, blockers, metadata, hash, previous_hash, recorded_at, recorded_by)
        SELECT tenant_number * 17179869184 + number, old.tenant, number, task_number, chain_position, log_seq, type,
          content, branch, commit_sha, tests_run, blockers, metadata, hash, previous_hash, recorded_at, recorded_by
        FROM old_thoughts AS old LEFT JOIN log_heads ON log_heads.tenant = old.tenant ORDER BY tenant_number, number`,
      'DROP TABLE old_thoughts',
      'CREATE UNIQUE INDEX thoughts_by_task ON thoughts (tenant, task_number, chain_position)',
    ]),
  },
  {
    name: 'workspaces',
    statements: [
      `CREATE TABLE workspaces (
        tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, state TEXT NOT NULL,
        wanted TEXT NOT NULL, image TEXT NOT NULL, vcpus $integer NOT NULL, memory_mb $integer NOT NULL,
        disk_gb $integer NOT NULL, ip TEXT NOT NULL, network TEXT NOT NULL, forwards TEXT NOT NULL, env TEXT NOT NULL,
        layers TEXT NOT NULL, forked_from TEXT, current_snapshot_id TEXT, node TEXT NOT NULL, operation TEXT, team TEXT,
        bound_to TEXT, created_at $integer NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, id),
        UNIQUE (tenant, name))`,
      'CREATE INDEX workspaces_by_node ON workspaces (node)',
      `CREATE TABLE workspace_snapshots (
        tenant TEXT NOT NULL, id TEXT NOT NULL, workspace_id TEXT NOT NULL, sequence $integer NOT NULL,
        name TEXT NOT NULL, layer_id TEXT NOT NULL, layers TEXT NOT NULL, parent_id TEXT, bytes $integer NOT NULL,
        has_memory $integer NOT NULL, state TEXT NOT NULL, created_at $integer NOT NULL, created_by TEXT NOT NULL,
        PRIMARY KEY (tenant, id), UNIQUE (tenant, workspace_id, name), UNIQUE (tenant, workspace_id, sequence))`,
    ],
  },
  {
    name: 'teams',
    statements: [
      `CREATE TABLE teams (
        tenant TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, state TEXT NOT NULL, max_vms $integer NOT NULL,
        parent TEXT, depth $integer NOT NULL, node TEXT NOT NULL, operation TEXT, last_seq $integer NOT NULL,
        created_at $integer NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, name))`,
      'CREATE INDEX teams_by_node ON teams (node)',
      `CREATE TABLE team_members (
        tenant TEXT NOT NULL, team TEXT NOT NULL, name TEXT NOT NULL, position $integer NOT NULL, role TEXT NOT NULL,
        skills TEXT NOT NULL, description TEXT NOT NULL, workspace_id TEXT, PRIMARY KEY (tenant, team, name))`,
      `CREATE TABLE team_messages (
        tenant TEXT NOT NULL, team TEXT NOT NULL, recipient TEXT NOT NULL, seq $integer NOT NULL, id TEXT NOT NULL,
        sender TEXT NOT NULL, addressed_to TEXT NOT NULL, content TEXT NOT NULL, type TEXT NOT NULL, at $integer NOT NULL,
        PRIMARY KEY (tenant, team, recipient, seq))`,
      `CREATE TABLE team_tasks (
        tenant TEXT NOT NULL, team TEXT NOT NULL, agent TEXT NOT NULL, message_id TEXT NOT NULL, seq $integer NOT NULL,
        assignment TEXT NOT NULL, state TEXT NOT NULL, job_id $integer, result TEXT, at $integer NOT NULL,
        PRIMARY KEY (tenant, team, agent, message_id))`,
      "CREATE INDEX team_tasks_open ON team_tasks (tenant, team, agent) WHERE state <> 'done'",
    ],
  },
  {
    name: 'runs',
    statements: [
      `CREATE TABLE runs (
        tenant TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, subject_id TEXT NOT NULL,
        subject_name TEXT NOT NULL, subject_version TEXT NOT NULL, owner TEXT NOT NULL, principal TEXT NOT NULL,
        parent_id TEXT, root_id TEXT NOT NULL, depth $integer NOT NULL, input TEXT NOT NULL, status TEXT NOT NULL,
        output TEXT NOT NULL, error TEXT, iteration $integer NOT NULL, state TEXT, started_at $integer NOT NULL,
        changed_at $integer NOT NULL, ended_at $integer, wake_at $integer, waiting_for TEXT, node TEXT NOT NULL,
        claim TEXT, cancel_requested $integer NOT NULL, last_sequence $integer NOT NULL, ended_sequence $integer,
        PRIMARY KEY (tenant, id))`,
      'CREATE INDEX runs_by_start ON runs (tenant, kind, started_at, id)',
      // Contains every column that the activity of an agent is counted by. Columns that change with every step are in no index.
      'CREATE INDEX runs_by_subject ON runs (tenant, subject_id, kind, started_at, id, owner, ended_sequence)',
      'CREATE INDEX runs_open_by_subject ON runs (tenant, subject_id, kind, owner) WHERE ended_sequence IS NULL',
      'CREATE INDEX runs_by_owner ON runs (tenant, kind, owner, started_at, id)',
      'CREATE INDEX runs_by_root ON runs (tenant, root_id)',
      "CREATE INDEX runs_open ON runs (node, started_at) WHERE status IN ('pending', 'running')",
      "CREATE INDEX runs_open_by_start ON runs (tenant, kind, started_at, id) WHERE status IN ('pending', 'running')",
      ...(['sqlite', 'postgres'] as const).map((only) => ({
        only,
        sql: `CREATE TABLE run_journal (
          tenant TEXT NOT NULL, run_id TEXT NOT NULL, sequence $integer NOT NULL, type TEXT NOT NULL, key TEXT,
          payload TEXT NOT NULL, state TEXT, iteration $integer, at $integer NOT NULL,
          PRIMARY KEY (tenant, run_id, sequence))${only === 'sqlite' ? ' WITHOUT ROWID' : ''}`,
      })),
    ],
  },
  {
    name: 'seal',
    statements: [
      `CREATE TABLE seal_sessions (
        tenant TEXT NOT NULL, id TEXT NOT NULL, identity TEXT NOT NULL, token_hash TEXT NOT NULL,
        public_key TEXT NOT NULL, context TEXT NOT NULL, agent_id TEXT, execution_id TEXT, workload_id TEXT,
        task_summary TEXT, created_at $integer NOT NULL, created_by TEXT NOT NULL, expires_at $integer NOT NULL,
        revoked_at $integer, PRIMARY KEY (tenant, id))`,
      'CREATE INDEX seal_sessions_by_identity ON seal_sessions (tenant, identity, expires_at)',
      `CREATE TABLE seal_messages (
        tenant TEXT NOT NULL, digest TEXT NOT NULL, kept_until $integer NOT NULL, PRIMARY KEY (tenant, digest))`,
      'CREATE INDEX seal_messages_by_end ON seal_messages (tenant, kept_until)',
    ],
  },
  {
    name: 'agents',
    statements: [
      `CREATE TABLE agents (
        tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, latest_version TEXT NOT NULL,
        description TEXT NOT NULL, labels TEXT NOT NULL, created_at $integer NOT NULL, created_by TEXT NOT NULL,
        updated_at $integer NOT NULL, PRIMARY KEY (tenant, id), UNIQUE (tenant, name))`,
      `CREATE TABLE agent_versions (
        tenant TEXT NOT NULL, agent_id TEXT NOT NULL, version TEXT NOT NULL, manifest_yaml TEXT NOT NULL,
        created_at $integer NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, agent_id, version))`,
      `CREATE TABLE agent_events (
        tenant TEXT NOT NULL, agent_id TEXT NOT NULL, sequence $integer NOT NULL, type TEXT NOT NULL,
        payload TEXT NOT NULL, at $integer NOT NULL, PRIMARY KEY (tenant, agent_id, sequence))`,
    ],
  },
  {
    name: 'workflows',
    statements: [
      `CREATE TABLE workflows (
        tenant TEXT NOT NULL, id TEXT NOT NULL, version TEXT NOT NULL, scope TEXT NOT NULL, owner TEXT NOT NULL,
        name TEXT NOT NULL, description TEXT NOT NULL, labels TEXT NOT NULL, initial_state TEXT NOT NULL,
        manifest TEXT NOT NULL, created_at $integer NOT NULL, created_by TEXT NOT NULL, changed_at $integer NOT NULL,
        PRIMARY KEY (tenant, id, version), UNIQUE (tenant, scope, owner, name, version))`,
      'CREATE INDEX workflows_by_name ON workflows (tenant, name)',
      "CREATE UNIQUE INDEX workflows_global ON workflows (name, version) WHERE scope = 'global'",
    ],
  },
  {
    name: 'schedules',
    statements: [
      `CREATE TABLE schedules (
        tenant TEXT NOT NULL, kind TEXT NOT NULL, subject_id TEXT NOT NULL, timing TEXT NOT NULL, principal TEXT NOT NULL,
        owner TEXT NOT NULL, due_at $integer NOT NULL, next_at $integer NOT NULL, last_run_id TEXT,
        missed $integer NOT NULL, skipped $integer NOT NULL, PRIMARY KEY (tenant, subject_id))`,
      'CREATE INDEX schedules_by_time ON schedules (next_at)',
    ],
  },
  {
    name: 'log anchors and the latest time',
    statements: [
      'CREATE TABLE clock_floor (only_row $integer PRIMARY KEY CHECK (only_row = 0), at $integer NOT NULL)',
      `CREATE TABLE log_anchors (
        node TEXT NOT NULL, tenant TEXT NOT NULL, size $integer NOT NULL, PRIMARY KEY (node, tenant))`,
    ],
  },
  {
    name: 'mounts of workspaces',
    statements: ["ALTER TABLE workspaces ADD COLUMN mounts TEXT NOT NULL DEFAULT '[]'"],
  },
  {
    name: 'secrets',
    statements: [
      `CREATE TABLE secrets (
        tenant TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, purpose TEXT NOT NULL, key_id TEXT NOT NULL,
        sealed TEXT NOT NULL, created_at $integer NOT NULL, updated_at $integer NOT NULL, PRIMARY KEY (tenant, id))`,
      `CREATE TABLE secret_links (
        tenant TEXT NOT NULL, id TEXT NOT NULL, token_hash TEXT NOT NULL UNIQUE, principal TEXT NOT NULL,
        kind TEXT NOT NULL, subject TEXT NOT NULL, title TEXT NOT NULL, fields TEXT NOT NULL,
        created_at $integer NOT NULL, expires_at $integer NOT NULL, used_at $integer, PRIMARY KEY (tenant, id))`,
      'CREATE INDEX secret_links_by_end ON secret_links (tenant, expires_at)',
    ],
  },
  ...governanceMigrations,
]

const types: Readonly<Record<Dialect, Readonly<Record<string, string>>>> = {
  sqlite: { $blob: 'BLOB', $integer: 'INTEGER', $real: 'REAL', $identity: 'INTEGER PRIMARY KEY' },
  postgres: {
    $blob: 'BYTEA',
    $integer: 'BIGINT',
    $real: 'DOUBLE PRECISION',
    $identity: 'BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY',
  },
}

/** The statements of one migration in one dialect. */
export function migrationSql(migration: Migration, dialect: Dialect): string[] {
  return migration.statements
    .filter((part) => typeof part === 'string' || part.only === dialect)
    .map((part) => (typeof part === 'string' ? part : part.sql))
    .map((sql) => sql.replace(/\$[a-z]+/g, (token) => types[dialect][token] ?? token))
}

/** A database of a newer program is refused before anything in it is touched. */
export function requireKnownVersion(version: number): void {
  if (version <= migrations.length) return
  throw new AppError(
    'ERR_INIT_FAILED',
    `The database has schema version ${version}, but this program knows versions up to ${migrations.length}. Use a newer Castellan.`,
    { schema_version: version, known_version: migrations.length },
  )
}
