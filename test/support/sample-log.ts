import { checkpointOrigin, generateKey, signCheckpoint } from '../../src/audit/checkpoint.ts'
import { exportHeaderLine, exportRecordLine } from '../../src/audit/export-format.ts'
import type {
  FsckHead,
  FsckIdentity,
  FsckLogRow,
  FsckProjectRow,
  FsckRunEventRow,
  FsckRunRow,
  FsckSessionRow,
  FsckSource,
  FsckTaskRow,
  FsckThoughtRow,
} from '../../src/audit/fsck/source.ts'
import { createSessionTree } from '../../src/audit/session-tree.ts'
import { thoughtHash } from '../../src/audit/thought-chain.ts'
import { appendLeaf, emptyHead, leafHash, rootOf, type TreeHead } from '../../src/audit/tree.ts'
import { canonicalJson } from '../../src/kernel/canonical-json.ts'
import { sha256Hex } from '../../src/kernel/hash.ts'

/** A small log with every kind of effect, made by the writer's code, and the tables that go with it, made by hand. */

type Loose<T> = { -readonly [K in keyof T]: T[K] }
export type SampleEffect = { kind: string; subject?: string; hash?: string; body: Record<string, unknown> }
export type SampleRecord = Record<string, unknown> & { at: string; effects?: SampleEffect[] }

export type SampleDatabase = {
  head: Loose<FsckHead> | undefined
  log: Loose<FsckLogRow>[]
  projects: Loose<FsckProjectRow>[]
  tasks: Loose<FsckTaskRow>[]
  thoughts: Loose<FsckThoughtRow>[]
  sessions: Loose<FsckSessionRow>[]
  runs: Loose<FsckRunRow>[]
  runEvents: Loose<FsckRunEventRow>[]
  checkpoint: string | undefined
  anchor: number | undefined
  identity: Loose<FsckIdentity> | undefined
}

export const TENANT = 'local'
export const ORIGIN = checkpointOrigin('log1', TENANT)
export const KEY = generateKey('castellan/log1', { bytes: (count) => Buffer.alloc(count, 9) })
export const OTHER_KEY = generateKey('castellan/log1', { bytes: (count) => Buffer.alloc(count, 8) })
export const IDENTITY = { logId: 'log1', verifierKey: KEY.verifierKey }

const timeOf = (seq: number): string => new Date(1_790_000_000_000 + seq * 1000).toISOString()

function trail(kind: string, taskNumber: number, body: Record<string, unknown>): SampleEffect {
  return { kind, subject: `task:${taskNumber}`, hash: sha256Hex(canonicalJson(body)), body }
}

function taskCreated(seq: number, number: number, more: Record<string, unknown>): SampleEffect {
  return trail('task_created', number, {
    task_id: `T-000${number}`,
    title: `Task ${number}`,
    description: '',
    project: 'alpha',
    parent_id: null,
    status: 'backlog',
    priority: 'medium',
    progress: 0,
    assignee: 'ann',
    labels: [],
    estimate_hours: null,
    blocked_reason: null,
    depends_on: [],
    created_at: timeOf(seq),
    created_by: 'owner',
    sequence: number,
    ...more,
  })
}

function thought(seq: number, id: number, task: number, position: number, previous: SampleEffect | null): SampleEffect {
  const link = {
    task_id: `T-000${task}`,
    type: 'decision',
    content: `Gedanke ${id} — "quoted"\n`,
    previous_hash: previous?.hash ?? null,
    recorded_at: timeOf(seq),
    recorded_by: 'owner',
  }
  const hash = thoughtHash(link)
  const body = {
    ...link,
    thought_id: `Θ-000${id}`,
    branch: 'main',
    tests_run: ['unit'],
    chain_position: position,
    hash,
  }
  return { kind: 'thought_recorded', subject: `task:${task}`, hash, body }
}

const update = (seq: number, task: number, from: string, changes: Record<string, unknown>): SampleEffect =>
  trail('task_updated', task, {
    task_id: `T-000${task}`,
    changes,
    previous_status: from,
    updated_at: timeOf(seq),
    updated_by: 'bea',
  })

const sessionStarted = (seq: number, id: number, scope: string): SampleEffect => ({
  kind: 'session_started',
  body: {
    session_id: `A-000${id}`,
    task_id: 'T-0001',
    auditor_id: 'auditor',
    reason: null,
    scope,
    started_at: timeOf(seq),
    started_by: 'owner',
    start_seq: seq,
  },
})

function sessionFinalized(seq: number, leaves: readonly SampleEffect[]): SampleEffect {
  const tree = createSessionTree()
  for (const { hash } of leaves) tree.add(hash!)
  const { root, depth, leafCount } = tree.summary()
  const frozen = {
    merkle_root: root,
    tree_depth: depth,
    leaf_count: leafCount,
    finalized_at: timeOf(seq),
    end_seq: seq,
  }
  return { kind: 'session_finalized', body: { session_id: 'A-0001', task_id: null, ...frozen } }
}

