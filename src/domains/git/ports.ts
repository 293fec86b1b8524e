import type { Readable } from 'node:stream'
import type { Call } from '../../contract/call.ts'
import type { ExecRequest, ExecResult } from '../workspaces/backend.ts'

/**
 * How git is reached: real programs inside a running workspace, without a shell. The environment of a request is added
 * to the workspace's own and wins over it. A program that is not there ends with exit code 127, as a shell would say it.
 * Without `stdin` a program reads nothing. What keeps a workspace from running anything is an AppError.
 */
export type GitRunner = Readonly<{
  /** The workspace is one that `WorkspaceAccess` gave out in the same call. */
  run(workspace: WorkspaceReference, request: ExecRequest): Promise<ExecResult>
  /** A file of the workspace as a stream, whatever its size. The path is absolute inside the workspace. */
  readFile(workspace: WorkspaceReference, path: string): Promise<Readable>
}>

export type WorkspaceReference = Readonly<{ id: string; name: string }>

/** Finds a workspace by id or name for the caller; throws for one that is not there or not the caller's. */
export type WorkspaceAccess = Readonly<{
  resolve(call: Call, reference: string): Promise<WorkspaceReference>
}>
