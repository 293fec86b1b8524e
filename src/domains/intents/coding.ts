import type { ErrorCode } from '../../contract/error-codes.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { ResolvedAgent } from '../agents/service.ts'
import { childOf, createJudges } from '../executions/judges.ts'
import { hasModel } from '../executions/model.ts'
import type { ExecutionOutput } from '../executions/ports.ts'
import { isPassed } from '../runs/verdicts.ts'
import { shippedAgent } from './authors.ts'
import { languageRules, programIn } from './languages.ts'
import type { FoundAgent } from './ports.ts'
import type { CallContext, StateHandlers } from './program.ts'
import { CODE_CRITERIA, codePrompt } from './prompts.ts'
import type { Move } from './visit-counter.ts'
import { createWorkbench, type Ran } from './workbench.ts'

const FORMATTER = 'intent-result-formatter'
const JUDGE = 'code-quality-judge'
const JUDGE_ALIAS = 'judge'
const JUDGE_MS = 180_000
const FORMAT_MS = 120_000
const CHECK_SECS = 60
const NOT_FOUND = 127
/** Failures that a retry would meet again. */
const nonRetryable: ReadonlySet<ErrorCode> = new Set(['ERR_MODEL_UNAVAILABLE', 'ERR_MODEL_REFUSED', 'ERR_MODEL_FAILED'])
const scoreRule = { minScore: 0.7 }
const DISPLAYED_CHARS_MAX = 4_000
const FORMATTED_CHARS_MAX = 60_000

/** Generates, checks and runs the program, and formats its output. */
export function createCoding(
  { deps, run, input, steps, board }: CallContext,
  agent: () => ResolvedAgent,
): Omit<StateHandlers, 'agent_discovery' | 'agent_generation'> {
  const bench = createWorkbench(deps, run, input, steps)
  const judges = createJudges(deps, run, steps)
  const rules = languageRules[input.language]

  async function workspace(): Promise<string> {
    const { workspace_id } = await bench.open()
    board.workspace_id = workspace_id
    return workspace_id
  }

  async function generate(visit: number): Promise<Move> {
    const id = await workspace()
    await steps.once(`code-${visit}/cleared`, async () => {
      await bench.clear(id)
      return { result: null }
    })
    const prompt = codePrompt(input, bench.path, board)
    const supplied: Json = { prompt, language: input.language, path: bench.path, inputs: input.inputs }
    const start = childOf(agent(), {
      role: 'worker',
      input: supplied,
      intent: input.intent,
      workspaceId: id,
      untilMs: null,
    })
    const outcome = await steps.child(`code-${visit}/agent`, start)
    if (outcome.status !== 'completed') {
      const { code, message } = outcome.error ?? { code: undefined, message: `the agent was ${outcome.status}` }
      return code !== undefined && nonRetryable.has(code)
        ? { stop: `${code}: ${message}` }
        : { to: 'code_generation', reason: message }
    }
    const { text } = outcome.output as unknown as ExecutionOutput
    const code = await steps.once<string | null>(`code-${visit}/program`, async () => {
      const written = await bench.read(id)
      if (written !== undefined && written.trim() !== '') return { result: written }
      const answered = programIn(text, input.language)
      if (answered !== undefined && answered.trim() !== '') await bench.write(id, answered)
      return { result: answered?.trim() ? answered : null }
    })
    if (code === null)
      return { to: 'code_generation', reason: 'the answer contained no program, and no file was written' }
    board.code = code
    return { to: 'code_validation' }
  }

  async function validate(visit: number): Promise<Move> {
    const id = await workspace()
    const checked = await once(`check-${visit}`, () =>
      bench.exec(id, `${rules.check} ${bench.path}`, { timeout_secs: CHECK_SECS }),
    )
    if (checked.exit_code === NOT_FOUND) return { stop: missingLanguage() }
    if (checked.exit_code !== 0) {
      return { to: 'code_generation', reason: `it is not a ${rules.title} program: ${tail(checked.stderr)}` }
    }
    if (!hasModel(deps.models, JUDGE_ALIAS)) return { to: 'code_execution' }
    const displayed = {
      task: input.intent,
      output: board.code,
      criteria: CODE_CRITERIA,
      validation_context: 'intent_code',
    }
    const request = { agent: JUDGE, isOfPlatform: true, input: displayed, workspaceId: id, timeoutMs: JUDGE_MS }
    const verdict = await judges.ask(`check-${visit}/judge`, request)
    if ('fault' in verdict) return { to: 'code_generation', reason: verdict.fault.message }
    if (isPassed(verdict, scoreRule)) return { to: 'code_execution' }
    return { to: 'code_generation', reason: `a review gave it ${verdict.score} of 1: ${verdict.reasoning}` }
  }

  async function execute(visit: number): Promise<Move> {
    const id = await workspace()
    const env = { INTENT_INPUTS: JSON.stringify(input.inputs) }
    const ran = await once(`run-${visit}`, () =>
      bench.exec(id, `${rules.run} ${bench.path}`, { timeout_secs: input.timeoutSecs, env }),
    )
    board.exit_code = ran.exit_code
    board.stdout = ran.stdout
    board.stderr = ran.stderr
    if (ran.timed_out) {
      return { to: 'code_generation', reason: `it did not finish within ${input.timeoutSecs} s and was stopped` }
    }
    if (ran.exit_code === 0) return { to: 'result_formatting' }
    const reason = `it exited with code ${ran.exit_code}: ${tail(ran.stderr) || tail(ran.stdout)}`
    return { to: 'code_generation', reason }
  }

  const once = (key: string, work: () => Promise<Ran>): Promise<Ran> =>
    steps.once<Ran & Json>(key, async () => ({ result: (await work()) as Ran & Json }), {
      type: 'console_output',
      intent: true,
    })

  /** Formatting is optional: if it fails, the raw output is the result. */
  async function format(): Promise<Move> {
    const output = board.stdout ?? ''
    const formatter = await steps.once<FoundAgent | null>('formatter', async () => {
      const { manifest } = await deps.agents.template(FORMATTER)
      const isThere = hasModel(deps.models, manifest.runtime.model) || hasModel(deps.models, 'default')
      return { result: isThere ? ((await shippedAgent(deps, FORMATTER)) as FoundAgent) : null }
    })
    if (formatter === null || output.length > FORMATTED_CHARS_MAX) return { done: output }
    const prompt = `The request:\n${input.intent}\n\nThe output of the program:\n${output}`
    const untilMs = steps.nowMs() + FORMAT_MS
    const start = childOf(formatter, { role: 'worker', input: { prompt }, workspaceId: null, untilMs })
    const outcome = await steps.child('format', start)
    if (outcome.status !== 'completed') return { done: output }
    return { done: (outcome.output as unknown as ExecutionOutput).text }
  }

  const missingLanguage = (): string =>
    `the workspace has no '${rules.run}', so ${rules.title} programs cannot run; use another language, or an image that has it (workspaces.default_image)`

  return { code_generation: generate, code_validation: validate, code_execution: execute, result_formatting: format }
}

/** The end of an output usually holds the reason. */
const tail = (text: string): string => text.trim().slice(-DISPLAYED_CHARS_MAX).toWellFormed()
