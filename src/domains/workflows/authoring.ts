import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { Principal } from '../../contract/principal.ts'
import type { WriteTx } from '../../contract/tx.ts'
import { type ChangingCall, type Engine, isEnded, type NewRun, type Run } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { Clock } from '../../kernel/clock.ts'
import { quoted } from '../manifests/findings.ts'
import { consensusOf, type WeighedVerdict } from '../runs/consensus.ts'
import type { SecretResolver } from '../runs/ports.ts'
import { readVerdict } from '../runs/verdicts.ts'
import { displayed, memberOf } from '../templating/template-values.ts'
import { findImage, type ImageCatalog, noImage, requireCredentials } from './container-images.ts'
import { checkWorkflowManifest, parseWorkflowManifest, type WorkflowManifest } from './manifest.ts'
import type { ContainerStep } from './manifest-schema.ts'
import type { WorkflowVersion } from './ports.ts'
import type { WorkflowRegistry } from './registry.ts'
import type { AgentRequest } from './run-ports.ts'
import { fieldOf } from './state-texts.ts'
import { suggestionOf } from './views.ts'

export type AuthoringDeps = Readonly<{
  registry: Pick<WorkflowRegistry, 'register' | 'update' | 'scheduleOf' | 'versionsFor'>
  engine: Pick<Engine, 'start' | 'waitForEnd'>
  clock: Clock
  agents: Readonly<{
    prepare(principal: Principal, request: AgentRequest): Promise<NewRun>
    exists(principal: Principal, agent: string): Promise<boolean>
  }>
  images: ImageCatalog
  values: SecretResolver
  /** Judges of the platform for every workflow. Its author cannot change them or their questions. */
  judgesAlways: readonly string[]
}>

type CreateInput = Readonly<{
  manifest_yaml: string
  force: boolean
  task_context?: string | undefined
  judge_agents?: readonly string[] | undefined
  min_score?: number | undefined
  min_confidence?: number | undefined
}>

const SCORE_MIN = 0.8
const CONFIDENCE_MIN = 0.7
const JUDGE_MS = 90_000

