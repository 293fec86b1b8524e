import { AppError } from '../../contract/app-error.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { createToolClient } from '../runs/tool-client.ts'
import { createWorkspaceClient, type MadeWorkspace } from '../runs/workspace-client.ts'
import { languageRules } from './languages.ts'
import type { IntentDeps, IntentInput } from './ports.ts'

const MIB = 1024 ** 2
/** Half a CPU, which is rounded up to what workspaces support. */
const size = { cpuMillicores: 500, memoryBytes: 256 * MIB, diskBytes: 1024 * MIB, timeoutMs: 0 }
const noNetwork = { mode: 'none', allowlist: [], denylist: [] } as const
const FOLDER = '/workspace'
const OUTPUT_BYTES_MAX = 256 * 1024
const CODE_BYTES_MAX = 256 * 1024

export type Ran = Readonly<{ exit_code: number; stdout: string; stderr: string; timed_out: boolean }>

/** The workspace in which programs are written, checked and run. It has no network. */
export function createWorkbench(
  deps: Pick<IntentDeps, 'invoker' | 'imageOf'>,
  run: Run,
  input: IntentInput,
  steps: Steps,
) {
  const workspaces = createWorkspaceClient(createToolClient(deps.invoker, run.principal))
  const { call, askUnless } = workspaces
  const ask = <T>(tool: string, args: Json): Promise<T> => workspaces.ask<T>(tool, args, steps.signal)
  const { extension } = languageRules[input.language]
  // In a workspace that the caller named, no file of the caller is overwritten.
  const folder = input.volumeId === null ? FOLDER : `${FOLDER}/.intent-${run.id}`
  const path = `${folder}/solution.${extension}`

  const exec = (id: string, command: string, more: Readonly<{ timeout_secs: number; env?: Record<string, string> }>) =>
    ask<Ran>('exec', { workspace_id: id, command, workdir: FOLDER, max_output_bytes: OUTPUT_BYTES_MAX, ...more })

  async function borrowed(volumeId: string): Promise<MadeWorkspace> {
    const { workspace_id, network, state } = await ask<Info>('workspace_info', { workspace_id: volumeId })
    if (network.allow_internet || network.allow_inter_vm || network.allowed_domains.length > 0) {
      throw new AppError(
        'ERR_INVALID_INPUT',
        'volume_id: this workspace has network access, but programs of this pipeline run without a network; remove the access with network_policy, or omit volume_id',
        { field: 'volume_id' },
      )
    }
    if (state !== 'running') await ask('workspace_start', { workspace_id })
    return { workspace_id, kept: true }
  }

  const open = (): Promise<MadeWorkspace> =>
    steps.once<MadeWorkspace & Json>(
      'workspace',
      async () => {
        if (input.volumeId !== null) return { result: await borrowed(input.volumeId) }
        const name = `intent-${run.id}`
        const id = await workspaces.make({ resources: size, network: noNetwork }, name, undefined, steps.signal)
        return { result: { workspace_id: id, kept: false } }
      },
      { type: 'instance_spawned' },
    )

  return {
    path,
    open,
    exec,
    /** Empties the folder, so that any file found later is new. */
    async clear(id: string): Promise<void> {
      await exec(id, `mkdir -p ${folder} && rm -f ${path}`, { timeout_secs: 60 })
    },
    /** The file that the agent itself wrote; undefined if there is none. */
    async read(id: string): Promise<string | undefined> {
      const args = { workspace_id: id, path }
      const file = await askUnless<{ content: string }>('ERR_FILE_NOT_FOUND', 'file_read', args, steps.signal)
      return file?.content
    },
    async write(id: string, code: string): Promise<void> {
      if (Buffer.byteLength(code) > CODE_BYTES_MAX) {
        throw new AppError('ERR_TOO_LARGE', `The program is longer than ${CODE_BYTES_MAX} bytes.`)
      }
      await ask('file_write', { workspace_id: id, path, content: code })
    },
    /** Destroys the pipeline's own workspace; in the caller's, removes only the pipeline's files. */
    async leave({ workspace_id, kept }: MadeWorkspace, signal: AbortSignal): Promise<void> {
      if (!kept) return await workspaces.destroy(workspace_id, signal)
      const args = { workspace_id, command: `rm -rf ${folder}`, timeout_secs: 60 }
      await call('exec', args, signal)
    },
  }
}

type Info = Readonly<{
  workspace_id: string
  state: string
  network: Readonly<{ allow_internet: boolean; allow_inter_vm: boolean; allowed_domains: readonly string[] }>
}>
