import { AppError } from '../../contract/app-error.ts'
import type { Finalizer, Program, ProgramEnd, Run, RunError, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { recordedWorkspace } from '../executions/workspace.ts'
import { createCoding } from './coding.ts'
import { createFinding } from './finding.ts'
import type { IntentBoard, IntentDeps, IntentInput, IntentOutput, IntentState } from './ports.ts'
import { createVisitCounter, type Move } from './visit-counter.ts'
import { createWorkbench } from './workbench.ts'

/**
 * Turns a request into a result: finds or generates an agent, which writes a program; checks and runs the program; and formats
 * its output. Errors of the program go back to the agent, a few times.
 */
export function createIntentProgram(deps: IntentDeps): Readonly<{ program: Program; finalizer: Finalizer }> {
  return {
    program: (run, steps) => runPipeline(deps, run, run.input as unknown as IntentInput, steps),
    async finalizer(run, steps) {
      const made = recordedWorkspace(steps)
      if (made === undefined) return
      const bench = createWorkbench(deps, run, run.input as unknown as IntentInput, steps)
      await steps.once(
        'workspace-ended',
        async () => {
          await bench.leave(made, steps.signal)
          return { result: { workspace_id: made.workspace_id } }
        },
        { type: 'instance_terminated' },
      )
    },
  }
}

export type CallContext = Readonly<{
  deps: IntentDeps
  run: Run
  input: IntentInput
  steps: Steps
  board: IntentBoard
}>
export type StateHandlers = Readonly<Record<IntentState, (visit: number) => Promise<Move>>>

const emptyBoard = (): IntentBoard => ({
  agent: null,
  reused_existing_agent: false,
  workspace_id: null,
  code: null,
  exit_code: null,
  stdout: null,
  stderr: null,
  feedback: null,
  transitions: 0,
})

async function runPipeline(deps: IntentDeps, run: Run, input: IntentInput, steps: Steps): Promise<ProgramEnd> {
  const board = emptyBoard()
  const context: CallContext = { deps, run, input, steps, board }
  const finding = createFinding(context)
  const handlers: StateHandlers = { ...finding.handlers, ...createCoding(context, finding.agent) }
  const visits = createVisitCounter()
  let state: IntentState = 'agent_discovery'
  let before: IntentState = state
  for (;;) {
    const entered = visits.enter(state)
    // The state that sent the program back has failed.
    if ('refused' in entered) return failed(board, before, `${entered.refused}. The latest: ${board.feedback ?? ''}`)
    board.transitions = visits.transitions()
    steps.setPosition({ state })
    steps.note({ type: 'workflow_state_entered', payload: { state, visit: entered.visit } })
    const move = await decided(steps, handlers[state](entered.visit))
    if ('stop' in move) return failed(board, state, move.stop)
    if ('done' in move) return completed(board, move.done)
    board.feedback = move.reason ?? null
    steps.note({ type: 'workflow_state_exited', payload: { state, to: move.to, feedback: board.feedback } })
    before = state
    state = move.to
  }
}

/** If a state cannot do its work, the pipeline ends with the reason. */
async function decided(steps: Steps, deciding: Promise<Move>): Promise<Move> {
  try {
    return await deciding
  } catch (error) {
    if (!(error instanceof AppError) || steps.signal.aborted) throw error
    return { stop: `${error.code}: ${error.message}` }
  }
}

const outputOf = (board: IntentBoard, result: string | null, failedAt: IntentState | null): Json => {
  const output: IntentOutput = {
    final_result: result,
    reused_existing_agent: board.reused_existing_agent,
    failed_at_state: failedAt,
    blackboard: { ...board },
  }
  return output as unknown as Json
}

const completed = (board: IntentBoard, result: string): ProgramEnd => ({
  status: 'completed',
  output: outputOf(board, result, null),
})

function failed(board: IntentBoard, state: IntentState, reason: string): ProgramEnd {
  const error: RunError = { code: 'ERR_INTENT_FAILED', message: reason, details: { failed_at_state: state } }
  return { status: 'failed', output: outputOf(board, null, state), error }
}
