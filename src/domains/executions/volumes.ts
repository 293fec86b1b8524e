import type { AppError } from '../../contract/app-error.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { AgentManifest } from '../agents/manifest.ts'
import { type BoundedVolume, excessOf, measuringScript, readSizes, type VolumeSize } from '../runs/volume-sizes.ts'
import { type Deadline, within } from './deadline.ts'
import type { ExecutionDeps, ExecutionInput } from './ports.ts'
import { type AgentWorkspaces, needsWorkspace } from './workspace.ts'

const HOUR_MS = 3_600_000

type Volumes = Pick<AgentManifest, 'volumes'>

const boundedVolumes = ({ volumes }: Volumes): readonly BoundedVolume[] =>
  volumes.map(({ name, mountPath, sizeLimitBytes }, index) => ({
    name,
    path: mountPath,
    bytesMax: sizeLimitBytes,
    field: `spec.volumes[${index}].size_limit`,
  }))

export const hasTimeToLive = ({ volumes }: Volumes): boolean => volumes.some(({ ttlHours }) => ttlHours !== null)

/** Volumes that end with the execution, although the workspace is retained for another volume. */
export const ephemeralPaths = ({ volumes }: Volumes): string[] =>
  volumes.some(({ storageClass }) => storageClass === 'persistent')
    ? volumes.filter(({ storageClass }) => storageClass === 'ephemeral').map(({ mountPath }) => mountPath)
    : []

/** An ephemeral volume is removed with its execution, so an execution may not outlast the volume's time to live. */
export function firstDeadline(whole: Deadline, { startedAtMs }: Run, input: ExecutionInput): Deadline {
  if (!needsWorkspace(input)) return whole
  const own = input.manifest.volumes.flatMap(({ name, ttlHours }, index): Deadline[] =>
    ttlHours === null
      ? []
      : [
          {
            untilMs: startedAtMs + ttlHours * HOUR_MS,
            what: `the volume '${name}'`,
            field: `spec.volumes[${index}].ttl_hours`,
          },
        ],
  )
  const latestMs = Math.min(whole.latestMs ?? whole.untilMs, ...own.map(({ untilMs }) => untilMs))
  return own.reduce((first, one) => (one.untilMs < first.untilMs ? one : first), { ...whole, latestMs })
}

type CallContext = Readonly<{
  deps: ExecutionDeps
  input: ExecutionInput
  steps: Steps
  workspaces: AgentWorkspaces
  workspaceId: string | null
  deadline: Deadline
}>

/** Measures the volumes at a point of the run, and returns one that exceeds its size. */
export async function volumeExcess(context: CallContext, point: string): Promise<AppError | undefined> {
  const { deps, input, steps, workspaces, workspaceId: id, deadline } = context
  const volumes = boundedVolumes(input.manifest)
  if (id === null || volumes.length === 0 || !needsWorkspace(input)) return undefined
  const { sizes } = await steps.once<{ sizes: VolumeSize[] } & Json>(
    `${point}/volumes`,
    async () => ({
      result: await within(deps.clock, steps, [deadline], async (signal) => {
        const args = { workspace_id: id, command: measuringScript(volumes), timeout_secs: 300 }
        const { stdout } = await workspaces.askScript<{ stdout: string }>(args, signal)
        return { sizes: readSizes(stdout, volumes) }
      }),
    }),
    { type: 'volumes_measured' },
  )
  return excessOf(volumes, sizes)
}
