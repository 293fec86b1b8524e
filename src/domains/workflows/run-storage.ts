import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { namedFailure } from '../runs/tool-client.ts'
import { type BoundedVolume, excessOf, measuringScript, readSizes, type VolumeSize } from '../runs/volume-sizes.ts'
import { volumePath } from './container-volumes.ts'
import { runScript } from './invoker-calls.ts'
import type { Storage } from './manifest-schema.ts'
import type { Visit } from './run-ports.ts'
import { recordedWorkspace } from './run-workspace.ts'

const MIB = 1024 ** 2

function boundedVolumes({ workspace, sharedVolumes }: Storage): readonly BoundedVolume[] {
  const own: BoundedVolume[] =
    workspace.sizeLimitMb === null
      ? []
      : [
          {
            name: 'workspace',
            path: volumePath('workspace'),
            bytesMax: workspace.sizeLimitMb * MIB,
            field: 'spec.storage.workspace.size_limit_mb',
          },
        ]
  // Volumes that outlive the run are measured where they are stored.
  const shared = sharedVolumes.flatMap(({ name, sizeLimitBytes, storageClass }, index) =>
    sizeLimitBytes === null || storageClass === 'persistent'
      ? []
      : {
          name,
          path: volumePath(name),
          bytesMax: sizeLimitBytes,
          field: `spec.storage.shared_volumes[${index}].size_limit_bytes`,
        },
  )
  return [...own, ...shared]
}

/** Measures the volumes after each state. Ends a run whose volumes exceed their limits. */
export async function requireSpace(visit: Visit): Promise<void> {
  const { manifest, steps, key } = visit
  const volumes = boundedVolumes(manifest.storage)
  const workspace = recordedWorkspace(steps)
  if (volumes.length === 0 || workspace === undefined || visit.state.kind === 'Human') return
  const { sizes } = await steps.once<{ sizes: VolumeSize[] } & Json>(
    key('measured'),
    async () => {
      const answer = await runScript(visit, {
        workspace_id: workspace.id,
        command: measuringScript(volumes),
        timeout_secs: 300,
      })
      if (answer.code === 'ERR_WORKSPACE_NOT_FOUND') return { result: { sizes: [] } }
      if (answer.isError) throw namedFailure('exec', answer)
      return { result: { sizes: readSizes(String((answer.value as JsonObject)['stdout']), volumes) } }
    },
    { type: 'volumes_measured' },
  )
  const excess = excessOf(volumes, sizes)
  if (excess !== undefined) throw excess
}
