import type { Call } from '../../contract/call.ts'
import { findUsable } from './access.ts'
import { type Core, requireSettled } from './core.ts'
import { checkEnv, checkEnvName } from './rules.ts'

export type SetEnvInput = Readonly<{
  workspace_id: string
  vars: Readonly<Record<string, string>>
  unset?: readonly string[] | undefined
}>

/** Sets variables for all later commands: all of them, or none. */
export async function setEnv(core: Core, call: Call, input: SetEnvInput) {
  const workspace = await findUsable(core, call, call.read, input.workspace_id)
  requireSettled(workspace)
  await call.enterWorkspace?.(workspace.id)
  checkEnv('vars', input.vars)
  const env: Record<string, string> = { ...workspace.env, ...input.vars }
  for (const name of input.unset ?? []) {
    checkEnvName('unset', name)
    delete env[name]
  }
  checkEnv('vars', env)
  await core.store.saveWorkspace(call.write, workspace.tenant, { ...workspace, env })
  const names = Object.keys(env).sort()
  call.record({
    kind: 'workspace_env_set',
    body: { workspace_id: workspace.id, names: Object.keys(input.vars).sort() },
  })
  return { workspace_id: workspace.id, count: Object.keys(input.vars).length, status: 'set' as const, names }
}
