import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { NewEvent } from '../../engine/ports.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { TIMER_MS_MAX } from '../../kernel/clock.ts'
import type { OutputHandler } from '../manifests/output-handler.ts'
import { HANDLER_TIMEOUT_MS } from '../runs/handler-effects.ts'
import { meaningOf } from '../runs/manifest-values.ts'
import { type HandledRun, handleInStep, type StepHandler } from '../runs/output-handlers.ts'
import { createToolClient, namedFailure } from '../runs/tool-client.ts'
import { createWorkspaceClient } from '../runs/workspace-client.ts'
import { displayed, memberOf } from '../templating/template-values.ts'
import type { Context } from '../templating/templates.ts'
import { requireImage } from './container-images.ts'
import { callTool } from './invoker-calls.ts'
import { endOf, readOutput, reasonOf, runChildAgent } from './run-children.ts'
import type { Visit } from './run-ports.ts'
import type { TimeLeft } from './run-time.ts'
import { createStateTexts, fieldOf, type StateTexts } from './state-texts.ts'

/** The output of a handler replaces that of the state. If a required handler fails, the state fails. */
export async function handleOutput(
  visit: Visit,
  handler: OutputHandler | null,
  result: JsonObject,
  timeLeft: TimeLeft,
): Promise<JsonObject> {
  if (handler === null) return result
  const context: Context = { ...visit.context, output: result['output'] ?? null, result }
  const handled =
    handler.type === 'agent'
      ? await byAgent(visit, handler, context, timeLeft)
      : await inOneStep(visit, handler, context, timeLeft)
  if ('output' in handled) return { ...result, output: handled.output ?? null, handled: true }
  if (!handler.required) return { ...result, output_handler_error: handled.error }
  return { ...result, status: 'failed', error: `the output handler failed: ${handled.error}` }
}

type Handled = Readonly<{ output: Json }> | Readonly<{ error: string }>
type AgentHandler = Extract<OutputHandler, { type: 'agent' }>

async function byAgent(visit: Visit, handler: AgentHandler, context: Context, timeLeft: TimeLeft): Promise<Handled> {
  const texts = createStateTexts(visit, 'handler')
  const input =
    handler.inputTemplate === null
      ? displayed(context['output'])
      : texts('output_handler.input_template', handler.inputTemplate, context)
  const { intent } = context
  const end = await endOf(
    runChildAgent(visit, 'output-handler', {
      agent: handler.agentId,
      input,
      intent: typeof intent === 'string' ? intent : null,
      workspaceId: null,
      isJudge: false,
      timeoutMs: timeLeft(handler.timeoutMs),
    }),
  )
  if (end.status !== 'completed') return { error: reasonOf(end) }
  return { output: readOutput(memberOf(end.output, 'text') ?? end.output) }
}

async function inOneStep(visit: Visit, handler: StepHandler, context: Context, timeLeft: TimeLeft): Promise<Handled> {
  try {
    const output = await visit.steps.once<Json>(
      visit.key('output-handler'),
      async ({ interrupted }) => {
        const events: NewEvent[] = interrupted
          ? [{ type: 'step_repeated', payload: { step: 'output_handler', reason: 'the server stopped while it ran' } }]
          : []
        const handling = { context, texts: createStateTexts(visit, 'handler'), interrupted, events }
        const leftMs = timeLeft(handler.timeoutMs)
        const result = await inTime(visit, leftMs ?? defaultMs[handler.type], (deadline) =>
          handleInStep(handledRun(deadline, handling), handler),
        )
        return { result: result.value ?? readOutput(result.text), events }
      },
      { type: 'output_handler_completed', intent: true },
    )
    return { output }
  } catch (error) {
    if (!(error instanceof AppError) || error.code === 'ERR_CANCELLED') throw error
    return { error: error.message }
  }
}

/** A tool has a time-out of its own. */
const defaultMs = { mcp_tool: null, webhook: HANDLER_TIMEOUT_MS, container: HANDLER_TIMEOUT_MS }

type Deadline = Readonly<{ visit: Visit; leftMs: number }>
type Handling = Readonly<{ context: Context; texts: StateTexts; interrupted: boolean; events: NewEvent[] }>

function handledRun({ visit, leftMs }: Deadline, { context, texts, interrupted, events }: Handling): HandledRun {
  const { run, manifest, position, deps, steps } = visit
  const output = context['output'] ?? null
  const render = (field: string, text: string): string => texts(`output_handler.${field}`, text, context)
  return {
    id: run.id,
    sender: { ...deps, principal: run.principal },
    time: { signal: steps.signal, leftMs },
    interrupted,
    output: displayed(output),
    body: { execution_id: run.id, workflow: manifest.name, state: position.state, output: output as Json },
    render,
    wordsOf: (command) => command.map((word) => render('command', word)).filter((word) => word !== ''),
    valueOf(target, field, value) {
      if (value.from === 'literal') return render(field, value.value)
      return meaningOf(deps, run, target, fieldOf(position.state, `output_handler.${field}`), value)
    },
    workspace: {
      // The workspaces of the run's owner.
      client: createWorkspaceClient(
        createToolClient(deps.invoker, run.principal, { attemptsMax: limits.workflowCallAttemptsMax }),
      ),
      name: `wf-${run.id}-${position.entered}-output`,
      async imageOf(requested) {
        const { image, isStandIn } = await requireImage(requested, deps.images)
        if (isStandIn) {
          const payload = {
            step: 'output_handler',
            image: requested,
            used: image,
            reason: 'there is no such image here',
          }
          events.push({ type: 'container_image_substituted', payload })
        }
        return image
      },
      needsOf: (resources) => ({ resources, network: null }),
    },
    tools: {
      call: (name, args) => callTool(visit, name, args as JsonObject, 'agent'),
      failureOf: namedFailure,
      mayRepeat(name) {
        const [tool] = deps.invoker.describe(run.principal, [name])
        return tool?.isReadOnly === true || tool?.isIdempotent === true
      },
      interruptedAdvice: 'check before you run the workflow again',
    },
  }
}

/** Aborts the work at its deadline. That is a failure of the handler; only a cancelled run propagates as a cancellation. */
async function inTime<T>(visit: Visit, timeoutMs: number | null, work: (deadline: Deadline) => Promise<T>): Promise<T> {
  const { steps } = visit
  const leftMs = Math.min(timeoutMs ?? TIMER_MS_MAX, TIMER_MS_MAX)
  if (timeoutMs === null) return await work({ visit, leftMs })
  const late = AbortSignal.timeout(leftMs)
  const signal = AbortSignal.any([steps.signal, late])
  return await work({ visit: { ...visit, steps: { ...steps, signal } }, leftMs }).catch((error: unknown) => {
    if (!late.aborted || steps.signal.aborted) throw error
    throw new AppError('ERR_EXECUTION_TIMEOUT', `it took longer than ${Math.ceil(timeoutMs / 1000)} s`)
  })
}
