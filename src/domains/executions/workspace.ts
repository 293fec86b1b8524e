import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { InvocationResult } from '../../contract/tool-invoker.ts'
import { failureOf } from '../../contract/tool-invoker.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import { counted } from '../../kernel/counted.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { shellWord } from '../../kernel/shell-word.ts'
import { createToolClient } from '../runs/tool-client.ts'
import {
  createWorkspaceClient,
  type MadeWorkspace,
  reachesAll,
  type Sizes,
  sizesOf,
  type WorkspaceNeeds,
} from '../runs/workspace-client.ts'
import { lockRetained } from './persistent-workspace.ts'
import type { ExecutionDeps, ExecutionInput } from './ports.ts'

const STARTUP_SECS = 600

/** `name` is null if no snapshot could be taken. */
export type TakenSnapshot = Readonly<{ workspace_id: string; name: string | null; reason?: string }>

/** Tools that work on the files and processes of the agent. */
const isLocal = (tool: string): boolean => tool.startsWith('fs.') || tool.startsWith('cmd.')

/**
 * Whether the agent needs its own workspace. Without one, the model's answer is the output. An agent in another caller's
 * workspace finds it ready.
 */
export const needsWorkspace = ({ role, workspaceId, publishes, manifest }: ExecutionInput): boolean =>
  role === 'worker' &&
  workspaceId === null &&
  publishes === undefined &&
  (manifest.tools.some(isLocal) ||
    manifest.startupScript !== null ||
    manifest.bootstrapPath !== null ||
    manifest.volumes.length > 0 ||
    manifest.context.some(({ type }) => type === 'file' || type === 'directory'))

