import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { SYSTEM_TENANT, type TenantId } from '../../contract/principal.ts'
import type { InteractionExporter } from '../../domains/interactions/ports.ts'
import { createPruning } from '../../domains/interactions/pruning.ts'
import { createInteractionRecorder, type InteractionRecorder } from '../../domains/interactions/recorder.ts'
import { createInteractionService, type InteractionService } from '../../domains/interactions/service.ts'
import type { ProfileService } from '../../domains/profiles/service.ts'
import { sqlInteractionStore } from '../../stores/sql/interaction-store.ts'
import { sqlProfileStore } from '../../stores/sql/profile-store.ts'
import { createOtlpExporter } from '../../telemetry/otlp-exporter.ts'
import type { AppDeps } from '../build-app.ts'
import { otlpHeadersOf } from '../config-interactions.ts'
import { redactedValuesOf } from '../redacted-values.ts'

export type OpenedInteractions = Readonly<{ recorder: InteractionRecorder; close(): Promise<void> }>

const DAY_MS = 86_400_000

/** Where every request to a model is noted, and old notes are removed. */
export function openInteractions(deps: AppDeps, database: Database): OpenedInteractions {
  const { config, clock, random, logger } = deps
  const exporter = exporterOf(deps)
  const { bodies, retention_days, body_retention_days } = config.interactions
  const redactorFor = redactedValuesOf(config)
  const recorder = createInteractionRecorder({
    store: sqlInteractionStore,
    database,
    logger,
    bodies,
    redact: (tenant: TenantId, text) => redactorFor({ tenant })?.text(text) ?? text,
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
    async close() {
      clearInterval(timer)
      await running
      await recorder.settled()
      await exporter?.close()
    },
  }
}

/** To the collector that the operator named, if there is one. */
function exporterOf({ config, version, logger }: AppDeps): InteractionExporter | undefined {
  const { endpoint, headers } = config.interactions.otlp
  if (endpoint === undefined) return undefined
  const sent = () => (headers === undefined ? {} : otlpHeadersOf(headers.reveal())!)
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
        // Everybody sees the agents that come with the program.
        const ours = kind === 'agent' ? await sqlProfileStore.findProfile(read, SYSTEM_TENANT, reference) : undefined
        return ours?.kind === 'agent' ? ours.id : undefined
      },
    },
  })
