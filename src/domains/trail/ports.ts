import type { TenantId } from '../../contract/principal.ts'
import type { ReadUnit, WriteUnit } from '../../contract/unit.ts'
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
  /** Only thoughts numbered higher: where the page before ended. */
  afterNumber?: number
  fromSeq?: number
  toSeq?: number
  type?: ThoughtType
}>

/** Every method answers for one tenant only. Thoughts are never changed or removed. */
export type TrailStore = Readonly<{
  takeThoughtNumber(unit: WriteUnit, tenant: TenantId): number
  /** The end of a task's chain; undefined before the first thought. */
  lastThought(
    unit: ReadUnit,
    tenant: TenantId,
    taskNumber: number,
  ): Promise<{ hash: string; chainPosition: number } | undefined>
  insertThought(unit: WriteUnit, tenant: TenantId, thought: Thought): Promise<void>
  /** In log order. */
  listThoughts(
    unit: ReadUnit,
    tenant: TenantId,
    filter: ThoughtFilter,
    page: { limit: number; offset: number },
  ): Promise<Thought[]>
  countThoughts(unit: ReadUnit, tenant: TenantId, filter: ThoughtFilter): Promise<number>
  thoughtNumbers(unit: ReadUnit, tenant: TenantId, taskNumber: number, limit: number): Promise<number[]>

  takeSessionNumber(unit: WriteUnit, tenant: TenantId): number
  insertSession(unit: WriteUnit, tenant: TenantId, session: AuditSession): Promise<void>
  findSession(unit: ReadUnit, tenant: TenantId, number: number): Promise<AuditSession | undefined>
  /** False when the session is already finalised: the first one wins. */
  finalizeSession(
    unit: WriteUnit,
    tenant: TenantId,
    number: number,
    finalized: NonNullable<AuditSession['finalized']>,
  ): Promise<boolean>
}>