/** Registers workflows from text. Rules are always checked; judges are asked if the caller names them. */
export function createAuthoring({ registry, engine, clock, agents, images, values, judgesAlways }: AuthoringDeps) {
  /** Finds what `create` would refuse or warn of, except credentials and the opinion of judges. */
  async function validate(
    call: Pick<Call, 'principal' | 'read'>,
    { manifest_yaml: text }: Readonly<{ manifest_yaml: string }>,
  ) {
    const { errors, warnings } = checkWorkflowManifest(text)
    if (errors.length > 0) return { valid: false, errors, warnings }
    const { manifest } = parseWorkflowManifest(text)
    const unknown = await unknownJudges(call, judgesIn(manifest))
    const all = [...warnings, ...(await missingParts(call, manifest))]
    return { valid: unknown.length === 0, errors: unknown.length === 0 ? null : unknown, warnings: all }
  }

  async function create(call: Call, input: CreateInput) {
    const manifest = await read(call, input.manifest_yaml)
    const chosen = [...new Set(input.judge_agents ?? [])]
    if (judgesAlways.length + chosen.length === 0) call.warn(unjudged('Give judge_agents to have it judged.'))
    await requireChosen(call, chosen)
    await requireConfigured(call, input)
    if (chosen.length > 0) await requireApproval(call, chosen, input, input)
    return await deploy(call, manifest, (changing) =>
      registry.register(changing, input.manifest_yaml, manifest, input.force),
    )
  }

  async function update(
    call: Call,
    { manifest_yaml: text, force }: Readonly<{ manifest_yaml: string; force: boolean }>,
  ) {
    const manifest = await read(call, text)
    if (judgesAlways.length === 0)
      call.warn(unjudged('Use aegis.workflow.create with judge_agents and force to have it judged.'))
    await requireConfigured(call, { manifest_yaml: text, force })
    return await deploy(call, manifest, (changing) => registry.update(changing, text, manifest, force))
  }

  const deploy = (call: Call, manifest: WorkflowManifest, work: (changing: ChangingCall) => Promise<WorkflowVersion>) =>
    call.transact(async (tx) => {
      const retained = await work(within(call, tx))
      await call.writesTo?.(`workflow:${retained.id}`, tx)
      const schedule = await registry.scheduleOf(tx, retained)
      const answer = { workflow_id: retained.id, deployed: true, name: retained.name, version: retained.version }
      const suggested = suggestionOf(manifest)
      return {
        ...answer,
        ...(schedule !== null && { schedule }),
        ...(suggested !== null && { suggested_schedule: suggested }),
      }
    })

  async function read(call: Call, text: string): Promise<WorkflowManifest> {
    const { manifest, warnings } = parseWorkflowManifest(text)
    for (const warning of warnings) call.warn(warning)
    await requireJudges(call, judgesIn(manifest))
    const { principal } = call
    for (const [name, step] of stepsIn(manifest)) {
      requireCredentials({ values }, { tenant: principal.tenant, principal }, name, step)
    }
    for (const warning of await missingParts(call, manifest)) call.warn(warning)
    return manifest
  }

  /** What the text names and a run would not find. It may be deployed later. */
  async function missingParts(
    { principal, read }: Pick<Call, 'principal' | 'read'>,
    manifest: WorkflowManifest,
  ): Promise<readonly string[]> {
    const missing: string[] = []
    for (const agent of agentsIn(manifest)) {
      if (!(await agents.exists(principal, agent)))
        missing.push(`There is no agent ${quoted(agent)} yet; runs that reach it will fail.`)
    }
    for (const { field, image } of imagesIn(manifest)) {
      if (!(await isImageThere(image))) missing.push(`${field}: ${noImage(image)}. Runs fail there.`)
    }
    for (const workflow of workflowsIn(manifest)) {
      if ((await registry.versionsFor(read, principal, workflow)).length === 0)
        missing.push(`There is no workflow ${quoted(workflow)} yet; runs that reach it will fail.`)
    }
    return missing
  }

  /** Refuses a judge that does not exist before any model is called. */
  async function requireJudges(call: Call, judges: readonly NamedJudge[]): Promise<void> {
    const errors = await unknownJudges(call, judges)
    if (errors.length === 0) return
    throw new AppError('ERR_MANIFEST_INVALID', `manifest_yaml: ${errors[0]}`, { field: 'manifest_yaml', errors })
  }

  async function unknownJudges({ principal }: Pick<Call, 'principal'>, judges: readonly NamedJudge[]) {
    const errors: string[] = []
    for (const { field, agent } of judges) {
      if (await agents.exists(principal, agent)) continue
      errors.push(`${field}: there is no agent ${quoted(agent)} to judge; deploy it first (aegis.agent.create)`)
    }
    return errors
  }

  /** If no workspace can start, this is unknown, and the run will report it. */
  const isImageThere = (image: string): Promise<boolean> =>
    findImage(image, images).then(
      (found) => found !== undefined,
      (error: unknown) => {
        if (error instanceof AppError) return true
        throw error
      },
    )

  async function requireChosen(call: Call, chosen: readonly string[]): Promise<void> {
    for (const judge of chosen) {
      if (await agents.exists(call.principal, judge)) continue
      throw rejected(`judge_agents: there is no agent ${quoted(judge)}; deploy it first, or name another.`, { judge })
    }
  }

  async function requireConfigured(call: Call, input: CreateInput): Promise<void> {
    if (judgesAlways.length > 0) await requireApproval(call, judgesAlways, input, 'configured')
  }

  /** A missing model, a missing verdict and a bad verdict have the same result: the workflow is not registered. */
  async function requireApproval(
    call: Call,
    judges: readonly string[],
    input: CreateInput,
    bounds: Pick<CreateInput, 'min_score' | 'min_confidence'> | 'configured',
  ): Promise<void> {
    const isConfigured = bounds === 'configured'
    const verdicts = await Promise.all(judges.map((judge) => ask(call, judge, input, isConfigured)))
    const { score, confidence, reasoning } = consensusOf('weighted_average', verdicts)
    const { min_score: scoreMin = SCORE_MIN, min_confidence: confidenceMin = CONFIDENCE_MIN } = isConfigured
      ? {}
      : bounds
    if (score >= scoreMin && confidence >= confidenceMin) return
    throw rejected(
      `The judges gave the workflow a score of ${round(score)} with a confidence of ${round(confidence)}; at least ${scoreMin} and ${confidenceMin} are required.`,
      { score, confidence, reasoning },
    )
  }

  async function ask(call: Call, judge: string, input: CreateInput, isOfPlatform: boolean): Promise<WeighedVerdict> {
    const { principal } = call
    const request: AgentRequest = {
      agent: judge,
      isOfPlatform,
      input: {
        task: input.task_context ?? 'Judge this workflow before it is registered.',
        output: input.manifest_yaml,
        criteria:
          'The workflow does what its description says, each state has a way on for success and for failure, and nothing in it is unsafe.',
        validation_context: 'workflow_registration',
      },
      intent: null,
      workspaceId: null,
      isJudge: true,
      timeoutMs: JUDGE_MS,
    }
    const start = await agents.prepare(principal, request).catch((error: unknown) => {
      if (!(error instanceof AppError)) throw error
      throw rejected(`The judge ${quoted(judge)} cannot be called: ${error.message}`, { judge })
    })
    const run = await call.transact((tx) => engine.start({ write: tx, principal, nowMs: clock.nowMs() }, start))
    const ended = await engine.waitForEnd(principal.tenant, run.id, {
      untilMs: clock.nowMs() + JUDGE_MS,
      signal: call.signal,
    })
    return { ...verdictOf(judge, ended), judge, weight: 1 }
  }

  return { validate, create, update }
}

