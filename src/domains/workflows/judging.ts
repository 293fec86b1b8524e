import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { consensusOf, type WeighedVerdict } from '../runs/consensus.ts'
import { readVerdict } from '../runs/verdicts.ts'
import { displayed, memberOf } from '../templating/template-values.ts'
import type { JudgeRef } from './manifest-schema.ts'
import { type ChildEnd, endOf, reasonOf, runChildAgent } from './run-children.ts'
import type { Visit } from './run-ports.ts'
import type { TimeLeft } from './run-time.ts'
import { createStateTexts, type StateTexts } from './state-texts.ts'

export type Judgement = Readonly<{
  score: number
  confidence: number
  reasoning: string
  verdicts: readonly JsonObject[]
}>

const JUDGE_TIMEOUT_MS = 300_000

/** Asks all judges of a state concurrently. A judge without a verdict counts as not satisfied, with its reason. */
export async function askJudges(
  visit: Visit,
  step: string,
  judges: readonly JudgeRef[],
  work: Readonly<{ task: string; output: Json; workspaceId: string | null; timeLeft: TimeLeft }>,
): Promise<Judgement> {
  const texts = createStateTexts(visit, 'judge')
  const verdicts = await Promise.all(
    judges.map(async (judge, index): Promise<WeighedVerdict> => {
      const end = await endOf(
        runChildAgent(visit, `${step}-${index + 1}`, {
          agent: judge.agent,
          input: inputFor(visit, texts, judge, work),
          intent: null,
          workspaceId: work.workspaceId,
          isJudge: true,
          timeoutMs: work.timeLeft(JUDGE_TIMEOUT_MS),
        }),
      )
      return { ...verdictOf(end), judge: judge.agent, weight: judge.weight }
    }),
  )
  const { score, confidence, reasoning } = consensusOf('weighted_average', verdicts)
  const displayedVerdicts = verdicts.map(({ judge, weight, score: one, confidence: sure, reasoning: why }) => ({
    judge,
    weight,
    score: one,
    confidence: sure,
    reasoning: why,
  }))
  return { score, confidence, reasoning, verdicts: displayedVerdicts }
}

function inputFor(
  { context }: Visit,
  texts: StateTexts,
  { inputTemplate }: JudgeRef,
  { task, output }: Readonly<{ task: string; output: Json }>,
): Json {
  if (inputTemplate === null) return { task, output, validation_context: 'workflow_state' }
  return texts('judges.input_template', inputTemplate, { ...context, task, output })
}

function verdictOf(end: ChildEnd): Pick<WeighedVerdict, 'score' | 'confidence' | 'reasoning' | 'signals'> {
  const verdict =
    end.status === 'completed' ? readVerdict(displayed(memberOf(end.output, 'text') ?? end.output)) : undefined
  if (verdict !== undefined) return verdict
  const reason = end.status === 'completed' ? 'its answer is not a verdict' : reasonOf(end)
  return { score: 0, confidence: 0, reasoning: `no verdict: ${reason}`, signals: [] }
}
