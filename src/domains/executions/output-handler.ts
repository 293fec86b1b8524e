import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { AgentManifest } from '../agents/manifest.ts'
import { createMeter } from '../templating/work-meter.ts'
import { type Deadline, within } from './deadline.ts'
import { environmentOf, headersOf } from './environment.ts'
import { HANDLER_TIMEOUT_MS, type HandlerTime, runInThrowaway, sendToWebhook } from './handler-effects.ts'
import { childOf, displayedOutput } from './judges.ts'
import type { ExecutionDeps, ExecutionInput, ExecutionOutput, ResolvedAgent } from './ports.ts'
import { renderTemplate, textOf } from './template.ts'
import { mayRepeat } from './tool-calls.ts'
import { failureOf, type WorkspaceClient } from './workspace.ts'

type Handler = NonNullable<AgentManifest['outputHandler']>
export type Handled = Readonly<{ output: string }> | Readonly<{ error: string; code: AppError['code'] }>

export type HandlerContext = Readonly<{
  deps: ExecutionDeps
  run: Run
  input: ExecutionInput
  steps: Steps
  principal: Principal
  workspaces: WorkspaceClient
  deadline: Deadline
}>

/** What becomes of the accepted output. Its result takes the output's place. */
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
  const start = childOf(agent, { role: 'worker', input: text, workspaceId: null, untilMs })
  const outcome = await steps.child('output/run', start)
  if (outcome.status === 'completed') return (outcome.output as unknown as ExecutionOutput).text
  throw new AppError('ERR_OUTPUT_HANDLER_FAILED', outcome.error?.message ?? `the agent ${outcome.status}`, {
    execution_id: outcome.id,
  })
}

async function inOneStep(
  context: HandlerContext,
  handler: Exclude<Handler, Of<'agent'>>,
  output: string,
): Promise<string> {
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
        text: await within(deps.clock, steps, [deadline, own], (signal, leftMs) =>
          runs[handler.type](context, handler as never, output, { signal, leftMs }, interrupted),
        ),
      },
    }),
    { intent: true },
  )
  return text
}

type RunHandler<Type extends Handler['type']> = (
  context: HandlerContext,
  handler: Of<Type>,
  output: string,
  time: HandlerTime,
  interrupted: boolean,
) => Promise<string>

const runs: { readonly [Type in 'webhook' | 'container' | 'mcp_tool']: RunHandler<Type> } = {
  async webhook({ deps, run, input }, handler, output, time) {
    const { url, method, bodyTemplate, retries } = handler
    const headers = headersOf(deps, run, 'spec.output_handler.headers', handler.headers)
    const body =
      bodyTemplate === null
        ? JSON.stringify({ output: displayedOutput(output), agent: input.agent.name })
        : wordsOf(input, output).render('body_template', bodyTemplate)
    return await sendToWebhook(deps.http, { url, method, headers, body, retries }, time)
  },
  async container({ deps, run, input, workspaces }, handler, output, time, interrupted) {
    const image = await workspaces.imageOf({ language: null, version: null, image: handler.image })
    const { network, resources } = input.manifest
    const needs = { network, resources: { ...resources, ...handler.resources } }
    const env = { ...environmentOf(deps, run, 'spec.output_handler.env', handler.env), AEGIS_EXECUTION_ID: run.id }
    const words = wordsOf(input, output)
    const command = handler.command.map((word) => (word.includes('{{') ? words.render('command', word) : word))
    const job = { name: `output-${run.id}`, needs, image, command, env, stdin: output }
    return await runInThrowaway(workspaces, job, time, interrupted)
  },
  async mcp_tool({ deps, principal, input }, handler, output, { signal }, interrupted) {
    const [tool] = deps.invoker.describe(principal, [handler.toolName])
    if (interrupted && !mayRepeat(input, tool)) {
      const problem =
        'the call was interrupted by a restart, and nobody knows whether it took effect; look before you run the agent again, or set spec.execution.interrupted_calls to retry'
      throw new AppError('ERR_OUTPUT_HANDLER_FAILED', problem, { tool: handler.toolName })
    }
    const args = renderedArguments(handler.arguments, wordsOf(input, output))
    const answer = await deps.invoker.call(principal, handler.toolName, args, { signal, door: 'agent' })
    if (answer.isError) throw failureOf(answer)
    return answer.text
  },
}

type Words = Readonly<{ render(field: string, template: string): string }>

/** The texts of one handler: the output is read once, and they share what work they may do. */
function wordsOf({ intent }: ExecutionInput, output: string): Words {
  const value = displayedOutput(output)
  const options = { texts: textOf(value, output), meter: createMeter() }
  const values = { output: value, intent: intent ?? '' }
  return { render: (field, template) => renderTemplate(`spec.output_handler.${field}`, template, values, options) }
}

function renderedArguments(value: Json, words: Words): Json {
  if (typeof value === 'string') return value.includes('{{') ? words.render('arguments', value) : value
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((member: Json) => renderedArguments(member, words))
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, renderedArguments(member ?? null, words)]),
  )
}

/** Tells the destinations that want to know how it ended. That one does not answer changes nothing about the execution. */
export async function deliver(
  { deps, run, input, steps }: Pick<HandlerContext, 'deps' | 'run' | 'input' | 'steps'>,
  status: 'completed' | 'failed',
  output: string,
  reason: string | null,
): Promise<void> {
  const wanted = status === 'completed' ? 'on_success' : 'on_failure'
  for (const [index, target] of input.manifest.execution.delivery.entries()) {
    if (target.condition !== 'always' && target.condition !== wanted) continue
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
          const answer = await deps.http.send({ url, method, headers, body, timeoutMs, signal: steps.signal })
          return { result: { destination: target.name, status: answer.status } }
        } catch (error) {
          if (steps.signal.aborted || !(error instanceof AppError)) throw error
          return { result: { destination: target.name, status: null, error: error.message } }
        }
      },
      { type: 'delivery_attempted' },
    )
  }
}
