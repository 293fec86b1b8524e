import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { NewEvent } from '../../engine/ports.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { pause } from '../../kernel/pause.ts'
import { shellWord } from '../../kernel/shell-word.ts'
import { namedFailure } from '../runs/tool-client.ts'
import { findImage, requireCredentials, requireImage } from './container-images.ts'
import { type MountedVolume, mountedVolumes, mountScript, volumePath } from './container-volumes.ts'
import { askTool, callTool } from './invoker-calls.ts'
import type { ContainerRunState, ContainerStep, ParallelContainerRunState } from './manifest-schema.ts'
import { handleOutput } from './output-handlers.ts'
import {
  closePersistentVolume,
  copyFromPersistent,
  copyToPersistent,
  openPersistentVolume,
  type PersistentVolume,
} from './persistent-volumes.ts'
import { changeNetwork, type NetworkChange, networkPolicies, planNetwork, undoNetwork } from './run-network.ts'
import type { Outcome, Visit } from './run-ports.ts'
import { execNow } from './run-system.ts'
import { openTime, type TimeLeft } from './run-time.ts'
import { destroy, failedBy, type RunWorkspace, workspaceOf, workspaceWrites } from './run-workspace.ts'
import { createStateTexts, renderEach, type StateTexts } from './state-texts.ts'
import { type CopyEnd, copyIn, mergeBack } from './volume-copies.ts'
import { copyName, makeCopy, mergeCopy } from './workspace-copies.ts'

/**
 * A container step, on the back end of the workspaces. It runs in the workspace of the run if it may write there. A step with
 * another image, a read-only root, or volumes that are read-only or of another workspace gets a workspace of its own: its volumes
 * are copied in, its changes to writable volumes are merged back, and the rest is discarded. A step that runs concurrently with
 * another writer gets a copy of the run's workspace, which is merged back, so that neither overwrites the other's files.
 */
export async function runContainer(visit: Visit<ContainerRunState>): Promise<Outcome> {
  const { state } = visit
  try {
    const workspace = await workspaceOf(visit)
    const command = commandOf(visit, createStateTexts(visit), state.step)
    const timeLeft = await openTime(visit)
    const { output, attempts } = await runAttempts(visit, workspace, command, timeLeft)
    const displayed = displayedOutput(output, attempts)
    const status = output['exit_code'] === 0 ? 'success' : 'failed'
    const result = { status, ...displayed, output: displayed }
    const handler = status === 'success' ? state.outputHandler : null
    return {
      result: await handleOutput(visit, handler, result, timeLeft),
      writes: workspaceWrites(visit, workspace),
    }
  } catch (error) {
    const failed = failedBy(error)
    const displayed = { exit_code: null, stdout: '', stderr: '', duration_ms: 0, attempts: 0 }
    return { result: { ...displayed, output: displayed, ...failed } }
  }
}

async function runAttempts(
  visit: Visit<ContainerRunState>,
  workspace: RunWorkspace,
  command: StepCommand,
  timeLeft: TimeLeft,
): Promise<Readonly<{ output: JsonObject; attempts: number }>> {
  const { step, retry } = visit.state
  const attemptsMax = Math.max(1, retry.maxAttempts)
  const network = await planNetwork(visit, workspace, step)
  try {
    for (let attempt = 1; ; attempt++) {
      const delayMs = attempt === 1 ? 0 : retry.backoffMs
      const how = { delayMs, attempt, command, timeLeft, network }
      const output = await runStep(visit, workspace, step, `run-${attempt}`, how)
      const isOver = output['out_of_time'] === true || attempt >= attemptsMax || visit.steps.signal.aborted
      if (output['exit_code'] === 0 || isOver) return { output, attempts: attempt }
    }
  } finally {
    await undoNetwork(visit)
  }
}

const displayedOutput = ({ status: _, out_of_time: isLate, ...output }: JsonObject, attempts: number): JsonObject => ({
  ...output,
  ...(isLate === true && { timeout: true }),
  attempts,
})

export async function runContainers(visit: Visit<ParallelContainerRunState>): Promise<Outcome> {
  const { state } = visit
  try {
    const workspace = await workspaceOf(visit)
    const texts = createStateTexts(visit)
    const timeLeft = await openTime(visit)
    const copied = await stepsToCopy(visit, workspace, texts)
    const outputs = await Promise.all(
      state.steps.map(async (step, index): Promise<readonly [string, JsonObject]> => {
        try {
          const command = commandOf(visit, texts, step)
          const isCopied = copied.has(step)
          const first = { delayMs: 0, attempt: 1, command, timeLeft, network: null, isCopied }
          const { out_of_time: _, ...output } = await runStep(visit, workspace, step, `step-${index + 1}`, first)
          return [step.name, output]
        } catch (error) {
          return [step.name, { exit_code: null, stdout: '', stderr: '', ...failedBy(error) }]
        }
      }),
    )
    const results = outputs.map(([name, output]) => ({
      name,
      ...output,
      status: output['exit_code'] === 0 ? 'success' : 'failed',
    }))
    const succeeded = results.filter(({ status }) => status === 'success').length
    const failed = results.length - succeeded
    const overall = isOverallSuccess(state.completion, succeeded, failed)
    return {
      result: {
        status: overall ? 'success' : 'failed',
        overall_success: overall,
        succeeded,
        failed,
        output: Object.fromEntries(results.map(({ name, ...output }) => [name, output as Json])),
        results,
      },
      writes: workspaceWrites(visit, workspace),
    }
  } catch (error) {
    return {
      result: {
        overall_success: false,
        succeeded: 0,
        failed: state.steps.length,
        output: {},
        results: [],
        ...failedBy(error),
      },
    }
  }
}

