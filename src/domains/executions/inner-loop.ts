import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { DescribedTool } from '../../contract/tool-invoker.ts'
import type { NewEvent, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { TrailStep } from './audit-trail.ts'
import { type Deadline, requireTime, within } from './deadline.ts'
import { failuresOf, type ModelFailure, type ModelMessage, type ModelToolCall } from './model.ts'
import type { ExecutionDeps, ExecutionInput, Fault } from './ports.ts'
import type { CallResult, ToolCallContext } from './tool-calls.ts'

export type Usage = { inputTokens: number; outputTokens: number; costUsd: number | null; modelCalls: number }
type InnerEnd = Readonly<{ trail: readonly TrailStep[] }> & (Readonly<{ answer: string }> | Readonly<{ fault: Fault }>)

type Recorded =
  | Readonly<{
      text: string
      tool_calls: readonly ModelToolCall[]
      usage: Readonly<{ input_tokens: number; output_tokens: number; cost_usd: number | null }>
      provider: string
      model: string
      finish_reason: string
    }>
  | Readonly<{ fault: Fault }>

type InnerRequest = Readonly<{
  iteration: number
  /** The identity that calls the model. */
  principal: Principal
  /** The task that judges of its calls see. */
  task: string
  prompt: string
  tools: readonly DescribedTool[]
  deadlines: readonly Deadline[]
  /** Counts the cost of model calls. */
  usage: Usage
  handle(context: ToolCallContext): Promise<CallResult>
}>

/**
 * Alternates between the model and its tools until the model answers without a call. Every answer is recorded before it is used.
 */
export async function runInnerLoop(
  deps: Pick<ExecutionDeps, 'models' | 'clock'>,
  { manifest }: ExecutionInput,
  steps: Steps,
  request: InnerRequest,
): Promise<InnerEnd> {
  const messages: ModelMessage[] = [{ role: 'user', text: request.prompt }]
  const trail: TrailStep[] = []
  for (let round = 1; round <= limits.modelRoundsMax; round++) {
    requireTime(steps, ...request.deadlines)
    const answer = await askModel(deps, manifest, steps, request, messages, round)
    if ('fault' in answer) return { trail, fault: answer.fault }
    count(request.usage, answer.usage)
    if (answer.tool_calls.length === 0) return { trail, answer: answer.text }
    messages.push({ role: 'assistant', text: answer.text, toolCalls: answer.tool_calls })
    for (const [index, call] of answer.tool_calls.entries()) {
      requireTime(steps, ...request.deadlines)
      const key = `iteration-${request.iteration}/tool-${round}-${index + 1}`
      const { iteration, task, deadlines } = request
      const result = await request.handle({ key, iteration, call, trail, task, deadlines })
      trail.push(result.step)
      if (result.isFatal) return { trail, fault: { code: 'ERR_BACKEND_FAILED', message: result.text } }
      messages.push({ role: 'tool', callId: call.id, name: call.name, text: result.text, isError: result.isError })
    }
  }
  const message = `The model reached the limit of ${limits.modelRoundsMax} rounds of tool calls in one iteration without giving an answer.`
  return { trail, fault: { code: 'ERR_ITERATIONS_EXHAUSTED', message } }
}

function askModel(
  { models, clock }: Pick<ExecutionDeps, 'models' | 'clock'>,
  manifest: ExecutionInput['manifest'],
  steps: Steps,
  { iteration, principal, tools, deadlines }: InnerRequest,
  messages: readonly ModelMessage[],
  round: number,
): Promise<Recorded> {
  const alias = manifest.runtime.model
  return steps.once<Recorded & Json>(
    `iteration-${iteration}/model-${round}`,
    async () => {
      try {
        const answer = await within(clock, steps, deadlines, (signal) =>
          models.generate({
            alias,
            principal,
            purpose: 'agent',
            // Manifests of runs that an earlier version started lack this field.
            system: manifest.task.systemPrompt ?? null,
            messages,
            tools: tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
            temperature: manifest.runtime.temperature,
            maxOutputTokens: null,
            timeoutMs: manifest.execution.llmTimeoutMs,
            signal,
          }),
        )
        const { inputTokens, outputTokens, costUsd } = answer.usage
        const result: Recorded = {
          text: answer.text,
          tool_calls: answer.toolCalls,
          usage: { input_tokens: inputTokens, output_tokens: outputTokens, cost_usd: costUsd },
          provider: answer.provider,
          model: answer.model,
          finish_reason: answer.finishReason,
        }
        const events = [...answer.failures.map(callFailed), ...answer.toolCalls.map(callRequested)]
        return { result: result as Recorded & Json, events }
      } catch (error) {
        if (!(error instanceof AppError) || steps.signal.aborted) throw error
        const { code, message, details } = error
        // The limit, what is left of it, and when it resets.
        const named = code === 'ERR_LIMIT_EXCEEDED' ? { details: details as Record<string, Json> } : {}
        return { result: { fault: { code, message, ...named } }, events: failuresOf(error).map(callFailed) }
      }
    },
    { type: 'llm_interaction' },
  )
}

const callFailed = (failure: ModelFailure): NewEvent => ({ type: 'llm_call_failed', payload: { ...failure } })

const callRequested = ({ id, name }: ModelToolCall): NewEvent => ({
  type: 'tool_invocation_requested',
  payload: { tool: name, call_id: id },
})

function count(
  total: Usage,
  usage: Readonly<{ input_tokens: number; output_tokens: number; cost_usd: number | null }>,
): void {
  total.inputTokens += usage.input_tokens
  total.outputTokens += usage.output_tokens
  if (usage.cost_usd !== null) total.costUsd = (total.costUsd ?? 0) + usage.cost_usd
  total.modelCalls++
}
