import { AppError } from '../../contract/app-error.ts'
import { toRunError } from '../../engine/run-error.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { consensusOf, type WeighedVerdict } from '../runs/consensus.ts'
import { displayed, memberOf } from '../templating/template-values.ts'
import { callTool } from './invoker-calls.ts'
import { askJudges, type Judgement } from './judging.ts'
import type { AgentState, ParallelAgent, ParallelAgentsState } from './manifest-schema.ts'
import { handleOutput } from './output-handlers.ts'
import { type ChildEnd, endOf, readOutput, reasonOf, runChildAgent } from './run-children.ts'
import type { Outcome, Visit } from './run-ports.ts'
import { openTime, type TimeLeft } from './run-time.ts'
import { failedBy, type RunWorkspace, workspaceOf, workspaceWrites } from './run-workspace.ts'
import { createStateTexts, type StateTexts } from './state-texts.ts'
import { copyName, makeCopy, mergeCopy } from './workspace-copies.ts'

/** The score at which the judges of a state are satisfied. */
const SATISFIED = 0.8

/** The workspace that agents of the run share, if the workflow declares one. Otherwise each has its own. */
async function sharedWorkspace(
  visit: Visit,
): Promise<Readonly<{ shared: RunWorkspace | null; id: string | null; writes: JsonObject }>> {
  if (!needsSharedWorkspace(visit)) return { shared: null, id: null, writes: {} }
  const shared = await workspaceOf(visit)
  return { shared, id: shared.id, writes: workspaceWrites(visit, shared) }
}

const needsSharedWorkspace = ({ manifest }: Visit): boolean =>
  manifest.storage.isDeclared ||
  [...manifest.states.values()].some(
    ({ kind, ...state }) =>
      kind === 'ContainerRun' ||
      kind === 'ParallelContainerRun' ||
      (kind === 'System' && (state as { command?: string }).command?.trim() !== 'update_blackboard'),
  )

/** Runs an agent. With judges, repeats with their reasons until they are satisfied. */
export async function runAgent(visit: Visit<AgentState>): Promise<Outcome> {
  const { state, context, steps } = visit
  try {
    const texts = createStateTexts(visit)
    const agent = texts('agent', state.agent, context)
    const text = state.input === null ? displayed(context['input']) : texts('input', state.input, context)
    const intent = state.intent === null ? request(context['intent']) : texts('intent', state.intent, context)
    const { isVirtualMachine } = state
    const { id: workspaceId, writes } = isVirtualMachine ? { id: null, writes: {} } : await sharedWorkspace(visit)
    const timeLeft = await openTime(visit)
    const { toolCallJudge } = state
    const always = { agent, intent, workspaceId, isVirtualMachine, isJudge: false, toolCallJudge }
    let input = text
    for (let iteration = 1; ; iteration++) {
      const request = { ...always, input: asInput(input), timeoutMs: timeLeft() }
      const end = await endOf(runChildAgent(visit, `agent-${iteration}`, request))
      const result = resultOf(end, iteration)
      if (end.status !== 'completed') return { result, writes }
      if (state.judges.length === 0)
        return { result: await handleOutput(visit, state.outputHandler, result, timeLeft), writes }
      const judged = await askJudges(visit, `judge-${iteration}`, state.judges, {
        task: requestOf(intent, text),
        output: result['output'] ?? null,
        workspaceId,
        timeLeft,
      })
      const isOver = judged.score >= SATISFIED || iteration >= state.maxIterations
      if (isOver) return { result: await finish(visit, { ...result, iterations: iteration }, judged, timeLeft), writes }
      steps.note({
        type: 'refinement_applied',
        payload: { iteration, score: judged.score, reasoning: judged.reasoning },
      })
      input = `${text}\n\nAn earlier attempt was not good enough (score ${judged.score}). What the judges said:\n${judged.reasoning}\n\nThat attempt was:\n${displayed(result['output'])}`
    }
  } catch (error) {
    return { result: { output: null, ...failedBy(error) } }
  }
}

const request = (intent: Json | undefined): string | null =>
  typeof intent === 'string' && intent !== '' ? intent : null

/** The whole request to the agent, for its judges. */
const requestOf = (intent: string | null, text: string): string => (intent === null ? text : `${intent}\n\n${text}`)

