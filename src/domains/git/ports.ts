import type { Readable } from 'node:stream'
import type { Call } from '../../contract/call.ts'
import type { ExecRequest, ExecResult } from '../workspaces/backend.ts'

/**
 * Access to git: real programs inside a running workspace, without a shell. The environment of a request overrides the
 * workspace's own. A missing program ends with exit code 127, like in a shell. Without `stdin` a program reads nothing. If the
 * workspace cannot run anything, an AppError is thrown.
 */
export type GitRunner = Readonly<{
  /** The workspace comes from `WorkspaceAccess` in the same call. */
  run(workspace: WorkspaceReference, request: ExecRequest): Promise<ExecResult>
  /** A file of the workspace as a stream, whatever its size. The path is absolute inside the workspace. */
  readFile(workspace: WorkspaceReference, path: string): Promise<Readable>
}>

export type WorkspaceReference = Readonly<{ id: string; name: string }>

/** Finds a workspace by id or name for the caller; throws if there is none or it is not the caller's. */
export type WorkspaceAccess = Readonly<{
  resolve(call: Call, reference: string): Promise<WorkspaceReference>
}>
