import type { Database } from '../../contract/database.ts'
import type { InteractionBodies, InteractionSink } from '../../contract/interaction.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { WriteTx } from '../../contract/tx.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { InteractionStore, NewInteraction, StoredInteraction } from './ports.ts'
import { type BodySetting, interactionId, retainedBodies } from './rules.ts'

type RecorderDeps = Readonly<{
  store: Pick<InteractionStore, 'insertInteractions'>
  database: Pick<Database, 'writeSoon' | 'flush'>
  logger: Logger
  bodies: BodySetting
  /** Redacts what a tenant must not see; resolves when that is known, as of the transaction. */
  redaction(tx: WriteTx, tenant: TenantId): Promise<(text: string) => string>
  /** Resolves when `redaction` touches only the store. */
  openRedaction(): Promise<void>
  /** Eight digits and lower-case letters that identify this process. */
  bootId: string
  /** Called once for each accepted interaction. */
  noteTaken?(interaction: StoredInteraction): void
}>

export type InteractionRecorder = InteractionSink &
  Readonly<{
    /** Resolves when everything accepted is on disk, or known to be lost. */
    settled(): Promise<void>
  }>

/**
 * Requests to models, as they end. Nobody waits for the write: consecutive ones of a tenant are batched in one transaction, like
 * records of reads. If too many are pending, the next request waits.
 */
export function createInteractionRecorder(deps: RecorderDeps): InteractionRecorder {
  const { store, database, logger } = deps
  const open = new Map<TenantId, Unwritten[]>()
  let redaction: 'closed' | 'open' | Promise<void> = deps.bodies === 'redacted' ? 'closed' : 'open'
  let count = 0
  let pendingCount = 0
  let pendingBytes = 0
  let waiting: Promise<void> | undefined

  /** The current secrets count: one that was entered before the request is redacted. */
  async function finished(tx: WriteTx, tenant: TenantId, added: readonly Unwritten[]): Promise<NewInteraction[]> {
    const hasBodies = added.some(({ bodies }) => bytesOf(bodies) > 0)
    const redact = hasBodies && deps.bodies === 'redacted' ? await redactionOf(tx, tenant) : unchanged
    return added.map(({ interaction, bodies }) => ({
      interaction,
      bodies: redact === undefined ? undefined : retainedBodies(bodies, deps.bodies, redact),
    }))
  }

  /** Undefined if the secrets cannot be read: then the requests are recorded without their texts. */
  async function redactionOf(tx: WriteTx, tenant: TenantId): Promise<((text: string) => string) | undefined> {
    try {
      return await deps.redaction(tx, tenant)
    } catch (error) {
      logger.error('the texts of model requests are not stored, because the secrets cannot be read', {
        cause: String(error),
      })
      return undefined
    }
  }

  /** If it fails, the waiting requests are recorded anyway, and the next request tries again. */
  async function openRedaction(): Promise<void> {
    try {
      await deps.openRedaction()
      redaction = 'open'
    } catch {
      redaction = 'closed'
    }
  }

  function gather(tenant: TenantId, first: Unwritten): void | Promise<void> {
    const added = [first]
    open.set(tenant, added)
    return database.writeSoon(
      tenant,
      async (tx) => await store.insertInteractions(tx, tenant, await finished(tx, tenant, added)),
      () => {
        pendingCount -= added.length
        pendingBytes -= added.reduce((sum, { bodies }) => sum + bytesOf(bodies), 0)
        if (open.get(tenant) === added) open.delete(tenant)
      },
    )
  }

  function put(tenant: TenantId, made: Unwritten): void | Promise<void> {
    const added = open.get(tenant)
    pendingCount++
    pendingBytes += bytesOf(made.bodies)
    const hasSpace = (): boolean =>
      pendingCount < limits.readRecordsPendingMax && pendingBytes < limits.interactionBodiesPendingMax
    if (added === undefined) {
      const waits = gather(tenant, made)
      return hasSpace() ? waits : database.flush()
    }
    const isFull = added.push(made) >= limits.readRecordsGatheredMax
    if (isFull) open.delete(tenant)
    if (!isFull && hasSpace()) return undefined
    const written = database.flush()
    return hasSpace() ? undefined : written
  }

  return {
    keepsBodies: deps.bodies !== 'none',
    space: () => waiting,
    add(interaction, bodies) {
      const { tenant } = interaction
      const stored = { ...interaction, id: interactionId(interaction.startedAtMs, deps.bootId, count++) }
      deps.noteTaken?.(stored)
      const unwritten = { interaction: stored, bodies: deps.bodies === 'none' ? NO_BODIES : beginningsOf(bodies) }
      if (redaction === 'closed') redaction = openRedaction()
      const space = redaction instanceof Promise ? redaction.then(() => put(tenant, unwritten)) : put(tenant, unwritten)
      if (space === undefined) return
      const settled: Promise<void> = space
        .catch((error: unknown) => logger.error('model request could not be recorded', { cause: String(error) }))
        .then(() => {
          if (waiting === settled) waiting = undefined
        })
      waiting = settled
    },
    async settled() {
      if (redaction instanceof Promise) await redaction
      await database.flush()
    },
  }
}

/** Bodies as they came, until they are written. */
type Unwritten = Readonly<{ interaction: StoredInteraction; bodies: InteractionBodies }>

const NO_BODIES: InteractionBodies = { request: undefined, answer: undefined }
const unchanged = (text: string): string => text
const bytesOf = ({ request, answer }: InteractionBodies): number => (request?.length ?? 0) + (answer?.length ?? 0)

/** A long body is copied, so that no more of it stays in memory. One byte more shows that it was cut. */
const beginningsOf = ({ request, answer }: InteractionBodies): InteractionBodies => ({
  request: beginningOf(request),
  answer: beginningOf(answer),
})
function beginningOf(body: Buffer | undefined): Buffer | undefined {
  const most = limits.interactionBodyReadMax + 1
  return body === undefined || body.length <= most ? body : Buffer.from(body.subarray(0, most))
}
