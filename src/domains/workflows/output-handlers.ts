import { AppError } from '../../contract/app-error.ts'
import type { NewEvent } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { TIMER_MS_MAX } from '../../kernel/clock.ts'
import { meaningOf, type ValuePlace } from '../executions/environment.ts'
import { HANDLER_TIMEOUT_MS, runInThrowaway, sendToWebhook } from '../executions/handler-effects.ts'
import { createWorkspaceClient } from '../executions/workspace.ts'
import { displayed, memberOf } from '../templating/template-values.ts'
import type { Context } from '../templating/templates.ts'
import { requireImage } from './container-images.ts'
import { callTool, toError } from './invoker-calls.ts'
import type { GivenValues, JsonObject, OutputHandler } from './manifest-types.ts'
import { endOf, readOutput, reasonOf, runAgentBelow } from './run-children.ts'
import type { Visit } from './run-ports.ts'
import type { TimeLeft } from './run-time.ts'
import { createStateTexts, fieldOf, type StateTexts } from './state-texts.ts'

/** What a handler makes of an output takes its place. A required one that fails makes the state fail. */
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
type Of<Type extends OutputHandler['type']> = Extract<OutputHandler, { type: Type }>

async function byAgent(visit: Visit, handler: Of<'agent'>, context: Context, timeLeft: TimeLeft): Promise<Handled> {
  const texts = createStateTexts(visit, 'handler')
  const input =
    handler.inputTemplate === null
      ? displayed(context['output'])
      : texts('output_handler.input_template', handler.inputTemplate, context)
  const { intent } = context
  const end = await endOf(
    runAgentBelow(visit, 'output-handler', {
      agent: handler.agent,
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

async function inOneStep(
  visit: Visit,
  handler: Exclude<OutputHandler, Of<'agent'>>,
  context: Context,
  timeLeft: TimeLeft,
): Promise<Handled> {
  try {
    const output = await visit.steps.once<Json>(
      visit.key('output-handler'),
      async ({ interrupted }) => {
        const events: NewEvent[] = interrupted
          ? [{ type: 'step_repeated', payload: { step: 'output_handler', reason: 'the server ended while it ran' } }]
          : []
        const handling = { context, texts: createStateTexts(visit, 'handler'), interrupted, events }
        const leftMs = timeLeft(handler.timeoutMs)
        const result = await inTime(visit, leftMs ?? defaultMs[handler.type], (place) =>
          runs[handler.type]({ ...handling, ...place }, handler as never),
        )
        return { result, events }
      },
      { type: 'output_handler_completed', intent: true },
    )
    return { output }
  } catch (error) {
    if (!(error instanceof AppError) || error.code === 'ERR_CANCELLED') throw error
    return { error: error.message }
  }
}

/** A tool has limits of its own. */
const defaultMs = { mcp_tool: null, webhook: HANDLER_TIMEOUT_MS, container: HANDLER_TIMEOUT_MS }

type Place = Readonly<{ visit: Visit; leftMs: number }>
type Handling = Place & Readonly<{ context: Context; texts: StateTexts; interrupted: boolean; events: NewEvent[] }>
type RunHandler<Type extends OutputHandler['type']> = (handling: Handling, handler: Of<Type>) => Promise<Json>

const runs: { readonly [Type in 'webhook' | 'container' | 'mcp_tool']: RunHandler<Type> } = {
  async webhook(handling, { url, method, headers: supplied, bodyTemplate, retries }) {
    const { visit, context, texts, leftMs } = handling
    const { run, manifest, position, deps, steps } = visit
    const headers = valuesOf(handling, 'request', 'output_handler.headers', supplied)
    const told = { execution_id: run.id, workflow: manifest.name, state: position.state, output: context['output'] }
    const body =
      bodyTemplate === null ? JSON.stringify(told) : texts('output_handler.body_template', bodyTemplate, context)
    const time = { signal: steps.signal, leftMs }
    return readOutput(await sendToWebhook(deps.http, { url, method, headers, body, retries }, time))
  },
  async container(handling, handler) {
    const { visit, context, texts, leftMs, interrupted, events } = handling
    const { run, position, deps, steps } = visit
    const { image, isStandIn } = await requireImage(handler.image, deps.images)
    if (isStandIn) {
      const payload = {
        step: 'output_handler',
        image: handler.image,
        used: image,
        reason: 'there is no such image here',
      }
      events.push({ type: 'container_image_substituted', payload })
    }
    const words = handler.command.map((word) => texts('output_handler.command', word, context))
    const job = {
      name: `wf-${run.id}-${position.entered}-output`,
      needs: { resources: handler.resources, network: null },
      image,
      command: words.filter((word) => word !== ''),
      env: { ...valuesOf(handling, 'workspace', 'output_handler.env', handler.env), AEGIS_EXECUTION_ID: run.id },
      stdin: displayed(context['output']),
    }
    const time = { signal: steps.signal, leftMs }
    return readOutput(await runInThrowaway(workspacesOf(visit, image), job, time, interrupted))
  },
  async mcp_tool({ visit, context, texts, interrupted }, handler) {
    const [tool] = visit.deps.invoker.describe(visit.run.principal, [handler.tool])
    if (interrupted && tool?.isReadOnly !== true && tool?.isIdempotent !== true) throw interruptedCall(handler.tool)
    const args = rendered(handler.arguments, context, texts) as JsonObject
    const answer = await callTool(visit, handler.tool, args, 'agent')
    if (answer.isError) throw toError(handler.tool, answer)
    return answer.value
  },
}

const interruptedCall = (tool: string): AppError =>
  new AppError(
    'ERR_OUTPUT_HANDLER_FAILED',
    `the call of ${tool} was interrupted by a restart, and nobody knows whether it took effect; look before you run the workflow again`,
    { tool },
  )

/** The workspaces of whoever started the run; a busy moment is waited for. */
const workspacesOf = ({ run, deps, steps }: Visit, image: string) =>
  createWorkspaceClient(
    {
      invoker: {
        ...deps.invoker,
        call: (_principal, name, args, { signal }) =>
          callTool({ run, deps, steps: { ...steps, signal } }, name, args as JsonObject),
      },
      imageOf: async () => image,
    },
    run,
  )

const valuesOf = (
  { visit, texts, context }: Handling,
  place: ValuePlace,
  field: string,
  supplied: GivenValues,
): Record<string, string> =>
  Object.fromEntries(
    Object.entries(supplied).map(([name, value]) => {
      const at = `${field}.${name.slice(0, 64)}`
      if (value.from === 'literal') return [name, texts(at, value.value, context)]
      return [name, meaningOf(visit.deps, visit.run, place, fieldOf(visit.position.state, at), value)]
    }),
  )

/** Ends the work when its time is over. That is a failure of the handler; only a stop of the run is passed on as one. */
async function inTime<T>(visit: Visit, timeoutMs: number | null, work: (place: Place) => Promise<T>): Promise<T> {
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

function rendered(value: Json, context: Context, texts: StateTexts): Json {
  if (typeof value === 'string') return texts('output_handler.arguments', value, context)
  if (Array.isArray(value)) return value.map((item) => rendered(item as Json, context, texts))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value as JsonObject).map(([key, member]) => [key, rendered(member ?? null, context, texts)]),
  )
}
