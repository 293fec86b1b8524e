import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import { failureOf } from '../../contract/tool-invoker.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { AgentManifest } from '../agents/manifest.ts'
import { HANDLER_TIMEOUT_MS, type HandlerTime, sendToWebhook } from '../runs/handler-effects.ts'
import { headerOf, headersOf, meaningOf } from '../runs/manifest-values.ts'
import { type HandledRun, handleInStep, type StepHandler } from '../runs/output-handlers.ts'
import { createMeter } from '../templating/work-meter.ts'
import { type Deadline, within } from './deadline.ts'
import { childOf, delegationOf, displayedOutput } from './judges.ts'
import type { ExecutionDeps, ExecutionInput, ExecutionOutput, ResolvedAgent } from './ports.ts'
import { renderTemplate, textOf } from './template.ts'
import { mayRepeat } from './tool-calls.ts'
import type { AgentWorkspaces } from './workspace.ts'

type Handler = NonNullable<AgentManifest['outputHandler']>
type Handled = Readonly<{ output: string }> | Readonly<{ error: string; code: AppError['code'] }>

type HandlerContext = Readonly<{
  deps: ExecutionDeps
  run: Run
  input: ExecutionInput
  steps: Steps
  principal: Principal
  workspaces: AgentWorkspaces
  deadline: Deadline
}>

/** Processes the accepted output. Its result replaces the output. */
export async function handleOutput(context: HandlerContext, handler: Handler, output: string): Promise<Handled> {
  const { steps } = context
  steps.note({ type: 'output_handler_started', payload: { type: handler.type } })
  try {
    const result =
      handler.type === 'agent' ? await byAgent(context, handler, output) : await inOneStep(context, handler, output)
    steps.note({ type: 'output_handler_completed', payload: { type: handler.type } })
    return { output: result }
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    steps.note({ type: 'output_handler_failed', payload: { type: handler.type, error: error.message } })
    return { error: `spec.output_handler (${handler.type}): ${error.message}`, code: error.code }
  }
}

type Of<Type extends Handler['type']> = Extract<Handler, { type: Type }>

async function byAgent({ deps, run, input, steps, deadline }: HandlerContext, handler: Of<'agent'>, output: string) {
  const agent = await steps.once('output/agent', async () => ({
    result: (await deps.agents.resolve(deps.read, run.principal, handler.agentId)) as ResolvedAgent & Json,
  }))
  const text =
    handler.inputTemplate === null ? output : wordsOf(input, output).render('input_template', handler.inputTemplate)
  const untilMs = Math.min(steps.nowMs() + (handler.timeoutMs ?? HANDLER_TIMEOUT_MS), deadline.untilMs)
  const start = childOf(agent, { ...delegationOf(run), role: 'worker', input: text, workspaceId: null, untilMs })
  const outcome = await steps.child('output/run', start)
  if (outcome.status === 'completed') return (outcome.output as unknown as ExecutionOutput).text
  throw new AppError('ERR_OUTPUT_HANDLER_FAILED', outcome.error?.message ?? `the agent ${outcome.status}`, {
    execution_id: outcome.id,
  })
}

async function inOneStep(context: HandlerContext, handler: StepHandler, output: string): Promise<string> {
  const { deps, steps, deadline } = context
  const own: Deadline = {
    untilMs: steps.nowMs() + (handler.timeoutMs ?? HANDLER_TIMEOUT_MS),
    what: 'the output handler',
    field: 'spec.output_handler.timeout_seconds',
  }
  const { text } = await steps.once(
    'output/step',
    async ({ interrupted }) => ({
      result: {
        text: await within(deps.clock, steps, [deadline, own], async (signal, leftMs) => {
          const handled = await handleInStep(handledRun(context, output, { signal, leftMs }, interrupted), handler)
          return handled.text
        }),
      },
    }),
    { intent: true },
  )
  return text
}

function handledRun(
  { deps, run, input, principal, workspaces }: HandlerContext,
  output: string,
  time: HandlerTime,
  interrupted: boolean,
): HandledRun {
  const words = wordsOf(input, output)
  const render = (field: string, text: string): string => (text.includes('{{') ? words.render(field, text) : text)
  const { network, resources } = input.manifest
  return {
    id: run.id,
    sender: { ...deps, principal },
    time,
    interrupted,
    output,
    body: { output: displayedOutput(output), agent: input.agent.name },
    render,
    wordsOf: (command) => command.map((word) => render('command', word)),
    valueOf(target, field, value) {
      const at = `spec.output_handler.${field}`
      return target === 'request' ? headerOf(deps, run, at, value) : meaningOf(deps, run, target, at, value)
    },
    workspace: {
      client: workspaces,
      name: `output-${run.id}`,
      imageOf: (image) => workspaces.imageOf({ language: null, version: null, image }),
      needsOf: (own) => ({ network, resources: { ...resources, ...own } }),
    },
    tools: {
      call: (name, args) => deps.invoker.call(principal, name, args, { signal: time.signal, transport: 'agent' }),
      failureOf: (_, answer) => failureOf(answer),
      mayRepeat: (name) => mayRepeat(input, deps.invoker.describe(principal, [name])[0]),
      interruptedAdvice: 'check before you run the agent again, or set spec.execution.interrupted_calls to retry',
    },
  }
}

type Words = Readonly<{ render(field: string, template: string): string }>

/** The texts of one handler: the output is parsed once, and they share a work budget. */
function wordsOf({ intent }: ExecutionInput, output: string): Words {
  const value = displayedOutput(output)
  const options = { texts: textOf(value, output), meter: createMeter() }
  const values = { output: value, intent: intent ?? '' }
  return { render: (field, template) => renderTemplate(`spec.output_handler.${field}`, template, values, options) }
}

/** Notifies the configured destinations of the outcome. A destination that does not answer does not affect the execution. */
export async function deliver(
  { deps, run, input, steps }: Pick<HandlerContext, 'deps' | 'run' | 'input' | 'steps'>,
  status: 'completed' | 'failed',
  output: string,
  reason: string | null,
): Promise<void> {
  const trigger = status === 'completed' ? 'on_success' : 'on_failure'
  for (const [index, target] of input.manifest.execution.delivery.entries()) {
    if (target.condition !== 'always' && target.condition !== trigger) continue
    await steps.once<Json>(
      `delivery-${index + 1}`,
      async () => {
        try {
          const body = JSON.stringify({
            execution_id: run.id,
            agent_id: input.agent.id,
            agent: input.agent.name,
            status,
            output: output.slice(0, limits.promptCharsMax),
            error: reason,
          })
          const headers = headersOf(deps, run, `spec.execution.delivery.destinations[${index}].headers`, target.headers)
          const { url, method, timeoutMs } = target
          const time = { signal: steps.signal, leftMs: timeoutMs }
          const request = { url, method, headers, body, retries: 0 }
          const principal = { ...run.principal, agent: input.agent.id }
          const answered = await sendToWebhook({ ...deps, principal }, request, time, false)
          return { result: { destination: target.name, status: Number(answered) } }
        } catch (error) {
          if (steps.signal.aborted || !(error instanceof AppError)) throw error
          const { status = null } = error.details as { status?: number }
          return { result: { destination: target.name, status, error: error.message } }
        }
      },
      { type: 'delivery_attempted' },
    )
  }
}