/** Acts as the caller that started the execution, through the ordinary tools. */
export function createAgentWorkspaces({ invoker, imageOf }: Pick<ExecutionDeps, 'invoker' | 'imageOf'>, run: Run) {
  const client = createWorkspaceClient(createToolClient(invoker, run.principal))
  const { call, ask, askUnless, make, runScript } = client

  /** `allowsInternet` applies if the manifest says nothing about the network. */
  async function create(input: ExecutionInput, allowsInternet: boolean, signal: AbortSignal): Promise<MadeWorkspace> {
    const { manifest } = input
    const volume = manifest.volumes.find(({ storageClass }) => storageClass === 'persistent')
    const name = volume === undefined ? `execution-${run.id}` : volumeName(run, input, volume.name)
    const image = await imageOf(manifest.runtime)
    const id = await make(manifest, name, image, signal)
    if (volume !== undefined) await lockRetained(client, run, { id, volume: volume.name }, signal)
    if (volume !== undefined) await fitPersistent(id, manifest, { volume: volume.name, image, allowsInternet }, signal)
    else if (manifest.network?.mode === 'allow' && !reachesAll(manifest.network)) {
      await ask('network_policy', { workspace_id: id, allowed_domains: [...manifest.network.allowlist] }, signal)
    }
    return { workspace_id: id, kept: volume !== undefined || input.keepWorkspace }
  }

  /**
   * A retained workspace may have been created for another version of the manifest, whose settings must not apply to this one.
   */
  async function fitPersistent(
    id: string,
    { network, resources }: WorkspaceNeeds,
    { volume, image, allowsInternet }: Readonly<{ volume: string; image: string; allowsInternet: boolean }>,
    signal: AbortSignal,
  ): Promise<void> {
    const info = await ask<PersistentWorkspace>('workspace_info', { workspace_id: id }, signal)
    const sizes = Object.entries(sizesOf(resources)) as [keyof Sizes, number][]
    const field = info.base_image !== image ? 'spec.runtime' : 'spec.security.resources'
    if (info.base_image !== image || sizes.some(([name, size]) => info.resources[name] !== size)) {
      const { vcpus, memory_mb, disk_gb } = info.resources
      throw new AppError(
        'ERR_INVALID_INPUT',
        `${field}: the volume '${volume}' is stored in the workspace '${info.name}'. That one has the image ${info.base_image}, ${counted(vcpus, 'processor')}, ${memory_mb} MB of memory and ${disk_gb} GB of disk, which cannot be changed; use the same values, rename the volume, or destroy the workspace`,
        { field, workspace_id: id },
      )
    }
    const allow_internet = network === null ? allowsInternet : network.mode === 'deny' || reachesAll(network)
    const allowed_domains = network?.mode === 'allow' && !reachesAll(network) ? [...network.allowlist] : []
    await ask('network_policy', { workspace_id: id, allow_internet, allowed_domains }, signal)
  }

  /** From a snapshot of another execution's workspace. */
  async function fork({ workspaceId, snapshot }: NonNullable<ExecutionInput['fork']>, signal: AbortSignal) {
    const name = `execution-${run.id}`
    const args = { workspace_id: workspaceId, snapshot_name: snapshot, new_name: name }
    await askUnless('ERR_ALREADY_EXISTS', 'workspace_fork', args, signal)
    const made = await ask<{ workspace_id: string }>('workspace_info', { workspace_id: name }, signal)
    return { workspace_id: made.workspace_id, kept: false }
  }

  const snapshotName = (iteration: number): string => `iteration-${iteration}-${run.id}`

  /** A missing snapshot counts as removed. */
  const dropSnapshot = (id: string, name: string, signal: AbortSignal): Promise<InvocationResult> =>
    call('snapshot', { workspace_id: id, action: 'delete', name }, signal)

  /** Only snapshots that executions took: a persistent volume outlives its executions, and so do its other snapshots. */
  async function dropOldest(id: string, signal: AbortSignal): Promise<boolean> {
    const { snapshots } = await ask<{ snapshots: { name: string }[] }>(
      'snapshot',
      { workspace_id: id, action: 'list' },
      signal,
    )
    const oldest = snapshots.find(({ name }) => /^iteration-\d+-[0-9a-f-]{36}$/.test(name))
    return oldest !== undefined && !(await dropSnapshot(id, oldest.name, signal)).isError
  }

  return {
    ...client,
    imageOf,
    create,
    fork,
    /** Reaching a snapshot limit only makes forking impossible. */
    async snapshot(id: string, iteration: number, signal: AbortSignal): Promise<TakenSnapshot> {
      const name = snapshotName(iteration)
      const take = () => call('snapshot', { workspace_id: id, action: 'create', name }, signal)
      let answer = await take()
      if (answer.code === 'ERR_QUOTA_EXCEEDED' && (await dropOldest(id, signal))) answer = await take()
      if (answer.isError && answer.code !== 'ERR_ALREADY_EXISTS') {
        return { workspace_id: id, name: null, reason: failureOf(answer).message }
      }
      const outdated = iteration - limits.executionSnapshotsMax
      if (outdated > 0) await dropSnapshot(id, snapshotName(outdated), signal)
      return { workspace_id: id, name }
    },
    /** Creates the folders of the volumes, then runs the start-up script. */
    async prepare({ manifest }: ExecutionInput, id: string, env: Record<string, string>, signal: AbortSignal) {
      const folders = manifest.volumes.map(({ mountPath }) => mountPath)
      const lines = [...folders.map((path) => `mkdir -p ${shellWord(path)}`), manifest.startupScript ?? '']
      const command = lines.filter((line) => line !== '').join('\n')
      if (command === '') return
      const args = { workspace_id: id, command, timeout_secs: STARTUP_SECS, env }
      const { exit_code, stderr } = await ask<ExecAnswer>('exec', args, signal)
      if (exit_code === 0) return
      throw new AppError(
        'ERR_COMMAND_FAILED',
        `spec.advanced.startup_script: exited with code ${exit_code}; correct it and run again`,
        { field: 'spec.advanced.startup_script', exit_code, stderr: stderr.slice(-2000) },
      )
    },
    /** Empties the ephemeral volumes of a retained workspace. A destroyed workspace has nothing to empty. */
    async empty(id: string, paths: readonly string[], signal: AbortSignal): Promise<void> {
      const command = paths.map((path) => `find ${shellWord(path)} -mindepth 1 -delete`).join('\n')
      const answer = await runScript({ workspace_id: id, command, timeout_secs: STARTUP_SECS }, signal)
      if (answer.isError && answer.code !== 'ERR_WORKSPACE_NOT_FOUND') throw failureOf(answer)
    },
    /** Runs the iteration's process: it gets the model's last answer, and validators see its output. */
    async runBootstrap(
      id: string,
      request: Readonly<{
        path: string | null
        answer: string
        env: Readonly<Record<string, string>>
        timeoutMs: number
        outputBytesMax: number
      }>,
      signal: AbortSignal,
    ): Promise<{ exit_code: number; stdout: string; stderr: string; timed_out: boolean }> {
      const { path, answer, env, timeoutMs, outputBytesMax } = request
      const { exit_code, stdout, stderr, timed_out } = await ask<ExecAnswer>(
        'exec',
        {
          workspace_id: id,
          command: path === null ? 'cat' : `exec ${shellWord(path)}`,
          stdin: answer,
          env,
          timeout_secs: Math.max(1, Math.ceil(timeoutMs / 1000)),
          max_output_bytes: outputBytesMax,
        },
        signal,
      )
      return { exit_code, stdout, stderr, timed_out }
    },
  }
}
export type AgentWorkspaces = ReturnType<typeof createAgentWorkspaces>

type ExecAnswer = Readonly<{ exit_code: number; stdout: string; stderr: string; timed_out: boolean }>

type PersistentWorkspace = Readonly<{ name: string; base_image: string; resources: Sizes }>

/** The same for every execution of the agent by the same owner, so that persistent volumes are found again. */
const volumeName = (run: Run, { agent }: ExecutionInput, volume: string): string =>
  `volume-${sha256Hex(JSON.stringify([run.owner, agent.id, volume])).slice(0, 32)}`

/** The recorded workspace of a run; undefined if none was created. */
export const recordedWorkspace = (steps: Steps): MadeWorkspace | undefined =>
  steps.result('workspace') as MadeWorkspace | undefined