function verdictOf(judge: string, run: Run | undefined) {
  const isDone = run !== undefined && isEnded(run) && run.status === 'completed'
  const verdict = isDone ? readVerdict(displayed(memberOf(run.output, 'text') ?? run.output)) : undefined
  if (verdict !== undefined) return verdict
  const reason = isDone ? 'its answer is not a verdict' : (run?.error?.message ?? 'it did not answer in time')
  throw rejected(`The judge ${quoted(judge)} gave no verdict: ${reason}`, {
    judge,
    ...(run && { execution_id: run.id }),
  })
}

const unjudged = (advice: string): string =>
  `No judge reviewed this workflow; only the built-in rules checked it. ${advice}`

const rejected = (message: string, details: Readonly<Record<string, Json | undefined>>): AppError =>
  new AppError('ERR_WORKFLOW_REJECTED', `${message} The workflow was not registered.`, details)

/** The call with a write transaction of its own. */
const within = (call: Call, write: WriteTx): ChangingCall => ({
  principal: call.principal,
  nowMs: call.nowMs,
  record: (effect) => call.record(effect),
  write,
})

const round = (value: number): number => Math.round(value * 1000) / 1000

type NamedJudge = Readonly<{ field: string; agent: string }>

/** The judges that the text names, with their fields. */
function judgesIn({ states }: WorkflowManifest): readonly NamedJudge[] {
  const named = [...states].flatMap(([name, state]) => {
    if (state.kind !== 'Agent' && state.kind !== 'ParallelAgents') return []
    const [key, before] = state.kind === 'Agent' ? ['judges', state.toolCallJudge] : ['judges_for_parallel', null]
    const judges = state.judges.map(({ agent }, index) => ({
      field: fieldOf(name, `${key}[${index}].agent_id`),
      agent,
    }))
    return before === null ? judges : [...judges, { field: fieldOf(name, 'pre_execution_validator'), agent: before }]
  })
  return named.filter(({ agent }) => !agent.includes('{{'))
}

const stepsIn = ({ states }: WorkflowManifest): readonly (readonly [string, ContainerStep])[] =>
  [...states].flatMap(([name, state]) => {
    if (state.kind === 'ContainerRun') return [[name, state.step] as const]
    return state.kind === 'ParallelContainerRun' ? state.steps.map((step) => [name, step] as const) : []
  })

/** The images that the text names. Those that a template chooses are not known yet. */
function imagesIn({ states }: WorkflowManifest): readonly Readonly<{ field: string; image: string }>[] {
  const named = [...states].flatMap(([name, state]) => {
    const handler = 'outputHandler' in state && state.outputHandler?.type === 'container' ? state.outputHandler : null
    const own = handler === null ? [] : [{ field: fieldOf(name, 'output_handler.image'), image: handler.image }]
    if (state.kind === 'ContainerRun') return [{ field: fieldOf(name, 'image'), image: state.step.image }, ...own]
    if (state.kind !== 'ParallelContainerRun') return own
    return state.steps.map(({ image }, index) => ({ field: fieldOf(name, `steps[${index}].image`), image }))
  })
  return named.filter(({ image }) => !image.includes('{{'))
}

/** The agents that the text names. Those that a template chooses are not known yet. */
function agentsIn({ states }: WorkflowManifest): readonly string[] {
  const found = [...states.values()].flatMap((state) => {
    const handler =
      'outputHandler' in state && state.outputHandler?.type === 'agent' ? [state.outputHandler.agentId] : []
    if (state.kind === 'Agent') return [state.agent, ...handler]
    if (state.kind === 'ParallelAgents') return [...state.agents.map(({ agent }) => agent), ...handler]
    return handler
  })
  return [...new Set(found)].filter((agent) => !agent.includes('{{'))
}

/** The workflows that the text names, except itself, which will exist by then. */
function workflowsIn({ name, states }: WorkflowManifest): readonly string[] {
  const found = [...states.values()].flatMap((state) => (state.kind === 'Subworkflow' ? state.workflow : []))
  return [...new Set(found)].filter((workflow) => workflow !== name && !workflow.includes('{{'))
}
