import type { ApprovalRequest } from '../../contract/approvals.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { DescribedTool, InvocationResult } from '../../contract/tool-invoker.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { approvalRequestOf, unapproved, waitForApproval } from '../runs/approvals.ts'
import { isPassed } from '../runs/verdicts.ts'
import { whyNotOffered } from './agent-principal.ts'
import { auditHistory, summarised, type TrailStep } from './audit-trail.ts'
import { type Deadline, postpone, waitableUntil, within } from './deadline.ts'
import { AGENT_REMOVED, type Delegations } from './delegation.ts'
import type { Judges } from './judges.ts'
import type { ModelToolCall } from './model.ts'
import type { ExecutionDeps, ExecutionInput } from './ports.ts'
import { shortened } from './prompt.ts'
import { skipOf } from './skip-judge.ts'

/** The result of one call for the model. `isFatal`: the iteration ends. */
export type CallResult = Readonly<{ text: string; isError: boolean; isFatal: boolean; step: TrailStep }>

export type ToolCallContext = Readonly<{
  key: string
  iteration: number
  call: ModelToolCall
  trail: readonly TrailStep[]
  task: string
  deadlines: readonly Deadline[]
}>

type Refused = Readonly<{ kind: 'policy' | 'recoverable'; reason: string; verdict?: Verdict }>

/** Who allowed the call, as recorded. */
type Verdict = Readonly<{
  by: 'built-in' | 'configuration' | 'judges'
  allowed: boolean
  judges?: readonly Readonly<{ judge: string; score: number; confidence: number }>[]
}>
type Decision = Readonly<{ refusal: Refused } | { verdict: Verdict | null }>

const FAILED = 'tool_invocation_failed'
const APPROVAL_REQUESTED = 'tool_approval_requested'

/** Failures that no other arguments would avoid. */
const policyCodes: ReadonlySet<ErrorCode> = new Set([
  'ERR_PERMISSION_DENIED',
  'ERR_POLICY_VIOLATION',
  'ERR_UNKNOWN_TOOL',
  'ERR_MODE_REFUSED',
  'ERR_FEATURE_DISABLED',
  'ERR_TENANT_MISMATCH',
])
/** Failures of the server: another call would fail as well. */
const fatalCodes: ReadonlySet<ErrorCode> = new Set(['ERR_STORE_UNAVAILABLE', 'ERR_SHUTTING_DOWN', 'ERR_OWNER_LOST'])

/**
 * One tool call of the model: looked up among the offered tools, arguments and contexts checked, judged if the manifest says so,
 * and then dispatched as the agent, through the pipeline.
 */
