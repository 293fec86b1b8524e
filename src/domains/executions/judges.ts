import { AppError } from '../../contract/app-error.ts'
import type { NewRun, Run, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { SemanticValidator } from '../agents/normalised-manifest.ts'
import { consensusOf, type Grade, type Verdict, type WeighedVerdict } from '../runs/consensus.ts'
import { parseJsonOutput, readVerdict } from '../runs/verdicts.ts'
import { type Deadline, requireTime } from './deadline.ts'
import type { ExecutionDeps, ExecutionInput, ExecutionOutput, Fault, ResolvedAgent } from './ports.ts'
import type { Validator } from './validators.ts'

type Judged = Verdict | Readonly<{ fault: Fault }>
type JudgeRequest = Readonly<{
  agent: string
  /** The platform chose it, not a manifest: only platform agents are considered. */
  isOfPlatform?: boolean
  /** The input of the judge, reduced to its input_schema. */
  input: Readonly<Record<string, Json>>
  workspaceId: string | null
  timeoutMs: number
  /** Deadlines of the judged work, which also apply to the judge. */
  deadlines?: readonly Deadline[]
}>

const isFault = (judged: Judged): judged is Readonly<{ fault: Fault }> => 'fault' in judged

/**
 * Judges are agents: each verdict is a child execution of the judged one, with its own limits. If the work has no time left, that
 * is not the judge's fault, and ERR_EXECUTION_TIMEOUT is thrown.
 */
export function createJudges(deps: Pick<ExecutionDeps, 'agents' | 'read'>, run: Run, steps: Steps) {
  /** The agent as first resolved: a later version does not change an active run. */
  const agentNamed = ({ agent, isOfPlatform = false }: JudgeRequest): Promise<ResolvedAgent> =>
    steps.once(`${isOfPlatform ? 'platform-agent' : 'agent'}/${agent}`, async () => {
      const { agents, read } = deps
      const found = isOfPlatform ? agents.resolvePlatform(read, agent) : agents.resolve(read, run.principal, agent)
      return { result: (await found) as ResolvedAgent & Json }
    })

  async function ask(key: string, request: JudgeRequest): Promise<Judged> {
    const judged = await verdictOf(key, request)
    if (isFault(judged)) requireTime(steps, ...(request.deadlines ?? []))
    return judged
  }

  async function verdictOf(key: string, request: JudgeRequest): Promise<Judged> {
    try {
      const agent = await agentNamed(request)
      const start = childOf(agent, {
        ...delegationOf(run),
        role: 'judge',
        input: displayedTo(agent, request.input),
        workspaceId: request.workspaceId,
        untilMs: Math.min(
          steps.nowMs() + request.timeoutMs,
          ...(request.deadlines ?? []).map(({ untilMs }) => untilMs),
        ),
      })
      const outcome = await steps.child(key, start)
      if (outcome.status !== 'completed') {
        const reason = outcome.error?.code === 'ERR_EXECUTION_TIMEOUT' ? 'JudgeTimeout' : (outcome.error?.message ?? '')
        return { fault: judgeFault(request.agent, `it ${outcome.status} (${reason})`) }
      }
      const { text } = outcome.output as unknown as ExecutionOutput
      return readVerdict(text) ?? { fault: judgeFault(request.agent, 'its answer is not a verdict') }
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      return { fault: judgeFault(request.agent, error.message) }
    }
  }

  /** Asks several judges concurrently. Fewer verdicts than required count as none. */
  async function askAll(
    key: string,
    validator: Extract<Validator, { type: 'multi_judge' }>,
    request: Omit<JudgeRequest, 'agent' | 'timeoutMs'>,
  ): Promise<Grade | Readonly<{ fault: Fault }>> {
    const all = await Promise.all(
      validator.judges.map(async ({ agent, weight }, index) => ({
        judge: agent,
        weight,
        judged: await verdictOf(`${key}-${index + 1}`, { ...request, agent, timeoutMs: validator.timeoutMs }),
      })),
    )
    const verdicts = all.flatMap(({ judge, weight, judged }): WeighedVerdict[] =>
      isFault(judged) ? [] : [{ ...judged, judge, weight }],
    )
    if (verdicts.length >= Math.max(1, validator.minJudgesRequired)) return consensusOf(validator.consensus, verdicts)
    requireTime(steps, ...(request.deadlines ?? []))
    const reasons = all.flatMap(({ judged }) => (isFault(judged) ? [judged.fault.message] : []))
    const message = `${verdicts.length} of ${all.length} judges gave a verdict; ${validator.minJudgesRequired} are required: ${reasons.join('; ')}`
    return { fault: { code: 'ERR_VALIDATOR_FAILED', message } }
  }

  return { ask, askAll }
}
export type Judges = ReturnType<typeof createJudges>

const judgeFault = (judge: string, reason: string): Fault => ({
  code: 'ERR_VALIDATOR_FAILED',
  message: `The judge '${judge}' gave no verdict: ${reason}.`,
})

/** Child runs of a delegated task belong to the same chain. */
export function delegationOf({ input }: Run): Pick<ExecutionInput, 'delegation'> {
  const { delegation } = input as unknown as ExecutionInput
  return delegation === undefined ? {} : { delegation }
}

/** A new child execution of an agent. */
export function childOf(
  agent: ResolvedAgent,
  more: Pick<ExecutionInput, 'role' | 'input' | 'workspaceId' | 'untilMs'> &
    Partial<Pick<ExecutionInput, 'intent' | 'delegation'>>,
): NewRun {
  const { id, name, version, manifest } = agent
  const input: ExecutionInput = {
    agent: { id, name, version },
    manifest,
    intent: null,
    contextOverrides: {},
    keepWorkspace: false,
    ...more,
  }
  return {
    kind: 'execution',
    subjectId: id,
    subjectName: name,
    subjectVersion: version,
    input: input as unknown as Json,
    ...(more.delegation !== undefined && { freeLevels: more.delegation.length }),
  }
}

/** The agent with a judge for each of its tool calls. */
export function withToolCallJudge(agent: ResolvedAgent, judgeAgent: string): ResolvedAgent {
  const { manifest } = agent
  const rule: SemanticValidator = { ...toolCallRule, judgeAgent }
  const execution = { ...manifest.execution, toolValidation: [...manifest.execution.toolValidation, rule] }
  return { ...agent, manifest: { ...manifest, execution } }
}

/** The defaults of a manifest that sets neither scores nor times. */
const toolCallRule = {
  type: 'semantic',
  criteria: 'The call serves the task, does no more than the task needs, and harms nothing.',
  minScore: 0.7,
  minConfidence: 0,
  timeoutMs: 300_000,
} as const

function displayedTo({ manifest }: ResolvedAgent, input: Readonly<Record<string, Json>>): Json {
  const { properties } = (manifest.inputSchema ?? {}) as { properties?: Record<string, unknown> }
  if (properties === undefined) return input
  return Object.fromEntries(Object.entries(input).filter(([name]) => Object.hasOwn(properties, name)))
}

/** The output as a judge sees it: parsed if it is JSON. */
export const displayedOutput = (text: string): Json => parseJsonOutput(text)?.value ?? text
