import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { SYSTEM_TENANT } from '../../contract/principal.ts'
import type { InteractionExporter } from '../../domains/interactions/ports.ts'
import { createPruning } from '../../domains/interactions/pruning.ts'
import { createInteractionRecorder, type InteractionRecorder } from '../../domains/interactions/recorder.ts'
import { createInteractionService, type InteractionService } from '../../domains/interactions/service.ts'
import type { ProfileService } from '../../domains/profiles/service.ts'
import type { SecretService } from '../../domains/secrets/service.ts'
import { createRedactor, type Redactor } from '../../kernel/redactor.ts'
import { sqlInteractionStore } from '../../stores/sql/interaction-store.ts'
import { sqlProfileStore } from '../../stores/sql/profile-store.ts'
import { createOtlpExporter } from '../../telemetry/otlp-exporter.ts'
import type { AppDeps } from '../build-app.ts'
import { redactedValuesOf } from '../redacted-values.ts'

export type OpenedInteractions = Readonly<{
  recorder: InteractionRecorder
  /** Of the export to a collector, while it fails. */
  problem(): string | undefined
  close(): Promise<void>
}>

const DAY_MS = 86_400_000

/** Records every request to a model, and prunes old records. */
export function openInteractions(
  deps: AppDeps,
  database: Database,
  secrets: () => Promise<Pick<SecretService, 'valuesOf'>>,
): OpenedInteractions {
  const { config, clock, random, logger } = deps
  const exporter = exporterOf(deps)
  const { bodies, retention_days, body_retention_days } = config.interactions
  const redactorFor = redactedValuesOf(config)
  // A thousand secrets have ten thousand forms, and they are nearly always the same as in the last batch.
  const redactors = new WeakMap<readonly string[], Redactor | undefined>()
  const recorder = createInteractionRecorder({
    store: sqlInteractionStore,
    database,
    logger,
    bodies,
    async openRedaction() {
      await secrets()
    },
    async redaction(tx, tenant) {
      const { values, isWhole } = await (await secrets()).valuesOf(tx, tenant)
      if (!isWhole) logger.warn('an organisation has more secrets than are redacted in stored texts', { tenant })
      if (!redactors.has(values)) redactors.set(values, createRedactor(values))
      const stored = redactors.get(values)
      const configured = redactorFor({ tenant })
      return (text) => {
        const clean = configured?.text(text) ?? text
        return stored?.text(clean) ?? clean
      }
    },
    bootId: random.bytes(4).toString('hex'),
    ...(exporter !== undefined && { noteTaken: exporter.add }),
  })
  const pruning = createPruning({
    store: sqlInteractionStore,
    database,
    clock,
    logger,
    retentionMs: retention_days * DAY_MS,
    bodyRetentionMs: body_retention_days * DAY_MS,
  })
  let running: Promise<void> | undefined
  const prune = (): void => {
    running ??= pruning
      .run()
      .catch((error: unknown) => logger.warn('old interactions could not be removed', { cause: String(error) }))
      .finally(() => {
        running = undefined
      })
  }
  prune()
  const timer = setInterval(prune, limits.interactionPruneMs).unref()
  return {
    recorder,
    problem: () => exporter?.problem(),
    async close() {
      clearInterval(timer)
      await running
      await recorder.settled()
      await exporter?.close()
    },
  }
}

/** To the configured collector, if there is one. */
function exporterOf({ config, version, logger }: AppDeps): InteractionExporter | undefined {
  const { endpoint, headers = {} } = config.interactions.otlp
  if (endpoint === undefined) return undefined
  const sent = () => Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value.reveal()]))
  return createOtlpExporter({ endpoint, headers: sent, version, logger })
}

const profileKinds = { agent: ['agent', 'profile'], llm_proxy: ['llm_proxy', 'profile'] } as const

export const openInteractionService = (
  recorder: Pick<InteractionRecorder, 'settled'>,
  sharing: Pick<ProfileService, 'find'>,
): InteractionService =>
  createInteractionService({
    store: sqlInteractionStore,
    settled: recorder.settled,
    profiles: {
      async find(read, principal, kind, reference) {
        for (const one of profileKinds[kind]) {
          const found = await sharing.find(read, principal, one, reference)
          if (found !== undefined) return found.id
        }
        // Everybody sees the shipped agents.
        const ours = kind === 'agent' ? await sqlProfileStore.findProfile(read, SYSTEM_TENANT, reference) : undefined
        return ours?.kind === 'agent' ? ours.id : undefined
      },
    },
  })