export function createToolCaller(
  deps: ExecutionDeps,
  run: Run,
  input: ExecutionInput,
  steps: Steps,
  judges: Judges,
  agent: Readonly<{
    principal: Principal
    tools: readonly DescribedTool[]
    workspaceId: string | null
    delegations: Delegations
    environment(iteration: number): Readonly<Record<string, string>>
  }>,
) {
  const offered = new Map(agent.tools.map((tool) => [tool.name, tool]))

  /** A recorded decision stands, whatever is offered or allowed now. */
  async function handle(context: ToolCallContext): Promise<CallResult> {
    const { call, key } = context
    const refusedKey = `${key}/refused`
    const tool = offered.get(call.name)
    const isDelegation = agent.delegations.isUnderWay(key) || steps.recorded(admissionKey(key)) !== undefined
    if (isDelegation) return await delegate(context)
    if (steps.recorded(key) !== undefined) return await dispatch(context, tool, null)
    const early = (steps.recorded(refusedKey) as Refused | undefined) ?? (await checked(context))
    const decision = early === undefined ? await judged(context, tool!) : { refusal: early }
    if ('verdict' in decision) {
      return agent.delegations.has(call.name)
        ? await delegate(context)
        : await dispatch(context, tool, decision.verdict)
    }
    const { refusal } = decision
    const type = refusal.kind === 'policy' ? 'tool_policy_violation' : FAILED
    await steps.once(refusedKey, async () => ({ result: { ...refusal, tool: call.name } }), { type })
    return refused(call, refusal)
  }

  /** Runs before any judge: a call that would be refused needs none. */
  async function checked({ call }: ToolCallContext): Promise<Refused | undefined> {
    if (!offered.has(call.name)) {
      const names = [...offered.keys()].join(', ') || 'none'
      return { kind: 'policy', reason: `${whyNotOffered(input, call.name)}; available tools: ${names}` }
    }
    if (agent.delegations.has(call.name)) {
      const reason = agent.delegations.problem(call.arguments)
      return reason === undefined ? undefined : { kind: 'recoverable', reason }
    }
    const refusal = await deps.invoker.check(agent.principal, call.name, call.arguments)
    if (refusal === undefined) return undefined
    return { kind: policyCodes.has(refusal.code) ? 'policy' : 'recoverable', reason: refusal.message }
  }

  /** Anything but a passing verdict refuses the call. */
  async function judged(context: ToolCallContext, tool: DescribedTool): Promise<Decision> {
    const { toolValidation } = input.manifest.execution
    if (toolValidation.length === 0) return { verdict: null }
    const skippedBy = skipOf(deps.judging, tool)
    if (skippedBy !== undefined) return { verdict: { by: skippedBy, allowed: true } }
    const supplied: { judge: string; score: number; confidence: number }[] = []
    const { call, key, iteration, trail, task, deadlines } = context
    for (const [index, rule] of toolValidation.entries()) {
      const verdict = await judges.ask(`${key}/judge-${index + 1}`, {
        agent: rule.judgeAgent,
        timeoutMs: rule.timeoutMs,
        deadlines,
        workspaceId: agent.workspaceId,
        input: {
          execution_id: run.id,
          task,
          proposed_tool_call: { name: call.name, arguments: call.arguments },
          available_tools: [...offered.keys()],
          worker_mounts: input.manifest.volumes.map(({ mountPath }) => mountPath),
          tool_audit_history: auditHistory(run.id, iteration, trail),
          criteria: rule.criteria,
          validation_context: 'semantic_judge_pre_execution_inner_loop',
        },
      })
      if ('fault' in verdict) {
        const reason = `the call was not judged: ${verdict.fault.message}`
        return { refusal: { kind: 'recoverable', reason, verdict: { by: 'judges', allowed: false, judges: supplied } } }
      }
      supplied.push({ judge: rule.judgeAgent, score: verdict.score, confidence: verdict.confidence })
      if (isPassed(verdict, rule)) continue
      const reason = `the judge '${rule.judgeAgent}' rejected the call (score ${verdict.score}, ${rule.minScore} is required; confidence ${verdict.confidence}): ${verdict.reasoning}`
      return { refusal: { kind: 'recoverable', reason, verdict: { by: 'judges', allowed: false, judges: supplied } } }
    }
    return { verdict: { by: 'judges', allowed: true, judges: supplied } }
  }

  async function dispatch(
    context: ToolCallContext,
    tool: DescribedTool | undefined,
    verdict: Verdict | null,
  ): Promise<CallResult> {
    const answer = await approved(context, context.key, (key, round) =>
      attempt({ ...context, key }, tool, round === 0 ? verdict : null, round),
    )
    return told(context.call, answer)
  }

  /** A call that needs approval is repeated after the approval, each time under a new key. */
  async function approved(
    { call, deadlines }: ToolCallContext,
    key: string,
    make: (key: string, round: number) => Promise<RecordedAnswer>,
  ): Promise<RecordedAnswer> {
    let answer = await make(key, 0)
    for (let round = 1; answer.asked !== undefined; round++) {
      const beganMs = steps.nowMs()
      const waiting = { approvals: deps.approvals, run, steps }
      const { isApproved, text } = await waitForApproval(waiting, answer.asked, waitableUntil(deadlines))
      postpone(deadlines, steps.nowMs() - beganMs)
      if (!isApproved) return toRecorded(call, unapproved(answer.asked, text))
      answer = await make(`${key}/approved-${round}`, round)
    }
    return answer
  }

  async function attempt(
    context: ToolCallContext,
    tool: DescribedTool | undefined,
    verdict: Verdict | null,
    rounds = 0,
  ): Promise<RecordedAnswer> {
    const { key, call, deadlines } = context
    const waitsForApproval = rounds < limits.approvalRoundsMax
    const environment = () => agent.environment(context.iteration)
    return await steps.once<RecordedAnswer & Json>(
      key,
      async ({ interrupted }) => {
        if (interrupted && !mayRepeat(input, tool)) return { result: interruptedAnswer(call), type: FAILED }
        const supplied = await within(deps.clock, steps, deadlines, async (signal) => {
          const answer = await deps.invoker.call(agent.principal, call.name, call.arguments, {
            signal,
            transport: 'agent',
            environment,
            waitsForApproval,
          })
          if (answer.code === 'ERR_CANCELLED') signal.throwIfAborted()
          return answer
        })
        return outcomeOf(toRecorded(call, supplied))
      },
      {
        type: 'tool_invocation_completed',
        intent: tool?.isReadOnly !== true,
        began: {
          type: 'tool_invocation_started',
          payload: { tool: call.name, call_id: call.id, ...(verdict !== null && { verdict }) },
        },
      },
    )
  }

  /** An admitted delegation is not judged again. */
  async function delegate(context: ToolCallContext): Promise<CallResult> {
    const { key, call, deadlines } = context
    if (!agent.delegations.isUnderWay(key)) {
      const admission = await approved(context, admissionKey(key), (at, round) => admit(context, at, round))
      if (admission.is_error) return told(call, admission)
    }
    return told(call, toRecorded(call, await agent.delegations.call(key, call.name, call.arguments, deadlines)))
  }

  /** Whether a task may be delegated, through the pipeline. Repeating this after a crash is harmless. */
  async function admit({ call, deadlines }: ToolCallContext, key: string, rounds: number): Promise<RecordedAnswer> {
    return await steps.once<RecordedAnswer & Json>(key, async () => {
      const delegatesTo = agent.delegations.agentOf(call.name)
      if (delegatesTo === undefined) return outcomeOf(removedAnswer(call))
      const supplied = await within(deps.clock, steps, deadlines, async (signal) => {
        const answer = await deps.invoker.call(agent.principal, call.name, call.arguments, {
          signal,
          transport: 'agent',
          waitsForApproval: rounds < limits.approvalRoundsMax,
          delegatesTo,
        })
        if (answer.code === 'ERR_CANCELLED') signal.throwIfAborted()
        return answer
      })
      return outcomeOf(toRecorded(call, supplied))
    })
  }

  function told(call: ModelToolCall, answer: RecordedAnswer): CallResult {
    const code = answer.code as ErrorCode | null
    const text = shortened(answer.text, limits.toolAnswerCharsMax)
    if (!answer.is_error) {
      return { text, isError: false, isFatal: false, step: stepOf(call, 'completed', answer.text, null) }
    }
    if (code !== null && policyCodes.has(code)) return refused(call, { kind: 'policy', reason: text })
    const isFatal = code !== null && fatalCodes.has(code)
    return { text: `Tool execution error: ${text}`, isError: true, isFatal, step: stepOf(call, 'failed', '', text) }
  }

  return { handle }
}

