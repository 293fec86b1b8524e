import { AppError } from '../../contract/app-error.ts'
import type { InvocationResult } from '../../contract/tool-invoker.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { EnvValue, EnvValues } from '../manifests/env-values.ts'
import type { OutputHandler } from '../manifests/output-handler.ts'
import { type HandlerTime, runInThrowaway, sendToWebhook, type WebhookSender } from './handler-effects.ts'
import type { ValueTarget } from './manifest-values.ts'
import type { WorkspaceClient, WorkspaceNeeds } from './workspace-client.ts'

/** Handlers that are one step of a journal; an agent is a run of its own. */
export type StepHandler = Exclude<OutputHandler, { type: 'agent' }>

/** What a handler needs from the run whose output it handles. Field names start at `output_handler`. */
export type HandledRun = Readonly<{
  id: string
  sender: WebhookSender
  time: HandlerTime
  /** Whether a crash interrupted an earlier attempt. */
  interrupted: boolean
  /** The output as text, for standard input. */
  output: string
  /** The body of a webhook without a template. */
  body: Json
  render(field: string, template: string): string
  valueOf(target: ValueTarget, field: string, value: EnvValue): string
  /** Renders the words of a command. */
  wordsOf(command: readonly string[]): readonly string[]
  /** The workspace of a container handler. Its name is the same on every attempt. */
  workspace: Readonly<{
    client: Pick<WorkspaceClient, 'ask' | 'make' | 'destroy'>
    name: string
    imageOf(image: string): Promise<string>
    needsOf(resources: WorkspaceNeeds['resources']): WorkspaceNeeds
  }>
  tools: Readonly<{
    call(name: string, args: Json): Promise<InvocationResult>
    failureOf(name: string, answer: InvocationResult): AppError
    /** Whether an interrupted call may be repeated. */
    mayRepeat(name: string): boolean
    /** What to do if it may not be. */
    interruptedAdvice: string
  }>
}>

/** Runs the handler. A tool returns a value beside its text. */
export async function handleInStep(
  run: HandledRun,
  handler: StepHandler,
): Promise<Readonly<{ text: string; value?: Json }>> {
  switch (handler.type) {
    case 'webhook':
      return { text: await byWebhook(run, handler) }
    case 'container':
      return { text: await byContainer(run, handler) }
    case 'mcp_tool':
      return await byTool(run, handler)
  }
}

type Of<Type extends StepHandler['type']> = Extract<StepHandler, { type: Type }>

const valuesOf = (run: HandledRun, target: ValueTarget, field: string, values: EnvValues): Record<string, string> =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, run.valueOf(target, `${field}.${name}`, value)]),
  )

async function byWebhook(run: HandledRun, { url, method, headers, bodyTemplate, retries }: Of<'webhook'>) {
  const body = bodyTemplate === null ? JSON.stringify(run.body) : run.render('body_template', bodyTemplate)
  const request = { url, method, headers: valuesOf(run, 'request', 'headers', headers), body, retries }
  return await sendToWebhook(run.sender, request, run.time, true)
}

async function byContainer(run: HandledRun, handler: Of<'container'>): Promise<string> {
  const { client, name, imageOf, needsOf } = run.workspace
  const job = {
    name,
    image: await imageOf(handler.image),
    needs: needsOf(handler.resources),
    command: run.wordsOf(handler.command),
    env: { ...valuesOf(run, 'workspace', 'env', handler.env), AEGIS_EXECUTION_ID: run.id },
    stdin: run.output,
  }
  return await runInThrowaway(client, job, run.time, run.interrupted)
}

async function byTool(run: HandledRun, { toolName, arguments: templates }: Of<'mcp_tool'>) {
  const { call, failureOf, mayRepeat, interruptedAdvice } = run.tools
  if (run.interrupted && !mayRepeat(toolName)) {
    throw new AppError(
      'ERR_OUTPUT_HANDLER_FAILED',
      `a restart interrupted the call of ${toolName}, which may or may not have taken effect; ${interruptedAdvice}`,
      { tool: toolName },
    )
  }
  const answer = await call(toolName, rendered(run, templates))
  if (answer.isError) throw failureOf(toolName, answer)
  return { text: answer.text, value: answer.value }
}

function rendered(run: HandledRun, value: Json): Json {
  if (typeof value === 'string') return run.render('arguments', value)
  if (Array.isArray(value)) return value.map((item) => rendered(run, item as Json))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, rendered(run, member ?? null)]))
}