/** JSON that a template produced becomes data; any other text stays text. */
function asInput(text: string): Json {
  const trimmed = text.trim()
  if (!trimmed.startsWith('{') || !trimmed.endsWith('}')) return text
  const read = readOutput(trimmed)
  return typeof read === 'object' && read !== null ? read : text
}

function resultOf(end: ChildEnd, iterations: number): JsonObject {
  const own = memberOf(end.output, 'score')
  const marks = typeof own === 'number' ? { score: own } : {}
  const facts = { execution_id: end.id, iterations: iterationsOf(end) ?? iterations, ...marks }
  if (end.status !== 'completed') {
    return { status: 'failed', output: null, ...facts, error: reasonOf(end), ...(end.timedOut && { timeout: true }) }
  }
  const output = readOutput(textOf(end))
  const score = memberOf(output, 'score')
  return { status: 'completed', output, ...facts, ...(typeof score === 'number' && { score }) }
}

const textOf = ({ output }: ChildEnd): Json => memberOf(output, 'text') ?? output
const iterationsOf = ({ output }: ChildEnd): Json | undefined => memberOf(output, 'iterations')

/** If the judges are not satisfied, the state fails. Its score is retained for transitions that use it. */
async function finish(
  visit: Visit<AgentState>,
  result: JsonObject,
  judged: Judgement,
  timeLeft: TimeLeft,
): Promise<JsonObject> {
  const graded = { ...result, score: judged.score, confidence: judged.confidence, judges: judged.verdicts }
  if (judged.score >= SATISFIED) return await handleOutput(visit, visit.state.outputHandler, graded, timeLeft)
  return { ...graded, status: 'failed', error: `the judges did not accept it: ${judged.reasoning}` }
}

type AgentAnswer = Readonly<{ agent: string; end: ChildEnd; output: Json; verdict: WeighedVerdict | undefined }>

/** Runs several agents concurrently and computes their consensus. */
export async function runAgents(visit: Visit<ParallelAgentsState>): Promise<Outcome> {
  try {
    const { shared, writes } = await sharedWorkspace(visit)
    const timeLeft = await openTime(visit)
    const texts = createStateTexts(visit)
    const { agents } = visit.state
    const isCopied = shared !== null && agents.length > 1
    const collected = await Promise.all(
      agents.map(async (agent, index) => {
        const workspaceId = isCopied ? await copyFor(visit, shared, index) : (shared?.id ?? null)
        return await askOne(visit, texts, agent, index, { workspaceId, timeLeft })
      }),
    )
    const answers = isCopied ? await mergedAnswers(visit, shared, collected) : collected
    const result = consensusResult(visit.state, answers)
    if (result['status'] === 'failed') return { result, writes }
    return { result: await handleOutput(visit, visit.state.outputHandler, result, timeLeft), writes }
  } catch (error) {
    return { result: { output: null, ...failedBy(error) } }
  }
}

const copyKey = (index: number): string => `agent-${index + 1}`

const copyFor = (visit: Visit, shared: RunWorkspace, index: number): Promise<string> =>
  visit.steps.once<string>(
    visit.key(`${copyKey(index)}/copy`),
    async () => ({ result: await makeCopy(visit, shared, copyName(visit, copyKey(index))) }),
    { intent: true },
  )

/** Merged in the order of the state: if two agents wrote the same file, the later one has failed. */
async function mergedAnswers(
  visit: Visit,
  shared: RunWorkspace,
  answers: readonly AgentAnswer[],
): Promise<readonly AgentAnswer[]> {
  const merged: AgentAnswer[] = []
  for (const [index, answer] of answers.entries()) {
    const problem = await mergeOf(visit, shared, index, answer.agent)
    merged.push(
      problem === null ? answer : { ...answer, end: unmerged(answer.end, problem), output: null, verdict: undefined },
    )
  }
  return merged
}

type Problem = NonNullable<ChildEnd['error']>

const unmerged = (end: ChildEnd, error: Problem): ChildEnd => ({ ...end, status: 'failed', error })

const mergeOf = (visit: Visit, shared: RunWorkspace, index: number, agent: string): Promise<Problem | null> =>
  visit.steps.once<(Problem & Json) | null>(
    visit.key(`${copyKey(index)}/merged`),
    async ({ interrupted }) => {
      const name = copyName(visit, copyKey(index))
      const copy = { name, step: agent, again: interrupted }
      const problem = await mergeCopy(visit, shared, copy).then(() => null, asProblem)
      await callTool(visit, 'workspace_destroy', { workspace_id: name })
      return { result: problem }
    },
    { intent: true },
  )

