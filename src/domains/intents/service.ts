import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { IntentLanguage } from '../../contract/intent-languages.ts'
import { requireOwnTenant } from '../../contract/own-tenant.ts'
import { administers } from '../../contract/permissions.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { type Engine, isEnded, type Run } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { inherited } from '../executions/agent-principal.ts'
import type { Models } from '../executions/model.ts'
import type { ExecutionService } from '../executions/service.ts'
import { nextSpawnDepth } from '../runs/spawn-depth.ts'
import { authorOf, shippedAgent, type TemplateSource } from './authors.ts'
import { languageRules } from './languages.ts'
import { type IntentInput, type IntentOutput, intentPipeline } from './ports.ts'

type IntentServiceDeps = Readonly<{
  engine: Engine
  executions: Pick<ExecutionService, 'ownerOf'>
  agents: TemplateSource
  models: Pick<Models, 'requireAlias'>
}>
export type IntentService = ReturnType<typeof createIntentService>

type IntentRequest = Readonly<{
  intent: string
  inputs?: Readonly<Record<string, unknown>> | undefined
  volume_id?: string | undefined
  language: IntentLanguage
  timeout_seconds?: number | undefined
  tenant_id?: string | undefined
}>

const TIMEOUT_SECS = 600
/** The inputs reach the program in one environment variable. */
const INPUTS_BYTES_MAX = 64 * 1024

/** Pipelines of intents, for their owner and for administrators of the tenant. */
export function createIntentService({ engine, executions, agents, models }: IntentServiceDeps) {
  async function start(call: Call, request: IntentRequest) {
    const { principal, nowMs } = call
    requireOwnTenant(principal, request.tenant_id)
    const inputs = (request.inputs ?? {}) as Readonly<Record<string, Json>>
    if (Buffer.byteLength(JSON.stringify(inputs)) > INPUTS_BYTES_MAX) throw tooLong()
    await authorOf({ agents, models }, 'agent')
    await shippedAgent({ agents, models }, languageRules[request.language].executor)
    const input: IntentInput = {
      intent: request.intent,
      inputs,
      language: request.language,
      timeoutSecs: request.timeout_seconds ?? TIMEOUT_SECS,
      volumeId: request.volume_id ?? null,
      generation: await nextSpawnDepth(engine, call.read, principal),
    }
    const { id, name, version } = intentPipeline
    const run = await engine.start(call, {
      kind: 'intent',
      subjectId: id,
      subjectName: name,
      subjectVersion: version,
      principal: pipelineOf(principal),
      owner: await executions.ownerOf(call.write as unknown as ReadTx, principal),
      input: input as unknown as Json,
      payload: { intent: input.intent, language: input.language, by: principal.actor, at_ms: nowMs },
    })
    call.record({ kind: 'intent_started', body: { run_id: run.id, owner: run.owner, language: input.language } })
    const path = `/v1/workflows/executions/${run.id}/logs/stream`
    return { pipeline_execution_id: run.id, status: 'started' as const, stream_url: `${call.origin ?? ''}${path}` }
  }

  async function find(call: Call, id: string): Promise<Run> {
    const { read, principal } = call
    const run = await engine.find(read, principal.tenant, id.toLowerCase())
    const isTheirs = administers(principal, 'execution') || run?.owner === (await executions.ownerOf(read, principal))
    if (run !== undefined && isTheirs && run.kind === 'intent') {
      call.readsFrom?.(`execution:${run.rootId}`)
      return run
    }
    throw new AppError(
      'ERR_EXECUTION_NOT_FOUND',
      'pipeline_execution_id: you have no such pipeline; aegis.execute.intent returns the id of the one that it starts',
      { field: 'pipeline_execution_id' },
    )
  }

  return {
    start,
    async status(call: Call, input: Readonly<{ pipeline_execution_id: string; tenant_id?: string | undefined }>) {
      requireOwnTenant(call.principal, input.tenant_id)
      const run = await find(call, input.pipeline_execution_id)
      if (!isEnded(run)) return { status: 'running' as const }
      if (run.status === 'completed') {
        const { final_result, reused_existing_agent } = run.output as unknown as IntentOutput
        const duration_ms = run.endedAtMs! - run.startedAtMs
        return { status: 'completed' as const, final_result: final_result ?? '', duration_ms, reused_existing_agent }
      }
      const status = run.status === 'cancelled' ? ('cancelled' as const) : ('failed' as const)
      const reason = run.error?.message ?? 'it was cancelled'
      return { status, reason, failed_at_state: failedAt(run) }
    },
  }
}

const failedAt = ({ output, state }: Run): string | null =>
  (output as unknown as IntentOutput | null)?.failed_at_state ?? state

/** Without the fields of one execution. The caller's restrictions apply to the agents of its pipeline. */
function pipelineOf(principal: Principal): Principal {
  const { securityContexts: _, workspaceId: __, executionId: ___, ...rest } = principal
  const contexts = inherited(principal)
  return { ...rest, ...(contexts.length > 0 && { securityContexts: contexts }) }
}

const tooLong = (): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `inputs: must have at most ${INPUTS_BYTES_MAX} bytes as JSON; put larger data into a workspace and pass it as volume_id`,
    { field: 'inputs' },
  )
