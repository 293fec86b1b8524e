import type { Json } from '../../kernel/canonical-json.ts'
import type { ToolClient } from './tool-client.ts'

const MIB = 1024 ** 2
const GIB = 1024 ** 3

type Network = Readonly<{ mode: 'allow' | 'deny' | 'none'; allowlist: readonly string[] }>

/** Missing fields have the defaults of workspaces. */
export type WorkspaceNeeds = Readonly<{
  resources: Readonly<Partial<Record<'cpuMillicores' | 'memoryBytes' | 'diskBytes', number>>>
  network: Network | null
}>

/** A workspace as recorded by a run. `kept`: it outlives the run. `snapshots`: one is taken at the end of each iteration. */
export type MadeWorkspace = Readonly<{ workspace_id: string; kept: boolean; snapshots?: boolean }>

type Identified = Readonly<{ workspace_id: string }>

/** Workspaces through the public tools. */
export function createWorkspaceClient({ call, ask, askUnless, runScript, askScript }: ToolClient) {
  return {
    call,
    ask,
    askUnless,
    runScript,
    askScript,
    /** A workspace of that name, created if it does not exist: a crash may have come between creation and record. */
    async make(
      { resources, network }: WorkspaceNeeds,
      name: string,
      image: string | undefined,
      signal: AbortSignal,
    ): Promise<string> {
      const args: Json = {
        name,
        ...(image !== undefined && { base_image: image }),
        ...sizesOf(resources),
        ...(network !== null && { allow_internet: network.mode === 'deny' || reachesAll(network) }),
      }
      const made = await askUnless<Identified>('ERR_ALREADY_EXISTS', 'workspace_create', args, signal)
      return (made ?? (await ask<Identified>('workspace_info', { workspace_id: name }, signal))).workspace_id
    },
    readFile: async (id: string, path: string, signal: AbortSignal): Promise<string> =>
      (await ask<{ content: string }>('file_read', { workspace_id: id, path }, signal)).content,
    /** A missing workspace counts as destroyed. Its snapshots stay for forks, if it has any. */
    async destroy(id: string, signal: AbortSignal): Promise<void> {
      const args = { workspace_id: id, keep_snapshots: true }
      await askUnless('ERR_WORKSPACE_NOT_FOUND', 'workspace_destroy', args, signal)
    },
  }
}
export type WorkspaceClient = ReturnType<typeof createWorkspaceClient>

export type Sizes = Readonly<{ vcpus: number; memory_mb: number; disk_gb: number }>

/** Rounds up to whole CPUs, mebibytes and gibibytes. */
export const sizesOf = ({ cpuMillicores: cpu, memoryBytes: memory, diskBytes: disk }: WorkspaceNeeds['resources']) => ({
  ...(cpu !== undefined && { vcpus: Math.max(1, Math.ceil(cpu / 1000)) }),
  ...(memory !== undefined && { memory_mb: Math.max(16, Math.ceil(memory / MIB)) }),
  ...(disk !== undefined && { disk_gb: Math.max(1, Math.ceil(disk / GIB)) }),
})

export const reachesAll = ({ mode, allowlist }: Network): boolean => mode === 'allow' && allowlist.includes('*')
