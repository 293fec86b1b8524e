import { AppError } from '../../contract/app-error.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import type { JsonObject } from '../../kernel/canonical-json.ts'
import { createKeyedMutex } from '../../kernel/keyed-mutex.ts'
import { quoted } from '../manifests/findings.ts'
import { volumePath } from './container-volumes.ts'
import { askTool, callTool } from './invoker-calls.ts'
import type { RunDeps, Visit } from './run-ports.ts'
import { destroy, type RunWorkspace, recordedWorkspace } from './run-workspace.ts'
import { isStarted, mergeBack, startVolume, type VolumeCopy } from './volume-copies.ts'

/**
 * Copies of the run's workspace for concurrent work in one state. A copy is a fork, so it starts with all files of the workspace.
 * Changes in /workspace and in the volumes of the run are merged back by the rules of volume-copies.ts; the rest of a copy is
 * discarded.
 */
export const copyName = (visit: Visit, key: string): string => `wf-${visit.run.id}-${visit.position.entered}-${key}`

/** A workspace may have few snapshots at once, and a copy needs one for a moment. */
const { withLock } = createKeyedMutex()

/** Creates the copy under its name and returns its id. A partial copy that a crash left is created again. */
export async function makeCopy(visit: Visit, shared: RunWorkspace, name: string): Promise<string> {
  await requireNoMounts(visit, shared)
  await destroy(visit, name)
  const snapshot = { workspace_id: shared.id, name }
  const volumes = volumesOf(visit, shared, name)
  const made = await withLock(
    shared.id,
    async () => {
      await callTool(visit, 'snapshot', { ...snapshot, action: 'delete' })
      for (const { retained, mark } of volumes) await startVolume(visit, retained, mark)
      await askTool(visit, 'snapshot', { ...snapshot, action: 'create' })
      try {
        const source = { workspace_id: shared.id, snapshot_name: name }
        return await askTool(visit, 'workspace_fork', { ...source, new_name: name })
      } finally {
        await callTool(visit, 'snapshot', { ...snapshot, action: 'delete' })
      }
    },
    visit.steps.signal,
  )
  for (const { own, mark } of volumes) await startVolume(visit, own, mark)
  return String(made['workspace_id'])
}

/**
 * Merges the copy into the workspace, volume by volume. Throws the first conflict after all were tried. With `again`, completed
 * parts of an interrupted merge are not repeated.
 */
export async function mergeCopy(
  visit: Visit,
  shared: RunWorkspace,
  { name, step, again = false }: Readonly<{ name: string; step: string; again?: boolean }>,
): Promise<void> {
  const problems: AppError[] = []
  for (const volume of volumesOf(visit, shared, name)) {
    try {
      if (!again || (await isStarted(visit, volume.retained, volume.mark))) await mergeBack(visit, step, volume)
    } catch (error) {
      if (!(error instanceof AppError) || error.code === 'ERR_CANCELLED') throw error
      problems.push(error)
    }
  }
  if (problems[0] !== undefined) throw problems[0]
}

/** The volumes in the workspace itself; persistent ones are elsewhere. */
function volumesOf({ manifest }: Visit, shared: RunWorkspace, name: string): readonly VolumeCopy[] {
  const declared = manifest.storage.sharedVolumes.filter(({ storageClass }) => storageClass !== 'persistent')
  return ['workspace', ...declared.map((volume) => volume.name)].map((volume) => {
    const path = volumePath(volume)
    const ends = { retained: { workspace: shared.id, path }, own: { workspace: name, path } }
    return { volume, ...ends, mark: `/tmp/.${name}-${volume}` }
  })
}

async function requireNoMounts(visit: Visit, { id }: RunWorkspace): Promise<void> {
  const { name, mounts } = await askTool(visit, 'workspace_info', { workspace_id: id })
  if (!Array.isArray(mounts) || mounts.length === 0) return
  throw new AppError(
    'ERR_INVALID_INPUT',
    `The workspace ${quoted(String(name))} mounts folders of the host. Steps that run in parallel each need a copy of the workspace, and a copy cannot have these mounts. Run the steps one after the other, or give each the volumes that it needs.`,
    { workspace_id: id },
  )
}

const isCopyOf = (run: Run, name: string): boolean =>
  name.startsWith(`wf-${run.id}-`) && /^\d+-(step|agent|run)-\d+$/.test(name.slice(`wf-${run.id}-`.length))

/** Removes the copies of a run that was stopped. */
export async function endCopies(run: Run, steps: Steps, deps: RunDeps, hasCopies: boolean): Promise<void> {
  const shared = recordedWorkspace(steps)
  if (!hasCopies || shared === undefined) return
  await steps.once('copies-gone', async () => {
    const context = { run, steps, deps }
    const { workspaces } = await askTool(context, 'workspace_list', {})
    const names = (workspaces as readonly JsonObject[]).map(({ name }) => String(name))
    for (const name of names.filter((one) => isCopyOf(run, one))) {
      await destroy(context, name)
      await callTool(context, 'snapshot', { workspace_id: shared.id, name, action: 'delete' })
    }
    return { result: {} }
  })
}
