import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { NewRun } from '../../engine/ports.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import type { SubworkflowState } from './manifest-schema.ts'
import { newWorkflowRun } from './new-run.ts'
import { parsedJson } from './render-output.ts'
import { endOf, reasonOf, runChild } from './run-children.ts'
import type { Outcome, Visit, WorkflowInput } from './run-ports.ts'
import { failedBy } from './run-workspace.ts'
import { createStateTexts } from './state-texts.ts'

export async function runSubworkflow(visit: Visit<SubworkflowState>): Promise<Outcome> {
  try {
    return visit.state.mode === 'blocking' ? await runBlocking(visit) : await startDetached(visit)
  } catch (error) {
    return { result: { output: null, ...failedBy(error) } }
  }
}

async function runBlocking(visit: Visit<SubworkflowState>): Promise<Outcome> {
  const { state } = visit
  const end = await endOf(runChild(visit, 'workflow', () => prepare(visit), state.timeoutMs))
  if (end.status !== 'completed') {
    const error = reasonOf(end)
    return {
      result: { status: 'failed', output: null, execution_id: end.id, error, ...(end.timedOut && { timeout: true }) },
    }
  }
  return {
    result: { status: 'completed', output: end.output, execution_id: end.id },
    writes: state.resultKey === null ? {} : { [state.resultKey]: end.output },
  }
}

/** Starts an independent run that outlives this one, and does not wait for it. */
async function startDetached(visit: Visit<SubworkflowState>): Promise<Outcome> {
  const { steps, key, deps, run } = visit
  const { generation: spawnDepth } = run.input as unknown as WorkflowInput
  if (spawnDepth >= limits.spawnDepthMax) {
    throw new AppError(
      'ERR_DEPTH_EXCEEDED',
      `This run would exceed the limit of ${limits.spawnDepthMax} workflows that start each other without waiting. Start it from the first workflow, or wait for its result.`,
      { generations_max: limits.spawnDepthMax },
    )
  }
  const { id } = await steps.once<{ id: string } & Json>(key('id'), async () => ({ result: { id: deps.newId() } }))
  const started = await steps.once<JsonObject & Json>(
    key('workflow'),
    async () => {
      const start = await prepare(visit)
      await deps.startRun(run.principal, { ...start, id })
      return { result: { execution_id: id, workflow_id: start.subjectId, workflow_name: start.subjectName } }
    },
    { type: 'subworkflow_triggered' },
  )
  return { result: { status: 'completed', output: null, mode: 'fire_and_forget', ...(started as JsonObject) } }
}

async function prepare(visit: Visit<SubworkflowState>): Promise<NewRun> {
  const { state, context, deps, run } = visit
  const texts = createStateTexts(visit)
  const found = await deps.registry.resolve(deps.read, run.principal, texts('workflow_id', state.workflow, context))
  const text = state.input === null ? undefined : texts('input', state.input, context)
  const parsed = text === undefined ? (context['input'] ?? {}) : parsedJson(text)
  const isObject = typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)
  const { intent } = context
  const { generation: spawnDepth } = run.input as unknown as WorkflowInput
  return newWorkflowRun(found, {
    intent: typeof intent === 'string' ? intent : null,
    input: isObject ? (parsed as JsonObject) : { input: text ?? '' },
    overrides: {},
    spawnDepth: state.mode === 'blocking' ? spawnDepth : spawnDepth + 1,
  })
}
