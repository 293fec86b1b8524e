import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { type Answer, openTestApp, type TestApp, type TestAppOptions } from './app.ts'

/** The whole core with its real back end; disks are plain small ones, so that a start is quick. */
export const openWorkspaceApp = (options: TestAppOptions = {}): Promise<TestApp> =>
  openTestApp({ ...options, config: { 'workspaces.store_gb': 2, 'rate_limits.enabled': false, ...options.config } })

export type Outcome = Readonly<{
  exit_code: number
  signal: string | null
  stdout: string
  stderr: string
  stdout_bytes: number
  stderr_bytes: number
  truncated: boolean
  timed_out: boolean
}>

export const sh = (app: TestApp, workspace_id: string, command: string, more: object = {}, caller?: ToolCaller) =>
  app.ask<Outcome>('exec', { workspace_id, command, ...more }, caller)

export type Row = Readonly<{ workspace_id: string; name: string; state: string; owned: boolean; orphaned: boolean }>
export const rowsFor = async (app: TestApp, caller?: ToolCaller): Promise<readonly Row[]> =>
  (await app.ask<{ workspaces: Row[] }>('workspace_list', {}, caller)).workspaces

export const namesFor = async (app: TestApp, caller?: ToolCaller): Promise<readonly string[]> =>
  (await rowsFor(app, caller)).map(({ name }) => name)

export const info = (app: TestApp, workspace_id: string, caller?: ToolCaller) =>
  app.ask<Answer & { snapshots: Answer[]; network: Answer }>('workspace_info', { workspace_id }, caller)

export async function destroyAll(app: TestApp): Promise<void> {
  for (const { workspace_id } of await rowsFor(app)) await app.ask('workspace_destroy', { workspace_id })
}
