import { AppError } from '../../contract/app-error.ts'
import { isEndedStatus } from '../../contract/run-status.ts'
import type { InvocationResult } from '../../contract/tool-invoker.ts'
import type { Run } from '../../engine/ports.ts'
import type { AgentManifest } from '../agents/manifest.ts'
import type { WorkspaceClient } from '../runs/workspace-client.ts'

const FOLDER = '/var/lib/castellan'
const HOLDER = `${FOLDER}/held-by`

/**
 * A workspace with a persistent volume is locked by one execution at a time: two would overwrite each other's files and empty
 * each other's volumes. The lock is a symbolic link in the workspace itself, created atomically. If the execution that holds it
 * has ended, exactly one other execution takes it over.
 */
export async function lockRetained(
  workspaces: Pick<WorkspaceClient, 'askScript' | 'call'>,
  run: Pick<Run, 'id'>,
  retained: Readonly<{ id: string; volume: string }>,
  signal: AbortSignal,
): Promise<void> {
  const sh = async (command: string): Promise<string> => {
    const { stdout } = await workspaces.askScript<{ stdout: string }>({ workspace_id: retained.id, command }, signal)
    return stdout.trim()
  }
  const holderAfter = (command: string): Promise<string> => sh(`${command}; readlink ${HOLDER}`)
  let holder = await holderAfter(`mkdir -p ${FOLDER}; ln -s ${run.id} ${HOLDER} 2> /dev/null`)
  if (holder !== run.id && hasEnded(await workspaces.call('aegis.task.status', { execution_id: holder }, signal))) {
    const taken = `${FOLDER}/taken-from-${/^[0-9a-f-]{36}$/.test(holder) ? holder : 'nobody'}`
    holder = await holderAfter(`mkdir ${taken} 2> /dev/null && ln -sfn ${run.id} ${HOLDER}`)
  }
  if (holder === run.id) return
  throw new AppError(
    'ERR_EXECUTION_STATE',
    `spec.volumes: the volume '${retained.volume}' is in use by the execution ${holder} of this agent; wait for that one with aegis.task.wait, or use a volume that is not persistent`,
    { field: 'spec.volumes', volume: retained.volume, execution_id: holder },
  )
}

export const keepsVolume = ({ volumes }: Pick<AgentManifest, 'volumes'>): boolean =>
  volumes.some(({ storageClass }) => storageClass === 'persistent')

/** Called at the end of the execution, however it ends. A destroyed workspace needs no release. */
export async function releaseRetained(
  workspaces: Pick<WorkspaceClient, 'runScript'>,
  run: Pick<Run, 'id'>,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  const command = `[ "$(readlink ${HOLDER})" != ${run.id} ] || rm -rf ${HOLDER} ${FOLDER}/taken-from-*`
  await workspaces.runScript({ workspace_id: id, command }, signal)
}

const hasEnded = ({ isError, code, value }: InvocationResult): boolean =>
  isError ? code === 'ERR_EXECUTION_NOT_FOUND' : isEndedStatus(String((value as { status?: unknown }).status))
