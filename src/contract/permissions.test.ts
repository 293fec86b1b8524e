import { describe, expect, it } from 'vitest'
import { administers, narrowed, permissions, permissionsKey, permissionsOfRole, rightsOf } from './permissions.ts'
import { localOwner, type Principal, roles } from './principal.ts'
import { readPrincipal, writePrincipal } from './stored-principal.ts'

/** Written out again, so that a change of the matrix shows here: what admins, editors and members have. */
const table = `
agent             crud,execute,team-admin,admin | crud,execute,team-admin | crud,execute
app               crud,team-admin,admin | crud,team-admin | crud
skill             crud,team-admin,admin | crud,team-admin | crud
llmProxy          crud,team-admin,admin | crud,team-admin | crud
mcpGateway        crud,team-admin,admin | crud,team-admin | crud
sandbox           execute | execute | execute
agentTrigger      crud | crud |
scheduledTask     crud,admin | crud | crud
llmProviderApiKey crud,admin | crud | r
llmVirtualKey     crud,admin | crud | c,r,d
llmOauthClient    crud,admin | crud | r
mcpOauthClient    crud,admin | crud | r
llmModel          r,u | r,u | r
llmLimit          crud | crud |
optimizationRule  crud | crud |
llmCost           r | r |
toolPolicy        crud | crud | r
mcpRegistry       crud,team-admin | crud,team-admin | r
mcpServerInstallation crud,admin | crud | r,c,d
mcpServerInstallationRequest crud,admin | crud | r,c,u
environment       admin,deploy-to-restricted | admin |
githubAppConfig   crud | crud |
knowledgeSource   crud,query,admin | crud,query | r,query
knowledgeFile     crud,admin | crud | r
chat              crud | crud | crud
project           crud | crud | crud
log               r | r |
serviceAccount    crud | |
agentSettings     r,u | |
llmSettings       r,u | r,u |
knowledgeSettings r,u | r,u |
organizationSettings r,u | r,u |
member            crud | r |
invitation        r,c,cancel | r |
ac                crud | r |
userTeam          crud,admin | r | r
identityProvider  crud | r |
secret            r,u,c,admin | r,c | r,c
siteNotification  crud | r | r
chatAgentPicker   enable | enable | enable
chatProviderSettings enable | enable | enable
chatExpandToolCalls enable | enable | enable
simpleView        | | enable
workspace         crud,exec,admin | crud,exec | crud,exec
team              crud,admin | crud | crud
seal              r,c,d,admin | r,c,d | r,c,d
execution         r,cancel,signal,d,admin | r,cancel,signal | r,cancel,signal
apiKey            r,c,d | |
`
const long: Record<string, string[]> = {
  crud: ['create', 'read', 'update', 'delete'],
  c: ['create'],
  r: ['read'],
  u: ['update'],
  d: ['delete'],
}
const rows = table
  .trim()
  .split('\n')
  .map((line) => {
    const [, resource, rest] = /^(\S+)\s+(.*)$/.exec(line)!
    const actions = rest!.split('|').map((cell) =>
      cell
        .split(',')
        .map((action) => action.trim())
        .filter((action) => action !== '')
        .flatMap((action) => long[action] ?? [action])
        .sort(),
    )
    return { resource: resource!, actions }
  })

describe('the permissions of the built-in roles', () => {
  it.each(rows)('on $resource', ({ resource, actions }) => {
    const has = roles.map((role) =>
      [...permissionsOfRole(role)]
        .filter((permission) => permission.startsWith(`${resource}:`))
        .map((permission) => permission.slice(resource.length + 1))
        .sort(),
    )
    expect(has).toEqual(actions)
  })

  it('are narrowed by scopes, and never widened', () => {
    const member = rightsOf('member', ['task:read', 'apiKey:create'])
    expect(member).toEqual({ role: 'member', permissions: new Set(['task:read']), scopes: ['task:read'] })
    expect(rightsOf('editor', null)).toEqual({ role: 'editor', permissions: permissionsOfRole('editor') })
    expect(narrowed(permissionsOfRole('admin'), [])).toEqual(new Set())
    const scopedAdmin: Principal = { ...localOwner, ...rightsOf('admin', ['team:read', 'team:delete']) }
    expect(administers(scopedAdmin, 'team')).toBe(false)
    expect(administers(localOwner, 'team')).toBe(true)
  })

  it('have one key for one set, whatever its order', () => {
    expect(permissionsKey(new Set(['task:read', 'task:create']))).toBe(
      permissionsKey(new Set(['task:create', 'task:read'])),
    )
    expect(permissionsKey(permissionsOfRole('editor'))).not.toBe(permissionsKey(permissionsOfRole('member')))
  })
})

describe('a principal that is stored', () => {
  it('comes back as it was', () => {
    const scoped: Principal = { ...localOwner, ...rightsOf('editor', ['task:read', 'agent:execute']) }
    for (const principal of [localOwner, scoped]) expect(readPrincipal(writePrincipal(principal))).toEqual(principal)
  })

  it('of an earlier version has what its role and its scopes say', () => {
    const { permissions: _, ...earlier } = { ...localOwner, role: 'editor' as const, scopes: ['task:read' as const] }
    expect(readPrincipal(JSON.stringify(earlier)).permissions).toEqual(new Set(['task:read']))
    const { scopes: __, ...whole } = earlier
    expect(readPrincipal(JSON.stringify(whole)).permissions).toEqual(permissionsOfRole('editor'))
  })

  it('has no permission that this version does not know', () => {
    const stored = JSON.parse(writePrincipal(localOwner)) as { permissions: string[] }
    stored.permissions = ['task:read', 'task:fly']
    expect(readPrincipal(JSON.stringify(stored)).permissions).toEqual(new Set(['task:read']))
    expect(permissions).not.toContain('task:fly')
  })
})
