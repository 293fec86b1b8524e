import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { requireWorkspacePath } from '../../contract/workspace-path.ts'
import { type Engine, isEnded, type Run } from '../../engine/ports.ts'
import type { MadeWorkspace } from '../runs/workspace-client.ts'
import type { ExecutionInput, ExecutionOutput, WorkspaceAccess } from './ports.ts'

type RunFileDeps = Readonly<{
  engine: Engine
  workspaces: WorkspaceAccess
  visible(call: Pick<Call, 'principal'>, tx: ReadTx, id: string): Promise<Run>
}>

/** The workspace is created before the first iteration, so its record is among the first events. */
const LOOKED_AT = 20

/** The files of an execution's workspace, while it exists. */
export function createRunFiles({ engine, workspaces, visible }: RunFileDeps) {
  async function workspaceOf(tx: ReadTx, run: Run): Promise<string | null> {
    if (isEnded(run) && run.output !== null) return (run.output as unknown as ExecutionOutput).workspace_id
    const { workspaceId } = run.input as unknown as ExecutionInput
    if (workspaceId !== null) return workspaceId
    const { events } = await engine.events(tx, run, { limit: LOOKED_AT, offset: 0 })
    const made = events.find(({ key, type }) => key === 'workspace' && type === 'instance_spawned')
    return made === undefined ? null : (made.payload as unknown as MadeWorkspace).workspace_id
  }

  return {
    async readFile(call: Call, input: Readonly<{ execution_id: string; path: string }>) {
      const run = await visible(call, call.read, input.execution_id)
      const workspaceId = await workspaceOf(call.read, run)
      if (workspaceId === null) throw noFiles(run, 'it has no workspace')
      const path = requireWorkspacePath('path', input.path)
      const request = { workspace_id: workspaceId, path, bytesMax: limits.executionFileBytesMax }
      const { bytes, text } = await workspaces.readBytes(call, request).catch((error: unknown) => {
        if (!(error instanceof AppError) || !isRemoved(error)) throw error
        const advice = 'a persistent volume in the manifest keeps it, or give aegis.task.execute a workspace of yours'
        throw noFiles(run, `its workspace was removed when it ended; ${advice}`)
      })
      return {
        execution_id: run.id,
        path,
        size: bytes.length,
        encoding: text === undefined ? ('base64' as const) : ('utf-8' as const),
        content: text ?? bytes.toString('base64'),
      }
    },
  }
}

/** An archived workspace has only snapshots left. */
const isRemoved = ({ code, details }: AppError): boolean =>
  code === 'ERR_WORKSPACE_NOT_FOUND' || (code === 'ERR_WORKSPACE_STATE' && details['state'] === 'archived')

const noFiles = ({ id }: Run, why: string): AppError =>
  new AppError('ERR_FILE_NOT_FOUND', `execution_id: this execution has no files: ${why}.`, {
    field: 'execution_id',
    execution_id: id,
  })
