import { AppError } from '../../contract/app-error.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { Finalizer, Program, ProgramEnd, Run, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { MadeWorkspace } from '../runs/workspace-client.ts'
import { agentPrincipal, inherited, offeredTools } from './agent-principal.ts'
import { createBootstrapGuard } from './bootstrap.ts'
import { type Deadline, requireTime, timedOut, wholeTime, within } from './deadline.ts'
import { openDelegations } from './delegation.ts'
import { iterationEnv, loadContext } from './environment.ts'
import { runInnerLoop, type Usage } from './inner-loop.ts'
import { createJudges } from './judges.ts'
import { deliver, handleOutput } from './output-handler.ts'
import { keepsVolume, releaseRetained } from './persistent-workspace.ts'
import type { ExecutionDeps, ExecutionInput, ExecutionOutput, Fault } from './ports.ts'
import { buildTask, type LoadedContext, type PastAttempt, shortened, withAttempts } from './prompt.ts'
import { createPublishing } from './publishing.ts'
import { createToolCaller } from './tool-calls.ts'
import { createValidation } from './validation.ts'
import { type IterationOutput, withoutBootstrapLines } from './validators.ts'
import { ephemeralPaths, firstDeadline, hasTimeToLive, volumeExcess } from './volumes.ts'
import { createAgentWorkspaces, needsWorkspace, recordedWorkspace } from './workspace.ts'

const refinedKey = (iteration: number): string => `iteration-${iteration}/refined`

/** Failures that another iteration would repeat. */
const nonRetryable: ReadonlySet<ErrorCode> = new Set([
  'ERR_MODEL_UNAVAILABLE',
  'ERR_MODEL_REFUSED',
  'ERR_LIMIT_EXCEEDED',
  // The price of the model is unknown, and a limit on cost could not be enforced.
  'ERR_INVALID_INPUT',
])

/** The loop of one agent: iterations until the validators pass, or until there are no more. */
export function createExecutionProgram(deps: ExecutionDeps): Readonly<{ program: Program; finalizer: Finalizer }> {
  return {
    async program(run, steps) {
      const input = run.input as unknown as ExecutionInput
      const loop = createLoop(deps, run, input, steps)
      try {
        return await loop.run()
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== 'ERR_EXECUTION_TIMEOUT') throw error
        return await loop.failed({ code: error.code, message: error.message }, 'execution_timed_out')
      }
    },
    async finalizer(run, steps) {
      const made = recordedWorkspace(steps)
      const { manifest, workspaceId } = run.input as unknown as ExecutionInput
      const workspaces = createAgentWorkspaces(deps, run)
      const stays = made === undefined ? workspaceId : made.kept ? made.workspace_id : null
      if (stays !== null && manifest.bootstrapPath !== null) {
        await createBootstrapGuard(deps, run, manifest.bootstrapPath, steps, workspaces).putAside(stays)
      }
      if (made === undefined) return
      if (made.kept) {
        const paths = ephemeralPaths(manifest)
        if (paths.length > 0) {
          await steps.once(
            'volumes-emptied',
            async () => {
              await workspaces.empty(made.workspace_id, paths, steps.signal)
              return { result: { paths } }
            },
            { type: 'volumes_emptied' },
          )
        }
        if (keepsVolume(manifest)) await releaseRetained(workspaces, run, made.workspace_id, steps.signal)
        return
      }
      await steps.once(
        'workspace-ended',
        async () => {
          await workspaces.destroy(made.workspace_id, steps.signal)
          return { result: { workspace_id: made.workspace_id } }
        },
        { type: 'instance_terminated' },
      )
    },
  }
}

const snapshotKey = (iteration: number): string => `iteration-${iteration}/snapshot`

type Missed = Readonly<{ output: string; exit_code: number | null; reason?: string; error?: string }>