/** The steps that would work in the run's workspace while another step may write to it. */
async function stepsToCopy(
  visit: Visit<ParallelContainerRunState>,
  workspace: RunWorkspace,
  texts: StateTexts,
): Promise<ReadonlySet<ContainerStep>> {
  const { steps } = visit.state
  const writers = await Promise.all(
    steps.map(async (step) => {
      // A step whose image cannot be resolved fails on its own.
      const found = await findImage(imageOf(visit, texts, step), visit.deps.images).catch(() => undefined)
      const volumes = mountedVolumes(visit, step.volumes)
      const isInside = found?.image === workspace.image && !needsOwnWorkspace(step, volumes)
      return { step, isInside, writes: isInside || volumes.some(isWrittenInside) }
    }),
  )
  const isAlone = writers.filter(({ writes }) => writes).length < 2
  return new Set(isAlone ? [] : writers.flatMap(({ step, isInside }) => (isInside ? step : [])))
}

const isWrittenInside = ({ readOnly, from, retained }: MountedVolume): boolean =>
  !readOnly && from === null && retained === null

/** Whether a step needs a workspace of its own, whatever its image. */
const needsOwnWorkspace = ({ readOnlyRoot }: ContainerStep, volumes: readonly MountedVolume[]): boolean =>
  readOnlyRoot || volumes.some(({ readOnly, from, retained }) => readOnly || from !== null || retained !== null)

function isOverallSuccess(
  completion: ParallelContainerRunState['completion'],
  succeeded: number,
  failed: number,
): boolean {
  if (completion === 'best_effort') return true
  return completion === 'any_succeed' ? succeeded > 0 : failed === 0
}

type Attempt = Readonly<{
  delayMs: number
  attempt: number
  command: StepCommand
  timeLeft: TimeLeft
  network: NetworkChange | null
  isCopied?: boolean
}>

async function runStep(
  visit: Visit,
  workspace: RunWorkspace,
  step: ContainerStep,
  key: string,
  { delayMs, attempt, command: rendered, timeLeft, network, isCopied = false }: Attempt,
): Promise<JsonObject> {
  return await visit.steps.once<JsonObject & Json>(
    visit.key(key),
    async ({ interrupted }) => {
      if (delayMs > 0) await pause(timeLeft(delayMs) ?? delayMs, visit.steps.signal)
      const command = { ...rendered, timeoutMs: timeLeft(rendered.timeoutMs) ?? rendered.timeoutMs }
      requireCredentials(visit.deps, visit.run, visit.position.state, step)
      const chosen = await requireImage(rendered.image, visit.deps.images, step.isImageReplaceable)
      const volumes = mountedVolumes(visit, step.volumes)
      const placed = { ...step, volumes }
      const own = { ...command, image: chosen.image, key }
      const isElsewhere = needsOwnWorkspace(step, volumes) || chosen.image !== workspace.image
      if (!isElsewhere && !isCopied) await changeNetwork(visit, network)
      const result = isElsewhere
        ? await runIsolated(visit, workspace, placed, own)
        : isCopied
          ? await runInCopy(visit, workspace, placed, own)
          : await run(visit, workspace.id, placed, command)
      const events: NewEvent[] = [
        ...(chosen.isStandIn ? [substituted(step, rendered.image, chosen.image)] : []),
        ...(interrupted
          ? [{ type: 'step_repeated', payload: { step: step.name, reason: 'the server stopped while it ran' } }]
          : []),
        {
          type: 'container_run_completed',
          payload: { step: step.name, image: chosen.image, attempt, exit_code: result['exit_code'] ?? null },
        },
      ]
      // Recorded with the attempt, so that a replay does not retry either.
      const isLate = result['exit_code'] !== 0 && timeLeft() === 1
      return { result: isLate ? { ...result, out_of_time: true } : result, events }
    },
    { intent: true },
  )
}

const substituted = ({ name }: ContainerStep, image: string, used: string): NewEvent => ({
  type: 'container_image_substituted',
  payload: { step: name, image, used, reason: 'there is no such image here; the configuration names this one for it' },
})

type StepCommand = Readonly<{
  image: string
  line: string
  env: Record<string, string>
  workdir: string
  timeoutMs: number
}>

