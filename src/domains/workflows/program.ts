import { AppError } from '../../contract/app-error.ts'
import type { Finalizer, NewEvent, Program, ProgramEnd, Run, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { applyResult, contextOf, type Failure, type Move, type Position } from './interpreter.ts'
import type { WorkflowManifest } from './manifest.ts'
import type {
  AgentState,
  ContainerRunState,
  HumanState,
  ParallelAgentsState,
  ParallelContainerRunState,
  State,
  SubworkflowState,
  SystemState,
} from './manifest-schema.ts'
import { runAgent, runAgents } from './run-agents.ts'
import { runContainer, runContainers } from './run-container.ts'
import { runHuman } from './run-human.ts'
import { endNetwork } from './run-network.ts'
import type { Outcome, RunDeps, Visit } from './run-ports.ts'
import { type Exit, exitKey, openRun } from './run-record.ts'
import { requireSpace } from './run-storage.ts'
import { runSubworkflow } from './run-subworkflow.ts'
import { runSystem } from './run-system.ts'
import { endWorkspace } from './run-workspace.ts'
import { endCopies } from './workspace-copies.ts'

/** A workflow as a program of the engine: the interpreter decides, the states act, the journal records the results. */
export function createWorkflowProgram(deps: RunDeps): Readonly<{ program: Program; finalizer: Finalizer }> {
  return {
    async program(run, steps) {
      const { manifest, position: start } = openRun(run)
      let position = start
      for (;;) {
        steps.setPosition({ state: position.state, iteration: position.entered })
        const exit = await visitState({ deps, run, steps, manifest }, position)
        const move = applyResult(manifest, position, exit)
        if (move.kind === 'end') return endOfRun(move)
        position = move.position
      }
    },
    async finalizer(run, steps) {
      const { manifest } = openRun(run)
      await endNetwork(run, steps, deps)
      await endCopies(run, steps, deps, hasCopies(manifest))
      await endWorkspace(run, steps, deps, manifest)
    },
  }
}

const hasCopies = ({ states }: WorkflowManifest): boolean =>
  [...states.values()].some(({ kind }) => kind.startsWith('Parallel') || kind === 'ContainerRun')

type CallContext = Readonly<{ deps: RunDeps; run: Run; steps: Steps; manifest: WorkflowManifest }>

/** One visit to a state, recorded when it is over. A recorded visit is not repeated. */
async function visitState(context: CallContext, position: Position): Promise<Exit> {
  const { steps, manifest } = context
  const state = manifest.states.get(position.state)!
  const key = exitKey(position.entered)
  const entered: NewEvent = {
    type: 'workflow_state_entered',
    payload: {
      state: position.state,
      kind: state.kind,
      visit: position.visits.get(position.state) ?? 1,
      feedback: position.feedback,
    },
  }
  steps.note(entered)
  const outcome = steps.recorded(key) === undefined ? await runState(visitOf(context, position, state)) : undefined
  return await steps.once<Exit & Json>(
    key,
    async () => ({
      result: {
        state: position.state,
        kind: state.kind,
        result: outcome?.result ?? {},
        writes: outcome?.writes ?? {},
      },
      events: outcome?.events ?? [],
    }),
    { type: 'workflow_state_exited' },
  )
}

const visitOf = (context: CallContext, position: Position, state: State): Visit => ({
  ...context,
  position,
  state,
  context: contextOf(context.manifest, position),
  key: (name) => `${position.entered}/${name}`,
})

async function runState(visit: Visit): Promise<Outcome> {
  const outcome = await tryState(visit)
  await requireSpace(visit)
  return outcome
}

async function tryState(visit: Visit): Promise<Outcome> {
  try {
    return await runKind(visit)
  } catch (error) {
    // A template that cannot be rendered fails its state.
    if (!(error instanceof AppError) || error.code === 'ERR_CANCELLED') throw error
    return { result: { status: 'failed', error: error.message, error_code: error.code } }
  }
}

function runKind(visit: Visit): Promise<Outcome> {
  switch (visit.state.kind) {
    case 'System':
      return runSystem(visit as Visit<SystemState>)
    case 'Human':
      return runHuman(visit as Visit<HumanState>)
    case 'ContainerRun':
      return runContainer(visit as Visit<ContainerRunState>)
    case 'ParallelContainerRun':
      return runContainers(visit as Visit<ParallelContainerRunState>)
    case 'Agent':
      return runAgent(visit as Visit<AgentState>)
    case 'ParallelAgents':
      return runAgents(visit as Visit<ParallelAgentsState>)
    case 'Subworkflow':
      return runSubworkflow(visit as Visit<SubworkflowState>)
  }
}

function endOfRun({ output, failure, violations }: Extract<Move, { kind: 'end' }>): ProgramEnd {
  if (failure !== undefined) return { status: 'failed', output: null, error: errorOf(failure) }
  const told = violations.length === 0 ? {} : { output_violations: violations.slice(0, 20) }
  return { status: 'completed', output, event: { type: 'workflow_execution_completed', payload: told } }
}

const errorOf = ({ message, violation, details }: Failure) => ({
  code: 'ERR_WORKFLOW_FAILED' as const,
  message,
  details: { violation, ...details },
})