/** Without a reason and an error, the attempt was accepted. */
const pastOf = (iteration: number, { output, exit_code, reason, error }: Missed): PastAttempt => ({
  iteration,
  output,
  exit_code,
  validation_failed: reason !== undefined,
  validation_reason: reason ?? null,
  ...(reason !== undefined && { feedback: reason }),
  ...(error !== undefined && { error }),
})

/** The recorded output of an iteration's process. */
type Printed = { exit_code: number; stdout: string; stderr: string; timed_out: boolean }
/** The form in older journals. */
type OldPrinted = { exitCode: number; stdout: string; stderr: string; timedOut: boolean }
type Tried = Readonly<{ output: IterationOutput; text: string }>

function createLoop(deps: ExecutionDeps, run: Run, input: ExecutionInput, steps: Steps) {
  const { manifest } = input
  const { execution } = manifest
  const deadline = firstDeadline(wholeTime(run, input), run, input)
  const usage: Usage = { inputTokens: 0, outputTokens: 0, costUsd: null, modelCalls: 0 }
  const history: PastAttempt[] = []
  const workspaces = createAgentWorkspaces(deps, run)
  const judges = createJudges(deps, run, steps)
  const publishing = input.publishes && createPublishing(deps, run, input.publishes, steps, { judges, deadline })
  const bootstrap =
    manifest.bootstrapPath === null || input.role === 'judge'
      ? undefined
      : createBootstrapGuard(deps, run, manifest.bootstrapPath, steps, workspaces)
  const validation = createValidation(run, input, steps, { judges, workspaces, deadline })
  let lastText = ''
  let iterations = 0
  let score: number | undefined
  let workspaceId: string | null = input.workspaceId
  let keepsSnapshots = false

  async function openWorkspace(): Promise<void> {
    const isOpened = workspaceId !== null || needsWorkspace(input)
    // A refused environment is reported before a workspace is created and a model called.
    if (isOpened && input.role === 'worker') iterationEnv(deps, run, input, 0, [])
    const isBare = manifest.startupScript === null && manifest.volumes.length === 0
    if (input.preparesWorkspace && workspaceId !== null && !isBare) await prepare(workspaceId)
    if (!needsWorkspace(input)) return
    const made = await steps.once<MadeWorkspace & Json>(
      'workspace',
      async () => ({
        result: {
          ...(await within(deps.clock, steps, [deadline], (signal) =>
            input.fork === undefined
              ? workspaces.create(input, deps.allowsInternet, signal)
              : workspaces.fork(input.fork, signal),
          )),
          // A volume with a time to live must not survive in a snapshot.
          snapshots: deps.snapshots && !hasTimeToLive(manifest),
        },
      }),
      { type: 'instance_spawned' },
    )
    workspaceId = made.workspace_id
    keepsSnapshots = made.snapshots === true
    await prepare(workspaceId)
  }

  async function prepare(id: string): Promise<void> {
    await steps.once('prepared', async () => {
      const env = iterationEnv(deps, run, input, 0, [])
      await within(deps.clock, steps, [deadline], (signal) => workspaces.prepare(input, id, env, signal))
      return { result: null }
    })
    const excess = await excessAt('prepared')
    if (excess !== undefined) throw excess
  }

  const excessAt = (point: string): Promise<AppError | undefined> =>
    volumeExcess({ deps, input, steps, workspaces, workspaceId, deadline }, point)

  const readContext = (): Promise<readonly LoadedContext[]> =>
    manifest.context.length === 0
      ? Promise.resolve([])
      : steps.once('context', async () => ({
          result: await within(deps.clock, steps, [deadline], (signal) =>
            loadContext(deps, run, input, workspaces, workspaceId, signal),
          ),
        }))

  async function runAll(): Promise<ProgramEnd> {
    await openWorkspace()
    if (workspaceId !== null) await bootstrap?.remember([deadline])
    const context = await readContext()
    const principal = await agentPrincipal(deps, run, input, workspaceId)
    const delegations = await openDelegations(deps, run, input, steps, inherited(principal))
    const tools = [...offeredTools(deps.invoker, principal, manifest.tools), ...delegations.tools]
    const environment = (iteration: number) => iterationEnv(deps, run, input, iteration, history)
    const caller = createToolCaller(deps, run, input, steps, judges, {
      principal,
      tools,
      workspaceId,
      delegations,
      environment,
    })
    for (let iteration = 1; iteration <= execution.maxIterations; iteration++) {
      requireTime(steps, deadline)
      iterations = iteration
      steps.setPosition({ iteration })
      steps.note({ type: 'iteration_started', payload: { iteration } })
      const own: Deadline = {
        untilMs: steps.nowMs() + execution.iterationTimeoutMs,
        what: `iteration ${iteration}`,
        field: 'spec.execution.iteration_timeout',
        latestMs: Number.POSITIVE_INFINITY,
      }
      const end = await iterate(
        iteration,
        [deadline, own],
        async (task) => {
          const prompt = withAttempts(task, history)
          const request = {
            iteration,
            principal,
            task,
            prompt,
            tools,
            deadlines: [deadline, own],
            usage,
            handle: caller.handle,
          }
          await steps.tell()
          return await runInnerLoop(deps, input, steps, request)
        },
        context,
      )
      if (end === 'accepted') return await completed(principal)
      if (end !== 'again') return await failed(end)
    }
    const reason = history.at(-1)!
    const why = reason.error ?? reason.validation_reason ?? ''
    const message = `None of ${execution.maxIterations} iterations was accepted. The last one: ${shortened(why)}`
    return await failed({ code: 'ERR_ITERATIONS_EXHAUSTED', message })
  }

  type Inner = (task: string) => ReturnType<typeof runInnerLoop>

  async function iterate(
    iteration: number,
    deadlines: readonly Deadline[],
    inner: Inner,
    context: readonly LoadedContext[],
  ): Promise<'accepted' | 'again' | Fault> {
    const { intent, contextOverrides } = input
    try {
      const parts = { task: manifest.task, intent, input: input.input, contextOverrides, context, iteration, history }
      const task = buildTask(parts)
      const ended = await inner(task)
      if ('fault' in ended) {
        const { fault } = ended
        if (fault.code === 'ERR_EXECUTION_TIMEOUT') requireTime(steps, deadline)
        await refine(iteration, { output: '', exit_code: null, error: fault.message })
        return nonRetryable.has(fault.code) ? fault : 'again'
      }
      const { output, text } = await runProcess(iteration, ended.answer, deadlines)
      lastText = text
      const excess = await excessAt(`iteration-${iteration}`)
      if (excess !== undefined) return { code: excess.code, message: excess.message }
      const request = { iteration, output, answer: ended.answer, trail: ended.trail, task, workspaceId }
      const checked = await validation.check(request)
      if (execution.validation.length > 0) score = checked.score
      if (checked.passed) {
        const published = await publishing?.publish(iteration, text, intent ?? manifest.task.instruction)
        if (published !== undefined && 'fault' in published) return published.fault
        if (published !== undefined && 'reason' in published) {
          await refine(iteration, { output: text, exit_code: output.exitCode, reason: published.reason })
          return 'again'
        }
        lastText = published?.text ?? text
        await keepWorkspace(iteration)
        steps.note({ type: 'iteration_completed', payload: { iteration, score: checked.score } })
        if (iteration > (input.continuesAfter ?? 0)) return 'accepted'
        history.push(pastOf(iteration, { output: lastText, exit_code: output.exitCode }))
        return 'again'
      }
      await refine(iteration, { output: text, exit_code: output.exitCode, reason: checked.reason })
      return 'again'
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      // Distinguishes the deadline of the execution from that of the iteration.
      if (error.code === 'ERR_EXECUTION_TIMEOUT' && error.details['field'] === deadline.field) throw error
      await refine(iteration, { output: '', exit_code: null, error: error.message })
      return 'again'
    }
  }

  /** Runs the process of the iteration. Without a workspace, the model's answer itself is the output. */
  async function runProcess(iteration: number, answer: string, deadlines: readonly Deadline[]): Promise<Tried> {
    const id = workspaceId
    if (id === null || input.role === 'judge') {
      return { output: { exitCode: 0, stdout: answer, stderr: '' }, text: answer }
    }
    await bootstrap?.requireUnchanged(iteration, deadlines)
    const ran = await steps.once<Printed | OldPrinted>(
      `iteration-${iteration}/process`,
      async () => ({
        result: await within<Printed>(deps.clock, steps, deadlines, (signal, leftMs) =>
          workspaces.runBootstrap(
            id,
            {
              path: manifest.bootstrapPath,
              answer,
              env: iterationEnv(deps, run, input, iteration, history),
              timeoutMs: leftMs,
              outputBytesMax: limits.iterationOutputBytesMax,
            },
            signal,
          ),
        ),
      }),
      { type: 'console_output', intent: true },
    )
    const [exitCode, isLate] = 'exit_code' in ran ? [ran.exit_code, ran.timed_out] : [ran.exitCode, ran.timedOut]
    if (isLate) throw timedOut(deadlines.at(-1)!)
    const output = { exitCode, stdout: withoutBootstrapLines(ran.stdout), stderr: ran.stderr }
    return { output, text: output.stdout }
  }

  async function refine(iteration: number, missed: Missed): Promise<void> {
    const { output, exit_code, reason, error } = missed
    history.push(pastOf(iteration, missed))
    const why = reason ?? error ?? ''
    steps.note({
      type: 'iteration_failed',
      payload: { iteration, reason: why, exit_code, output: output.slice(0, 4_096) },
    })
    await keepWorkspace(iteration)
    if (iteration === execution.maxIterations) return
    steps.setPosition({ state: 'refining' })
    await steps.once(refinedKey(iteration), async () => ({ result: { iteration, feedback: why } }), {
      type: 'refinement_applied',
    })
    steps.setPosition({ state: null })
  }

  /** A fork retains the records of the iterations that it was copied with, whatever is retained of its own. */
  async function keepWorkspace(iteration: number): Promise<void> {
    const id = workspaceId
    const key = snapshotKey(iteration)
    if (id === null || !(keepsSnapshots || steps.recorded(key) !== undefined)) return
    await steps.once(key, async () => ({ result: await workspaces.snapshot(id, iteration, steps.signal) }), {
      type: 'workspace_snapshot',
    })
  }

  async function completed(principal: Principal): Promise<ProgramEnd> {
    const { outputHandler } = manifest
    if (outputHandler !== null) {
      const context = { deps, run, input, steps, principal, workspaces, deadline }
      const handled = await handleOutput(context, outputHandler, lastText)
      if ('output' in handled) lastText = handled.output
      else if (outputHandler.required) {
        return await failed({ code: 'ERR_OUTPUT_HANDLER_FAILED', message: handled.error })
      }
    }
    await deliver({ deps, run, input, steps }, 'completed', lastText, null)
    return { status: 'completed', output: output() as unknown as Json }
  }

  async function failed({ code, message, details = {} }: Fault, type = 'execution_failed'): Promise<ProgramEnd> {
    await deliver({ deps, run, input, steps }, 'failed', lastText, message)
    const error = { code, message, details }
    return { status: 'failed', output: output() as unknown as Json, error, event: { type, payload: { error } } }
  }

  const output = (): ExecutionOutput => ({
    text: lastText,
    iterations,
    ...(score !== undefined && { score }),
    workspace_id: workspaceId,
    usage: {
      input_tokens: usage.inputTokens,
      output_tokens: usage.outputTokens,
      cost_usd: usage.costUsd,
      model_calls: usage.modelCalls,
    },
  })

  return { run: runAll, failed }
}
