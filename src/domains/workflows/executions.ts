import { AppError } from '../../contract/app-error.ts'
import { APPROVAL_WAIT } from '../../contract/approvals.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { requireOwnTenant } from '../../contract/own-tenant.ts'
import { administers } from '../../contract/permissions.ts'
import { isAtConsole } from '../../contract/person.ts'
import { identityOf, type TenantId } from '../../contract/principal.ts'
import type { Trust } from '../../contract/trust.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { type Engine, isEnded, type Run, type RunEvent, type StartingCall } from '../../engine/ports.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import type { Clock } from '../../kernel/clock.ts'
import { quoted } from '../manifests/findings.ts'
import { nextSpawnDepth } from '../runs/spawn-depth.ts'
import { memberOf } from '../templating/template-values.ts'
import { understoodAnswer } from './answers.ts'
import { newWorkflowRun, type RunRequest } from './new-run.ts'
import { questionText, waitingFor } from './questions.ts'
import type { WorkflowRegistry } from './registry.ts'
import { parsedJson } from './render-output.ts'
import { readSignal } from './run-human.ts'
import { type Exit, openRun } from './run-record.ts'
import { bounded, eventView, listView, replayRun, statusView } from './views.ts'

export type ExecutionDeps = Readonly<{
  engine: Engine
  registry: Pick<WorkflowRegistry, 'resolve' | 'versionsFor'>
  clock: Clock
  trust: Pick<Trust, 'hasReadUntrusted'>
  /** Whether a person may not answer for a run of their own. */
  fourEyes: boolean
  /** The user of an identity: that user, or the one who created the key. */
  userBehind(read: ReadTx, tenant: TenantId, identity: string): Promise<string | undefined>
}>
type Reference = Readonly<{ execution_id: string; tenant_id?: string | undefined }>

const EXIT_KEY = /^\d+\/exit$/

