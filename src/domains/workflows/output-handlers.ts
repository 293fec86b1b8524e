import { AppError } from '../../contract/app-error.ts'
import type { DeskAnswer } from '../../contract/tool-desk.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { memberOf, shown } from '../texts/template-values.ts'
import type { Context } from '../texts/templates.ts'
import { callTool, toError } from './desk-calls.ts'
import type { JsonObject, OutputHandler } from './manifest-types.ts'
import { endOf, readOutput, reasonOf, runAgentBelow } from './run-children.ts'
import type { Visit } from './run-ports.ts'
import type { TimeLeft } from './run-time.ts'
import { createStateTexts, type StateTexts } from './state-texts.ts'

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
      : await byTool(visit, handler, context, timeLeft)
  if ('output' in handled) return { ...result, output: handled.output ?? null, handled: true }
  if (!handler.required) return { ...result, output_handler_error: handled.error }
  return { ...result, status: 'failed', error: `the output handler failed: ${handled.error}` }
}

type Handled = Readonly<{ output: Json }> | Readonly<{ error: string }>

async function byAgent(
  visit: Visit,
  handler: Extract<OutputHandler, { type: 'agent' }>,
  context: Context,
  timeLeft: TimeLeft,
): Promise<Handled> {
  const texts = createStateTexts(visit.position.state)
  const input =
    handler.inputTemplate === null
      ? shown(context['output'])
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

async function byTool(
  visit: Visit,
  handler: Extract<OutputHandler, { type: 'mcp_tool' }>,
  context: Context,
  timeLeft: TimeLeft,
): Promise<Handled> {
  try {
    const output = await visit.steps.once<Json>(
      visit.key('output-handler'),
      async () => {
        const args = rendered(handler.arguments, context, createStateTexts(visit.position.state)) as JsonObject
        const answer = await inTime(visit, timeLeft(handler.timeoutMs), (place) =>
          callTool(place, handler.tool, args, 'agent'),
        )
        if (answer.isError) throw toError(handler.tool, answer)
        return { result: answer.value }
      },
      { type: 'output_handler_completed', intent: true },
    )
    return { output }
  } catch (error) {
    if (!(error instanceof AppError) || error.code === 'ERR_CANCELLED') throw error
    return { error: error.message }
  }
}

type Place = Parameters<typeof callTool>[0]

/** Ends the call when its time is over. That is a failure of the handler; only a stop of the run is passed on as one. */
async function inTime(
  { run, deps, steps }: Place,
  timeoutMs: number | null,
  call: (place: Place) => Promise<DeskAnswer>,
): Promise<DeskAnswer> {
  if (timeoutMs === null) return await call({ run, deps, steps })
  const late = AbortSignal.timeout(Math.min(timeoutMs, 2 ** 31 - 1))
  const isLate = (): boolean => late.aborted && !steps.signal.aborted
  const over = new AppError('ERR_EXECUTION_TIMEOUT', `it took longer than ${Math.ceil(timeoutMs / 1000)} s`)
  const signal = AbortSignal.any([steps.signal, late])
  const answer = await call({ run, deps, steps: { ...steps, signal } }).catch((error: unknown) => {
    throw isLate() ? over : error
  })
  if (answer.isError && isLate()) throw over
  return answer
}

function rendered(value: Json, context: Context, texts: StateTexts): Json {
  if (typeof value === 'string') return texts('output_handler.arguments', value, context)
  if (Array.isArray(value)) return value.map((item) => rendered(item as Json, context, texts))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value as JsonObject).map(([key, member]) => [key, rendered(member ?? null, context, texts)]),
  )
}