function asProblem(error: unknown): Problem & Json {
  if (!(error instanceof AppError) || error.code === 'ERR_CANCELLED') throw error
  return toRunError(error)
}

async function askOne(
  visit: Visit<ParallelAgentsState>,
  texts: StateTexts,
  one: ParallelAgent,
  index: number,
  { workspaceId, timeLeft }: Readonly<{ workspaceId: string | null; timeLeft: TimeLeft }>,
): Promise<AgentAnswer> {
  const { context, state } = visit
  const agent = texts(`agents[${index}].agent`, one.agent, context)
  const text = texts(`agents[${index}].input`, one.input, context)
  const intent = request(context['intent'])
  const end = await endOf(
    runChildAgent(visit, `agent-${index + 1}`, {
      agent,
      input: asInput(text),
      intent,
      workspaceId,
      isJudge: false,
      timeoutMs: timeLeft(one.timeoutMs),
    }),
  )
  if (end.status !== 'completed') return { agent, end, output: null, verdict: undefined }
  const output = readOutput(textOf(end))
  const judged =
    state.judges.length === 0
      ? ownVerdict(output)
      : await askJudges(visit, `judge-${index + 1}`, state.judges, {
          task: requestOf(intent, text),
          output,
          workspaceId,
          timeLeft,
        })
  const verdict = judged && {
    score: judged.score,
    confidence: judged.confidence,
    reasoning: judged.reasoning,
    signals: [],
    judge: agent,
    weight: one.weight,
  }
  return { agent, end, output, verdict }
}

function ownVerdict(output: Json): Pick<WeighedVerdict, 'score' | 'confidence' | 'reasoning'> | undefined {
  const [score, confidence] = [memberOf(output, 'score'), memberOf(output, 'confidence')]
  if (typeof score !== 'number' || score < 0 || score > 1) return undefined
  return {
    score,
    confidence: typeof confidence === 'number' ? Math.min(1, Math.max(0, confidence)) : 1,
    reasoning: displayed(memberOf(output, 'reasoning')),
  }
}

function consensusResult({ consensus }: ParallelAgentsState, answers: readonly AgentAnswer[]): JsonObject {
  const agents = answers.map(({ agent, end, output, verdict }) => ({
    agent,
    execution_id: end.id,
    status: end.status,
    output,
    ...(end.status !== 'completed' && { error: reasonOf(end) }),
    ...(verdict && { score: verdict.score, confidence: verdict.confidence, reasoning: verdict.reasoning }),
  }))
  const verdicts = answers.flatMap(({ verdict }) => verdict ?? [])
  const best = answers.toSorted((a, b) => (b.verdict?.score ?? -1) - (a.verdict?.score ?? -1))[0]
  const facts: JsonObject = {
    agents,
    individual_scores: verdicts.map(({ score }) => score),
    output: best?.output ?? null,
  }
  if (verdicts.length < consensus.minJudgesRequired) {
    const error = `${verdicts.length} of ${answers.length} agents answered with a score; ${consensus.minJudgesRequired} are required`
    return { status: 'failed', ...facts, error, ...(answers.some(({ end }) => end.timedOut) && { timeout: true }) }
  }
  const { agreementFactor, selfConfidenceFactor } = consensus.confidenceWeighting
  const grade = consensusOf(consensus.strategy, verdicts, {
    ...(consensus.threshold !== null && { threshold: consensus.threshold }),
    ...(consensus.n !== null && { n: consensus.n }),
    agreementFactor,
    confidenceFactor: selfConfidenceFactor,
  })
  const found = {
    score: grade.score,
    confidence: grade.confidence,
    strategy: consensus.strategy,
    metadata: grade.metadata as Json,
  }
  const isAgreed = consensus.agreement === null || grade.confidence >= consensus.agreement
  if (isAgreed) return { status: 'completed', consensus: found, ...facts }
  const error = `the agents agree with a confidence of ${grade.confidence}; ${consensus.agreement} is required`
  return { status: 'failed', consensus: found, ...facts, error }
}