/** Whether an interrupted call is repeated: as the manifest says, otherwise if that is harmless. */
export const mayRepeat = (
  { manifest }: Pick<ExecutionInput, 'manifest'>,
  tool: Pick<DescribedTool, 'isReadOnly' | 'isIdempotent'> | undefined,
): boolean => {
  const { interruptedCalls } = manifest.execution
  if (interruptedCalls !== null) return interruptedCalls === 'retry'
  return tool?.isReadOnly === true || tool?.isIdempotent === true
}

type RecordedAnswer = Readonly<{
  tool: string
  is_error: boolean
  code: string | null
  text: string
  /** The approval to request before the call. The stored name is the former one. */
  asked?: ApprovalRequest & Json
}>

const interruptedAnswer = ({ name }: ModelToolCall): RecordedAnswer => ({
  tool: name,
  is_error: true,
  code: null,
  text: 'A restart interrupted the call, which may or may not have taken effect. Check before you call it again.',
})

const removedAnswer = ({ name }: ModelToolCall): RecordedAnswer & Json => ({
  tool: name,
  is_error: true,
  code: 'ERR_AGENT_NOT_FOUND',
  text: AGENT_REMOVED,
})

const admissionKey = (key: string): string => `${key}/admitted`

/** The record of a call, and its event type if the call was not made. */
const outcomeOf = (result: RecordedAnswer & Json) => ({
  result,
  ...(result.is_error && { type: result.asked === undefined ? FAILED : APPROVAL_REQUESTED }),
})

function toRecorded(call: ModelToolCall, answer: InvocationResult): RecordedAnswer & Json {
  const { isError, text, code } = answer
  const request = approvalRequestOf(answer) as (ApprovalRequest & Json) | undefined
  return {
    tool: call.name,
    is_error: isError,
    code: code ?? null,
    text: shortened(text, 2 * limits.toolAnswerCharsMax),
    ...(request !== undefined && { asked: request }),
  }
}

const refused = (call: ModelToolCall, { kind, reason }: Refused): CallResult => ({
  text:
    kind === 'policy'
      ? `The tool '${call.name}' is not available for this: ${reason.replace(/\.$/, '')}. Do not try it again.`
      : `Tool execution error: ${reason}`,
  isError: true,
  isFatal: false,
  step: stepOf(call, 'rejected', '', reason),
})

const stepOf = (
  { name, arguments: args }: ModelToolCall,
  status: TrailStep['status'],
  result: string,
  error: string | null,
): TrailStep => ({
  tool_name: name,
  arguments_summary: summarised(args),
  status,
  result_summary: result === '' ? null : summarised(result as Json),
  error,
})
