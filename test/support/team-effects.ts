import { expect } from 'vitest'
import type { ServerHere } from './server-here.ts'

type Body = Record<string, unknown> & { error?: { code: string; details: Record<string, unknown> } }
type Kit = Readonly<{
  serve(env?: Record<string, string>): Promise<ServerHere>
  call(server: ServerHere, tool: string, args?: object): Promise<Readonly<{ body: Body }>>
}>

/** What each setting of teams does, through the real program. */
export function teamEffects({ serve, call }: Kit): Readonly<Record<string, () => Promise<void>>> {
  const create = async (server: ServerHere, name: string, more: object = {}): Promise<Body> => {
    const roles = [{ name: 'a', role: 'worker' }]
    return (await call(server, 'team', { action: 'create', name, roles, ...more })).body
  }
  return {
    async 'teams.max_vms_per_team'() {
      const server = await serve({ CASTELLAN_TEAMS_MAX_VMS_PER_TEAM: '1' })
      const refused = await create(server, 'crew', { max_vms: 2 })
      expect(refused.error).toMatchObject({ details: { field: 'max_vms', max: 1 } })
    },
    async 'teams.max_nesting_depth'() {
      const env = { CASTELLAN_TEAMS_MAX_NESTING_DEPTH: '0', CASTELLAN_WORKSPACES_STORE_GB: '0' }
      const server = await serve(env)
      expect(await create(server, 'crew')).toMatchObject({ depth: 0 })
      expect((await create(server, 'sub', { parent_team: 'crew' })).error).toMatchObject({
        details: { quota: 'max_nesting_depth', limit: 0 },
      })
    },
    async 'teams.max_total_vms'() {
      const server = await serve({ CASTELLAN_TEAMS_MAX_TOTAL_VMS: '0' })
      expect((await create(server, 'crew')).error).toMatchObject({ details: { quota: 'max_total_vms', limit: 0 } })
    },
  }
}
