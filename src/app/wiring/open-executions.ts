import { AppError } from '../../contract/app-error.ts'
import type { Approvals } from '../../contract/approvals.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { ToolInvoker } from '../../contract/tool-invoker.ts'
import type { Models } from '../../domains/executions/model.ts'
import type { AgentDirectory, ExecutionDeps, SnapshotService, WorkspaceAccess } from '../../domains/executions/ports.ts'
import { createExecutionService, type ExecutionService } from '../../domains/executions/service.ts'
import type { HttpSender, SecretResolver } from '../../domains/runs/ports.ts'
import type { TrustKeeper } from '../../domains/trust/service.ts'
import type { WebClient } from '../../domains/web/ports.ts'
import { createEngine } from '../../engine/engine.ts'
import type { Engine, Run, RunEvent } from '../../engine/ports.ts'
import { redacting } from '../../engine/redacting.ts'
import { TIMER_MS_MAX } from '../../kernel/clock.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import { withTimeout } from '../../kernel/with-timeout.ts'
import { sqlLogStore } from '../../stores/sql/log-store.ts'
import { sqlRunStore } from '../../stores/sql/run-store.ts'
import { createHttpClient } from '../../web-client/http-client.ts'
import type { AppDeps } from '../build-app.ts'
import { redactedValuesOf } from '../redacted-values.ts'
import { unsetVariables } from '../unset-variables.ts'
import { once } from './once.ts'
import type { OwnerWatch } from './open-owner-watch.ts'
import type { OpenedPolicies } from './open-policies.ts'
import type { OpenedWorkspaces } from './open-workspaces.ts'

type OpenedExecutions = Readonly<{ engine: Engine; service: ExecutionService }>

/** The engine of this machine. Registered programs start when `begin` is called. */
export function openEngine(
  { config, clock, logger, random }: AppDeps,
  parts: Readonly<{
    database: Database
    workspaces: OpenedWorkspaces
    ownerWatch: OwnerWatch
    trust: Pick<TrustKeeper, 'inherit'>
  }>,
): Engine {
  const engine = createEngine({
    ...parts.workspaces.backendDeps,
    store: sqlRunStore,
    log: sqlLogStore,
    database: parts.database,
    clock,
    logger,
    newId: () => uuidOf(random.bytes(16)),
    concurrentMax: config.executions.max_concurrent,
    pendingMax: limits.pendingRunsMax,
    reconcileMs: limits.runReconcileMs,
    noteStarted: (tx, { kind, principal, subjectId, startedAtMs: nowMs }, caller, copiedFrom) =>
      parts.trust.inherit(tx, {
        principal,
        caller,
        nowMs,
        ...(kind === 'execution' && { agentId: subjectId, subject: `agent:${subjectId}` as const }),
        ...(kind === 'workflow' && { subject: `workflow:${subjectId}` as const }),
        ...(copiedFrom !== undefined && { copiedFrom }),
      }),
  })
  parts.ownerWatch.onRevoked((tenant, owner) => {
    engine
      .ownerRevoked(tenant, owner)
      .catch((error) => logger.warn('runs of a revoked key could not be cancelled', { cause: String(error) }))
  })
  return engine
}

/** Executions of agents on the engine. Their code is loaded with the first of them. */
export function openExecutions(
  deps: AppDeps,
  parts: Readonly<{
    engine: Engine
    database: Database
    agents: AgentDirectory
    models: Models
    invoker: ToolInvoker
    approvals: Approvals
    policies: OpenedPolicies
    workspaces: WorkspaceAccess
    imageOf: ExecutionDeps['imageOf']
    snapshots: SnapshotService
  }>,
): OpenedExecutions {
  const { config, clock } = deps
  const { engine, database, agents, models, invoker, policies, workspaces } = parts
  const redacted = redactedValuesOf(config)
  const loopWith = async (reach: Pick<ExecutionDeps, 'invoker' | 'models' | 'http'>) => {
    const { createExecutionProgram } = await import('../../domains/executions/program.ts')
    const made = createExecutionProgram({
      ...reach,
      engine,
      agents,
      approvals: parts.approvals,
      values: valuesOf(config),
      contexts: policies.contexts,
      imageOf: parts.imageOf,
      allowsInternet: config.workspaces.default_allow_internet,
      judging: config.judging,
      snapshots: config.executions.snapshots,
      read: database.read,
      clock,
    })
    return redacting(made, redacted)
  }
  const loop = once(() => loopWith({ invoker, models, http: senderFor(config) }))
  const idleLoop = once(() => loopWith(withoutEffects(invoker)))
  engine.register(
    'execution',
    async (run, steps) => (await loop()).program(run, steps),
    async (run, steps, status) => (await loop()).finalizer(run, steps, status),
  )
  const replayRun = async (run: Run, events: readonly RunEvent[]) => {
    const { replay } = await import('../../engine/replay.ts')
    return await replay(await idleLoop(), run, events)
  }
  return {
    engine,
    service: createExecutionService({
      engine,
      agents,
      clock,
      workspaces,
      snapshots: parts.snapshots,
      models,
      replay: replayRun,
    }),
  }
}

/** A replayed program has no effects: the record answers its steps. */
function withoutEffects(invoker: ToolInvoker): Pick<ExecutionDeps, 'invoker' | 'models' | 'http'> {
  const refuse = async (): Promise<never> => {
    throw new Error('a replay has no effects')
  }
  // The present aliases say nothing about an earlier run.
  const models = { aliases: () => [], requireAlias() {}, generate: refuse }
  return { invoker: { ...invoker, call: refuse }, models, http: { send: refuse } }
}

const ANSWER_BYTES_MAX = 1024 * 1024

/** Addresses of a manifest are untrusted: none of this machine's network unless configured. */
export const senderFor = ({ web }: AppDeps['config']): HttpSender =>
  senderOver(createHttpClient({ allowedNetworks: web.allow_private_addresses }))

const senderOver = (client: WebClient): HttpSender => ({
  async send({ url, method, headers, body, timeoutMs, signal }) {
    const target = URL.parse(url)
    if (target === null || !/^https?:$/.test(target.protocol)) {
      throw new AppError('ERR_INVALID_INPUT', 'url must be an http:// or https:// URL', { field: 'url' })
    }
    const answer = await client.send({
      url: target,
      method: method as 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
      bytesMax: ANSWER_BYTES_MAX,
      signal: withTimeout(signal, Math.max(1, Math.min(timeoutMs, TIMER_MS_MAX))),
      trusted: false,
    })
    return { status: answer.status, body: Buffer.from(answer.body).toString('utf8') }
  },
})

export function valuesOf(config: AppDeps['config']): SecretResolver {
  const { secrets, values } = config.executions
  const without = unsetVariables(config)
  const left = new Set(without.filter(({ field }) => field === 'executions.secrets').map(({ name }) => name))
  const secretValues = new Map(
    secrets
      .filter(({ name }) => !left.has(name))
      .map(({ name, value }) => [name, process.env[value.slice('env:'.length)]!]),
  )
  const plainValues = new Map(values.map(({ name, value }) => [name, value]))
  return { secret: (name) => secretValues.get(name), config: (name) => plainValues.get(name) }
}