/** Runs of workflows, visible to their owner and to the admins of the tenant. */
export function createExecutions({ engine, registry, clock, trust, fourEyes, userBehind }: ExecutionDeps) {
  async function find(call: Call, { execution_id: id, tenant_id: tenant }: Reference): Promise<Run> {
    const { principal } = call
    requireOwnTenant(principal, tenant)
    const run = await engine.find(call.read, principal.tenant, id.toLowerCase())
    const isVisible = administers(principal, 'execution') || run?.owner === (await ownerFor(call))
    if (run !== undefined && isVisible && isDisplayed(run)) {
      call.readsFrom?.(`execution:${run.rootId}`)
      return run
    }
    throw new AppError(
      'ERR_EXECUTION_NOT_FOUND',
      `execution_id: there is no execution ${quoted(id)}; use aegis.workflow.executions.list to find it.`,
      { field: 'execution_id' },
    )
  }

  /** A run that an agent starts belongs to the owner of the agent's execution. */
  async function ownerFor({ read, principal }: Pick<Call, 'read' | 'principal'>): Promise<string> {
    if (principal.executionId === undefined) return identityOf(principal)
    return (await engine.find(read, principal.tenant, principal.executionId))?.owner ?? identityOf(principal)
  }

  async function exitsOf(call: Call, run: Run): Promise<readonly Exit[]> {
    const exits: Exit[] = []
    for (let offset = 0; ; ) {
      const { events, total } = await engine.events(call.read, run, { limit: limits.runEventsPageMax, offset })
      exits.push(...events.filter(isExit).map(({ payload }) => payload as unknown as Exit))
      offset += events.length
      if (events.length === 0 || offset >= total) return exits
    }
  }

  /** The results of its states. For a run that is not a workflow, its output. */
  const resultsOf = async (
    call: Call,
    run: Run,
  ): Promise<Readonly<{ blackboard: JsonObject; stateOutputs: JsonObject }>> =>
    run.kind === 'workflow' ? replayed(call, run) : { blackboard: otherBlackboard(run), stateOutputs: {} }
  const replayed = async (call: Call, run: Run) => replayRun(run, await exitsOf(call, run))

  async function run(
    call: Call,
    input: Readonly<{
      name: string
      intent?: string | undefined
      input?: Readonly<Record<string, unknown>> | undefined
      blackboard?: Readonly<Record<string, unknown>> | undefined
      version?: string | undefined
      tenant_id?: string | undefined
    }>,
  ) {
    requireOwnTenant(call.principal, input.tenant_id)
    const found = await registry.resolve(call.read, call.principal, input.name, input.version)
    const start = newWorkflowRun(found, {
      intent: input.intent ?? null,
      input: (input.input ?? {}) as JsonObject,
      overrides: (input.blackboard ?? {}) as JsonObject,
      spawnDepth: await nextSpawnDepth(engine, call.read, call.principal),
    })
    const started = await engine.start(call, { ...start, owner: await ownerFor(call) })
    return { execution_id: started.id, status: 'started' as const }
  }

  /** Starts the latest version on behalf of another identity. */
  async function begin(
    call: StartingCall,
    reference: string,
    request: Pick<RunRequest, 'intent' | 'input'>,
    origin: Readonly<{ owner: string; payload: Readonly<Record<string, Json>> }>,
  ): Promise<Run> {
    const found = await registry.resolve(call.write, call.principal, reference)
    const start = newWorkflowRun(found, { ...request, overrides: {}, spawnDepth: 0 })
    const payload = { ...(start.payload as JsonObject), ...origin.payload } as Json
    return await engine.start(call, { ...start, owner: origin.owner, payload })
  }

  async function wait(
    call: Call,
    input: Reference & Readonly<{ poll_interval_seconds: number; timeout_seconds: number }>,
  ) {
    const { id, tenant } = await find(call, input)
    const requestedMs = input.timeout_seconds * 1000
    const untilMs = clock.nowMs() + Math.min(requestedMs, limits.runWaitMsMax)
    let progress = 0
    let seen = -1
    const ended = await engine.waitForEnd(tenant, id, {
      untilMs,
      signal: call.signal,
      everyMs: input.poll_interval_seconds * 1000,
      onProgress: async (run) => {
        // A question of a child workflow changes nothing in this run. While this run makes progress, there is none.
        const mayAsk = run.waitingFor !== null || run.lastSequence === seen
        const question = mayAsk ? await waitOf(call, run) : null
        seen = run.lastSequence
        // The protocol requires an increasing number, even if nothing has changed.
        progress = Math.max(run.lastSequence, progress + 1)
        const message = question === null ? `in state ${run.state ?? 'none yet'}` : questionText(question)
        call.progress({ progress, message })
      },
    })
    if (call.signal.aborted) throw new AppError('ERR_CANCELLED', 'The wait was cancelled; the execution continues.')
    const run = ended ?? (await find(call, input))
    if (!isEnded(run)) {
      const waiting_for = await waitOf(call, run)
      const what = waiting_for === null ? 'It still runs.' : 'It is waiting for a person to answer; see waiting_for.'
      const message = `${what} Call again to keep waiting; one call waits ${limits.runWaitMsMax / 1000} s at most.`
      const access = { execution_id: run.id, status: run.status, current_state: run.state }
      return { ...access, waiting_for, timed_out: true, message }
    }
    const { blackboard } = await resultsOf(call, run)
    return { ...statusView(run), blackboard: bounded(blackboard), output: outputOf(run), error: run.error }
  }

  async function get(call: Call, input: Reference) {
    const found = await find(call, input)
    const { blackboard, stateOutputs } = await resultsOf(call, found)
    return {
      ...listView(found),
      waiting_for: await waitOf(call, found),
      input: bounded(inputOf(found)),
      blackboard: bounded(blackboard),
      state_outputs: bounded(stateOutputs),
      output: outputOf(found),
      error: found.error,
    }
  }

  async function list(
    call: Call,
    input: Readonly<{
      limit: number
      offset: number
      workflow_id?: string | undefined
      tenant_id?: string | undefined
    }>,
  ) {
    const { principal, read } = call
    requireOwnTenant(principal, input.tenant_id)
    const page = { limit: input.limit, offset: input.offset }
    const subject = input.workflow_id === undefined ? undefined : await subjectOf(call, input.workflow_id)
    if (input.workflow_id !== undefined && subject === undefined) return { executions: [], total: 0, ...page }
    const filter = {
      kind: 'workflow' as const,
      ...(!administers(principal, 'execution') && { owner: await ownerFor(call) }),
      ...(subject !== undefined && { subjectId: subject }),
    }
    const executions = []
    for (const one of await engine.list(read, principal.tenant, { ...filter, ...page })) {
      const waiting_for = await waitOf(call, one)
      // Without a question the row holds nothing that the run wrote.
      if (waiting_for !== null) call.readsFrom?.(`execution:${one.rootId}`)
      executions.push({ ...listView(one), waiting_for })
    }
    return { executions, total: await engine.count(read, principal.tenant, filter), ...page }
  }

  /** Runs outlive their workflow, so an unknown id is used as it is. */
  async function subjectOf(call: Call, reference: string): Promise<string | undefined> {
    if (/^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(reference)) return reference.toLowerCase()
    return (await registry.versionsFor(call.read, call.principal, reference))[0]?.id
  }

  async function logs(call: Call, input: Reference & Readonly<{ limit: number; offset: number }>) {
    const found = await find(call, input)
    const { events, total } = await engine.events(call.read, found, { limit: input.limit, offset: input.offset })
    return {
      tool: 'aegis.workflow.logs' as const,
      execution_id: found.id,
      status: found.status,
      events: events.map(eventView),
      total,
      limit: input.limit,
      offset: input.offset,
    }
  }

  async function cancel(call: Call, input: Reference) {
    const { id } = await find(call, input)
    const cancelled = await engine.cancel(call, id)
    const error = cancelled ? {} : { error: 'execution already in terminal state' }
    return { tool: 'aegis.workflow.cancel' as const, cancelled, execution_id: id, ...error }
  }

  /**
   * Accepts plain text, or the JSON of `{response, feedback}`. An answer that matches no transition is refused, and the run keeps
   * waiting.
   */
  async function signal(call: Call, input: Reference & Readonly<{ response: string }>) {
    requireNoRun(call)
    const run = await find(call, input)
    await requireMayAnswer(call, run)
    const { id } = run
    const parsed = input.response.trimStart().startsWith('{') ? parsedJson(input.response) : undefined
    const isPair = typeof parsed === 'object' && parsed !== null && 'response' in parsed
    const payload = isPair ? (parsed as JsonObject) : { response: input.response }
    const { waitingFor: key } = run
    if (key?.startsWith(APPROVAL_WAIT)) throw waitsForApproval(key.slice(APPROVAL_WAIT.length))
    const understoodPayload = { ...payload, ...(await understood(call, run, payload)) } as Json
    const signalled = key !== null && (await engine.signal(call, id, understoodPayload, key))
    const error = signalled ? {} : { error: 'execution is not in a waiting state' }
    return { tool: 'aegis.workflow.signal' as const, signalled, execution_id: id, ...error }
  }

  /**
   * An API key may be used by a program, so a key must not answer what its own run asks a person. Nor may a person answer through
   * a program that has read untrusted data.
   */
  async function requireMayAnswer(call: Call, run: Run): Promise<void> {
    const { principal } = call
    const isOwn = run.owner === identityOf(principal)
    if (isOwn && principal.kind === 'key') throw notForYou('a key may not answer for a run of its own')
    if (fourEyes && (isOwn || (await isOfSameUser(call, run))))
      throw notForYou(
        'the run is yours, and approvals.four_eyes requires another person with the permission execution:admin',
      )
    if (!isAtConsole(call) && (await trust.hasReadUntrusted(principal)))
      throw notForYou('what calls here has read untrusted data')
  }

  /** Whether one user is behind the run and the caller, with keys or without. */
  async function isOfSameUser({ principal, read }: Call, { owner }: Run): Promise<boolean> {
    const [caller, startedBy] = [
      await userBehind(read, principal.tenant, identityOf(principal)),
      await userBehind(read, principal.tenant, owner),
    ]
    return caller !== undefined && caller === startedBy
  }

  async function understood(call: Call, run: Run, payload: JsonObject): Promise<JsonObject> {
    if (run.kind !== 'workflow' || run.waitingFor === null) return {}
    const { manifest, position } = await replayed(call, run)
    const supplied = { status: 'completed', ...readSignal(payload as Json), timeout: false }
    return { response: understoodAnswer(manifest, position, supplied) }
  }

  async function remove(call: Call, input: Reference) {
    const { id } = await find(call, input)
    const removed = await engine.remove(call, id)
    const error = removed ? {} : { error: 'execution is not in a terminal state' }
    return { tool: 'aegis.workflow.remove' as const, removed, execution_id: id, ...error }
  }

  const waitOf = ({ read }: Call, run: Run) => waitingFor(engine, read, run)

  async function status(call: Call, input: Reference) {
    const found = await find(call, input)
    return { ...statusView(found), waiting_for: await waitOf(call, found) }
  }

  return { run, begin, wait, get, list, logs, cancel, signal, remove, status }
}

