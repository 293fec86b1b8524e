import type { Database } from '../../contract/database.ts'
import type { InteractionSink } from '../../contract/interaction.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { InteractionStore, NewInteraction, StoredBodies, StoredInteraction } from './ports.ts'
import { type BodySetting, interactionId, retainedBodies } from './rules.ts'

export type RecorderDeps = Readonly<{
  store: Pick<InteractionStore, 'insertInteractions'>
  database: Pick<Database, 'writeSoon' | 'flush'>
  logger: Logger
  bodies: BodySetting
  /** Takes what a tenant must not see out of a text. */
  redact(tenant: TenantId, text: string): string
  /** Eight digits and small letters, which tell this process from others. */
  bootId: string
  /** Told of each one, once, as it is taken. */
  noteTaken?(interaction: StoredInteraction): void
}>

export type InteractionRecorder = InteractionSink &
  Readonly<{
    /** Resolves when everything that was taken is on disk, or is known to be lost. */
    settled(): Promise<void>
  }>

/**
 * Requests to models, as they end. Nobody waits for one to be written: those of a tenant that follow each other are gathered and
 * written in one transaction, as the records of calls that only read are. When too many wait, the next request does too.
 */
export function createInteractionRecorder(deps: RecorderDeps): InteractionRecorder {
  const { store, database, logger } = deps
  const open = new Map<TenantId, NewInteraction[]>()
  let count = 0
  let pendingCount = 0
  let pendingChars = 0
  let waiting: Promise<void> | undefined

  function gather(tenant: TenantId, first: NewInteraction): void | Promise<void> {
    const added = [first]
    open.set(tenant, added)
    return database.writeSoon(
      tenant,
      (tx) => store.insertInteractions(tx, tenant, added),
      () => {
        pendingCount -= added.length
        pendingChars -= added.reduce((sum, { bodies }) => sum + charsOf(bodies), 0)
        if (open.get(tenant) === added) open.delete(tenant)
      },
    )
  }

  function put(tenant: TenantId, made: NewInteraction): void | Promise<void> {
    const added = open.get(tenant)
    pendingCount++
    pendingChars += charsOf(made.bodies)
    const hasSpace = (): boolean =>
      pendingCount < limits.readRecordsPendingMax && pendingChars < limits.interactionBodiesPendingMax
    if (added === undefined) {
      const waits = gather(tenant, made)
      return hasSpace() ? waits : database.flush()
    }
    const isFull = added.push(made) >= limits.readRecordsBatchMax
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
      const retained = retainedBodies(bodies, deps.bodies, (text) => deps.redact(tenant, text))
      const space = put(tenant, { interaction: stored, bodies: retained })
      if (space === undefined) return
      const settled: Promise<void> = space
        .catch((error: unknown) => logger.error('a request to a model is not recorded', { cause: String(error) }))
        .then(() => {
          if (waiting === settled) waiting = undefined
        })
      waiting = settled
    },
    settled: () => database.flush(),
  }
}

const charsOf = (bodies: StoredBodies | undefined): number =>
  (bodies?.request?.length ?? 0) + (bodies?.answer?.length ?? 0)