function commandOf({ context, state }: Visit, texts: StateTexts, step: ContainerStep): StepCommand {
  const words = step.command.map((word) => texts('command', word, context)).filter((word) => word !== '')
  const env = renderEach(texts, 'env', step.env, context)
  const inputs = context['INTENT_INPUTS']
  if (inputs !== undefined && !Object.hasOwn(env, 'INTENT_INPUTS')) {
    env['INTENT_INPUTS'] = typeof inputs === 'string' ? inputs : JSON.stringify(inputs)
  }
  return {
    image: imageOf({ context }, texts, step),
    line: step.shell ? words.join(' ') : `exec ${words.map(shellWord).join(' ')}`,
    env,
    workdir: texts('workdir', step.workdir ?? '/workspace', context),
    timeoutMs: step.resources.timeoutMs ?? state.timeoutMs ?? limits.workflowCommandTimeoutMs,
  }
}

const imageOf = ({ context }: Pick<Visit, 'context'>, texts: StateTexts, { image }: ContainerStep): string =>
  texts('image', image, context).trim()

const withMounts = (step: ContainerStep, { line, workdir }: StepCommand): string =>
  [mountScript(step.volumes), `cd ${shellWord(workdir)} || exit 125`, line].filter((part) => part !== '').join('\n')

const run = (visit: Visit, workspace: string, step: ContainerStep, command: StepCommand): Promise<JsonObject> =>
  execNow(visit, {
    workspace_id: workspace,
    command: withMounts(step, command),
    workdir: '/',
    env: command.env,
    timeoutMs: command.timeoutMs,
  })

async function runInCopy(
  visit: Visit,
  shared: RunWorkspace,
  step: ContainerStep,
  command: StepCommand & Readonly<{ key: string }>,
): Promise<JsonObject> {
  const name = copyName(visit, command.key)
  await makeCopy(visit, shared, name)
  try {
    if (step.network !== 'default')
      await askTool(visit, 'network_policy', { workspace_id: name, ...networkPolicies[step.network] })
    const result = await run(visit, name, step, command)
    await mergeCopy(visit, shared, { name, step: step.name })
    return result
  } finally {
    await callTool(visit, 'workspace_destroy', { workspace_id: name })
  }
}

async function runIsolated(
  visit: Visit,
  shared: RunWorkspace,
  step: Omit<ContainerStep, 'volumes'> & Readonly<{ volumes: readonly MountedVolume[] }>,
  command: StepCommand & Readonly<{ key: string }>,
): Promise<JsonObject> {
  const name = copyName(visit, command.key)
  const { cpuMillis, memoryMb } = step.resources
  // A workspace that a crash left behind holds half a step.
  await destroy(visit, name)
  const made = await callTool(visit, 'workspace_create', {
    name,
    base_image: command.image,
    ...(cpuMillis !== null && { vcpus: Math.ceil(cpuMillis / 1000) }),
    ...(memoryMb !== null && { memory_mb: memoryMb }),
    ...(step.network !== 'default' && { allow_internet: step.network === 'bridge' }),
  })
  if (made.isError) throw namedFailure('workspace_create', made)
  const opened = new Map<string, PersistentVolume>()
  try {
    const copied = step.volumes.map((volume) => {
      const own = { workspace: name, path: volumePath(volume.name) }
      const mark = `/tmp/.${name}-${volume.name}`
      return { ...volume, own, copy: { volume: volume.name, retained: sharedVolumeEnd(shared, volume), own, mark } }
    })
    for (const volume of copied) {
      if (volume.retained === null) await copyIn(visit, volume.copy)
      else {
        const retained = await openPersistentVolume(visit, volume.retained)
        opened.set(volume.name, retained)
        await copyFromPersistent(visit, retained, volume.own)
      }
    }
    const result = await run(visit, name, step, command)
    const problems: AppError[] = []
    for (const volume of copied.filter(({ readOnly }) => !readOnly)) {
      const retained = opened.get(volume.name)
      try {
        if (retained === undefined) await mergeBack(visit, step.name, volume.copy)
        else await copyToPersistent(visit, step.name, volume.own, retained)
      } catch (error) {
        // The changes to the other volumes must not be lost with this one.
        if (!(error instanceof AppError) || error.code === 'ERR_CANCELLED') throw error
        problems.push(error)
      }
    }
    if (problems.length > 0) throw problems[0]
    return result
  } finally {
    for (const retained of opened.values()) await closePersistentVolume(visit, retained)
    await callTool(visit, 'workspace_destroy', { workspace_id: name })
  }
}

/** The workspace and path of a volume: of the run, or of the workspace that the blackboard names. */
const sharedVolumeEnd = (shared: RunWorkspace, { name, from }: MountedVolume): CopyEnd =>
  from === null ? { workspace: shared.id, path: volumePath(name) } : { workspace: from, path: volumePath('workspace') }
