import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Json } from '../../kernel/canonical-json.ts'

export const thoughtTypes = ['reflection', 'decision', 'discovery', 'risk', 'blockers'] as const
export type ThoughtType = (typeof thoughtTypes)[number]

export type Thought = Readonly<{
  number: number
  taskNumber: number
  chainPosition: number
  /** The log entry that carries this thought. */
  logSeq: number
  type: ThoughtType
  content: string
  branch: string | null
  commitSha: string | null
  testsRun: readonly string[] | null
  blockers: readonly string[] | null
  metadata: Readonly<Record<string, Json>> | null
  hash: string
  previousHash: string | null
  recordedAtMs: number
  recordedBy: string
}>

export type AuditSession = Readonly<{
  number: number
  taskNumber: number
  auditorId: string
  reason: string | null
  scope: 'shallow' | 'deep'
  startedAtMs: number
  startedBy: string
  startSeq: number
  finalized: Readonly<{
    endSeq: number
    atMs: number
    onlyTaskNumber: number | null
    merkleRoot: string
    treeDepth: number
    leafCount: number
  }> | null
}>

export type ThoughtFilter = Readonly<{
  taskNumbers?: readonly number[]
  /** Only thoughts after this number: where the previous page ended. */
  afterNumber?: number
  fromSeq?: number
  toSeq?: number
  type?: ThoughtType
}>

/** Every method answers for one tenant only. Thoughts are never changed or removed. */
export type TrailStore = Readonly<{
  takeThoughtNumber(tx: WriteTx, tenant: TenantId): number
  /** The end of a task's chain; undefined before the first thought. */
  lastThought(
    tx: ReadTx,
    tenant: TenantId,
    taskNumber: number,
  ): Promise<{ hash: string; chainPosition: number } | undefined>
  insertThought(tx: WriteTx, tenant: TenantId, thought: Thought): Promise<void>
  /** In log order. */
  listThoughts(
    tx: ReadTx,
    tenant: TenantId,
    filter: ThoughtFilter,
    page: { limit: number; offset: number },
  ): Promise<Thought[]>
  countThoughts(tx: ReadTx, tenant: TenantId, filter: ThoughtFilter): Promise<number>
  thoughtNumbers(tx: ReadTx, tenant: TenantId, taskNumber: number, limit: number): Promise<number[]>

  takeSessionNumber(tx: WriteTx, tenant: TenantId): number
  insertSession(tx: WriteTx, tenant: TenantId, session: AuditSession): Promise<void>
  findSession(tx: ReadTx, tenant: TenantId, number: number): Promise<AuditSession | undefined>
  /** False if the session is already finalised: the first one wins. */
  finalizeSession(
    tx: WriteTx,
    tenant: TenantId,
    number: number,
    finalized: NonNullable<AuditSession['finalized']>,
  ): Promise<boolean>
}>
