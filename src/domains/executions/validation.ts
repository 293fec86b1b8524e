import { AppError } from '../../contract/app-error.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { Grade } from '../runs/consensus.ts'
import { isPassed } from '../runs/verdicts.ts'
import { auditHistory, type TrailStep } from './audit-trail.ts'
import type { Deadline } from './deadline.ts'
import { displayedOutput, type Judges } from './judges.ts'
import type { ExecutionInput, Fault } from './ports.ts'
import { gradeByRule, type IterationOutput, isMachineValidator, type Validator } from './validators.ts'
import type { AgentWorkspaces } from './workspace.ts'

type Checked =
  | Readonly<{ passed: true; score: number }>
  | Readonly<{ passed: false; score: number; reason: string; isFault: boolean }>

type CheckRequest = Readonly<{
  iteration: number
  output: IterationOutput
  answer: string
  trail: readonly TrailStep[]
  task: string
  workspaceId: string | null
}>

/**
 * Runs the validators of the manifest in order and stops at the first that does not pass. A validator that fails counts as not
 * passed.
 */
export function createValidation(
  run: Run,
  { manifest }: ExecutionInput,
  steps: Steps,
  parts: Readonly<{ judges: Judges; workspaces: AgentWorkspaces; deadline: Deadline }>,
) {
  const deadlines = [parts.deadline]

  async function check(request: CheckRequest): Promise<Checked> {
    let score = 1
    for (const [index, validator] of manifest.execution.validation.entries()) {
      const key = `iteration-${request.iteration}/validator-${index + 1}`
      const graded = await grade(key, validator, request)
      const isFault = 'fault' in graded
      const passed = !isFault && isPassed(graded, validator)
      steps.note({ type: 'gradient_validation_performed', payload: eventOf(validator, index, graded, passed) })
      if (isFault) return { passed: false, score: 0, reason: graded.fault.message, isFault }
      if (!passed) return { passed, score: graded.score, reason: reasonOf(validator, graded), isFault }
      score = graded.score
    }
    return { passed: true, score }
  }

  async function grade(
    key: string,
    validator: Validator,
    request: CheckRequest,
  ): Promise<Grade | Readonly<{ fault: Fault }>> {
    try {
      if (isMachineValidator(validator)) {
        const file = await targetFile(key, validator, request)
        // A rule may take a second, and there may be many, so the loop yields.
        await new Promise((resolve) => setImmediate(resolve))
        return gradeByRule(validator, request.output, file)
      }
      if (validator.type === 'multi_judge') {
        const input = { ...displayed(request), criteria: validator.criteria, validation_context: 'multi_judge' }
        const graded = await parts.judges.askAll(key, validator, { input, workspaceId: request.workspaceId, deadlines })
        if (!('fault' in graded)) {
          const { consensus: strategy } = validator
          const { score, confidence, metadata } = graded
          steps.note({ type: 'multi_judge_consensus', payload: { strategy, score, confidence, metadata } })
        }
        return graded
      }
      const verdict = await parts.judges.ask(key, {
        agent: validator.judgeAgent,
        timeoutMs: validator.timeoutMs,
        deadlines,
        workspaceId: request.workspaceId,
        input: {
          ...displayed(request),
          generation_evidence: { answer: request.answer.slice(0, 4_096), exit_code: request.output.exitCode },
          tool_audit_history: auditHistory(run.id, request.iteration, request.trail),
          policy_violations: request.trail.filter(({ status }) => status === 'rejected') as unknown as Json,
          criteria: validator.criteria,
          validation_context: 'semantic_judge',
        },
      })
      return 'fault' in verdict ? verdict : { ...verdict, metadata: {} }
    } catch (error) {
      if (!(error instanceof AppError) || error.code === 'ERR_EXECUTION_TIMEOUT') throw error
      return { fault: { code: error.code, message: error.message } }
    }
  }

  const displayed = ({ task, output }: CheckRequest) => ({
    task,
    output: displayedOutput(output.stdout),
    worker_mounts: manifest.volumes.map(({ mountPath }) => mountPath),
  })

  async function targetFile(key: string, validator: Validator, { workspaceId }: CheckRequest) {
    if (validator.type !== 'regex' || validator.target === 'stdout' || validator.target === 'stderr') return undefined
    if (workspaceId === null) return undefined
    const path = validator.target.startsWith('/') ? validator.target : `/workspace/${validator.target}`
    const read = await steps.once<{ content: string | null }>(`${key}/file`, async () => {
      try {
        return { result: { content: await parts.workspaces.readFile(workspaceId, path, steps.signal) } }
      } catch (error) {
        if (error instanceof AppError && error.code === 'ERR_FILE_NOT_FOUND') return { result: { content: null } }
        throw error
      }
    })
    return read.content ?? undefined
  }

  return { check }
}

const eventOf = (
  { type }: Validator,
  index: number,
  graded: Grade | Readonly<{ fault: Fault }>,
  passed: boolean,
): Json =>
  'fault' in graded
    ? { validator: type, position: index + 1, passed, error: graded.fault.message }
    : {
        validator: type,
        position: index + 1,
        passed,
        score: graded.score,
        confidence: graded.confidence,
        reasoning: graded.reasoning.slice(0, 2_048).toWellFormed(),
        metadata: graded.metadata,
      }

function reasonOf(validator: Validator, { score, confidence, reasoning }: Grade): string {
  if (isMachineValidator(validator)) return `${validator.type}: ${reasoning}`
  return `${validator.type}: score ${score} and confidence ${confidence}; ${validator.minScore} and ${validator.minConfidence} are required: ${reasoning}`
}