export function sampleEffects(): SampleEffect[][] {
  const project = { project: 'alpha', created_at: timeOf(0), created_by: 'owner' }
  const first = thought(3, 1, 1, 1, null)
  const start = update(5, 1, 'backlog', { status: 'todo', blocked_reason: null })
  const second = thought(6, 2, 1, 2, first)
  const third = thought(7, 3, 2, 1, null)
  const progress = update(9, 2, 'backlog', { progress: 50, labels: ['a', 'b'] })
  return [
    [{ kind: 'project_created', body: project }],
    [taskCreated(1, 1, {})],
    [taskCreated(2, 2, { parent_id: 'T-0001', depends_on: ['T-0001'], estimate_hours: 1.5 })],
    [first],
    [sessionStarted(4, 1, 'deep')],
    [start],
    [second],
    [third],
    [],
    [progress],
    [sessionFinalized(10, [start, second, third, progress])],
    [sessionStarted(11, 2, 'shallow')],
    [{ kind: 'key_created', body: { key_id: 'k1' } }],
  ]
}

export function sampleRecords(effects: readonly SampleEffect[][] = sampleEffects()): SampleRecord[] {
  return effects.map((list, seq) => ({
    v: 1,
    kind: 'call',
    call_id: `call_${seq}`,
    at: timeOf(seq),
    tenant: TENANT,
    principal: { actor: 'owner', kind: 'owner', role: 'admin', tier: 'operator' },
    transport: 'stdio',
    tool: 'any',
    input: `sha256:${sha256Hex(`in ${seq}`)}`,
    outcome: 'ok',
    duration_ms: 0.25,
    ...(list.length === 0 ? {} : { effects: list }),
  }))
}

export function buildTree(texts: readonly string[]): { head: TreeHead; nodes: Buffer[]; root: Buffer } {
  let head: TreeHead = emptyHead
  const nodes: Buffer[] = []
  for (const text of texts) {
    const appended = appendLeaf(head, leafHash(text))
    head = appended.head
    nodes.push(appended.nodes)
  }
  return { head, nodes, root: rootOf(head.size, head.peaks) }
}

/** The tables as they are after the unedited sample log, with the log rows of the given records. */
export function sampleDatabase(records: readonly SampleRecord[] = sampleRecords()): SampleDatabase {
  const texts = records.map((record) => canonicalJson(record))
  const { head, nodes, root } = buildTree(texts)
  const effects = sampleEffects()
  const bodies = effects.map((list) => list[0]?.body ?? {})
  const tasks = [1, 2].map((seq) => {
    const { created_at, created_by } = bodies[seq] as { created_at: string; created_by: string }
    return { ...bodies[seq], updated_at: created_at, updated_by: created_by } as Loose<FsckTaskRow>
  })
  Object.assign(tasks[0]!, { status: 'todo', updated_at: timeOf(5), updated_by: 'bea' })
  Object.assign(tasks[1]!, { progress: 50, labels: ['a', 'b'], updated_at: timeOf(9), updated_by: 'bea' })
  const { session_id: _id, task_id: finalized_task_id, ...frozen } = bodies[10] as Record<string, string>
  const unfrozen = { merkle_root: null, tree_depth: null, leaf_count: null, finalized_at: null, end_seq: null }
  return {
    head: {
      ...head,
      counters: { projects: 1, tasks: 2, thoughts: 3, sessions: 2 },
      trail: { to: 0, entries: 0, last: null },
    },
    log: records.map((record, seq) => {
      const trailEffect = record.effects?.find?.((effect) => effect?.subject !== undefined)
      const columns = { subject: trailEffect?.subject ?? null, recordHash: trailEffect?.hash ?? null }
      return { seq, atMs: Date.parse(record.at), record: texts[seq]!, nodes: nodes[seq]!, ...columns }
    }),
    projects: [{ ...(bodies[0] as FsckProjectRow), task_count: 2 }],
    tasks,
    thoughts: [3, 6, 7].map((seq) => ({ ...(bodies[seq] as FsckThoughtRow), log_seq: seq, metadata: null })),
    sessions: [
      { ...bodies[4], ...frozen, finalized_task_id },
      { ...bodies[11], ...unfrozen },
    ] as Loose<FsckSessionRow>[],
    runs: [],
    runEvents: [],
    checkpoint: signCheckpoint({ origin: ORIGIN, size: head.size, root }, KEY.signerKey),
    anchor: 1,
    identity: { ...IDENTITY },
  }
}

export function sampleSource(database: SampleDatabase, tenant = TENANT): FsckSource {
  const rows = async function* <T>(list: readonly T[]): AsyncGenerator<T> {
    yield* list
  }
  return {
    tenants: () => rows([tenant]),
    head: async () => database.head,
    checkpoint: async () => database.checkpoint,
    anchor: async () => database.anchor,
    isAnchored: async () => database.anchor !== undefined,
    identity: async () => database.identity,
    logRows: () => rows(database.log),
    projects: () => rows(database.projects),
    tasks: () => rows(database.tasks),
    thoughts: () => rows(database.thoughts),
    sessions: () => rows(database.sessions),
    rules: () => rows([]),
    runs: () => rows(database.runs),
    runEvents: () => rows(database.runEvents),
  }
}

export type SampleExport = { header: string; records: string[]; checkpoint: string }

export function sampleExport(
  texts: readonly string[] = sampleRecords().map((record) => canonicalJson(record)),
): SampleExport {
  const { head, root } = buildTree(texts)
  const checkpoint = signCheckpoint({ origin: ORIGIN, size: head.size, root }, KEY.signerKey)
  const input = { origin: ORIGIN, tenant: TENANT, size: head.size, checkpoint, verifierKey: KEY.verifierKey }
  return { header: exportHeaderLine(input), records: texts.map(exportRecordLine), checkpoint }
}