const waitsForApproval = (id: string): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `execution_id: the run waits for the approval ${id} of a call; answer that with approval_answer.`,
    { field: 'execution_id', approval_id: id },
  )

const notForYou = (why: string): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    `execution_id: a person must answer a Human state; ${why}. Tell the person to answer with castellan call aegis.workflow.signal, signed in at the web address of the server, or with POST /v1/human-approvals/{id}/approve.`,
    { field: 'execution_id' },
  )

/** A Human state would be useless if the run that it holds up could answer it. */
function requireNoRun({ principal, transport }: Pick<Call, 'principal' | 'transport'>): void {
  const isOfRun = principal.executionId !== undefined || transport === 'agent' || transport === 'engine'
  if (principal.kind !== 'agent' && !isOfRun) return
  throw notForYou('agents and runs may not')
}

const isExit = ({ type, key }: RunEvent): boolean => type === 'workflow_state_exited' && EXIT_KEY.test(key ?? '')

/**
 * Runs that are not workflows, but are visible to the same tools: pipelines of intents, and the generation of a workflow, which
 * is an execution of the authoring agent.
 */
const isDisplayed = ({ kind, input }: Run): boolean =>
  kind === 'workflow' || kind === 'intent' || (kind === 'execution' && memberOf(input, 'publishes') === 'workflow')

function inputOf(run: Run): JsonObject {
  if (run.kind === 'workflow') return (openRun(run).input.start.input ?? {}) as JsonObject
  const intent = memberOf(run.input, 'intent') ?? null
  return run.kind === 'intent' ? { intent, inputs: memberOf(run.input, 'inputs') ?? {} } : { intent }
}

function otherBlackboard({ kind, output }: Run): JsonObject {
  if (kind === 'intent') return (memberOf(output, 'blackboard') ?? {}) as JsonObject
  const written = parsedJson(String(memberOf(output, 'text') ?? ''))
  return typeof written === 'object' && written !== null && !Array.isArray(written) ? (written as JsonObject) : {}
}

/** Without the part that is displayed as the blackboard. */
function outputOf({ kind, output }: Run): Json {
  if (kind !== 'intent' || typeof output !== 'object' || output === null) return output
  const { blackboard: _, ...rest } = output as JsonObject
  return rest
}
