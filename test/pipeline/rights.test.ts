import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Permission, permissions, permissionsOfRole } from '../../src/contract/permissions.ts'
import { type BuiltInRole, roles, type Tier, tiers } from '../../src/contract/principal.ts'
import { loadAllTools } from '../../src/tools/index.ts'
import { allRulesOf, permissionsOf, rulesFor } from '../../src/tools/runtime/call-rules.ts'
import { createCatalog } from '../../src/tools/runtime/catalog.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { type Schema, validArguments } from '../support/arguments.ts'
import { serveWeb, type WebServer } from '../support/web-server.ts'

const allTools = await loadAllTools()

/** Tier, role and scopes are enforced for every tool as its definition says, by calls and by lists alike. */
const catalog = createCatalog(allTools)
let app: TestApp
let engine: WebServer
const callers = new Map<string, ToolCaller>()

beforeAll(async () => {
  // It refuses at once, because a search that merely fails is tried again after a pause.
  engine = await serveWeb({ '/': (_request, response) => void response.writeHead(403).end() })
  app = await openTestApp({ config: { 'rate_limits.enabled': false, 'web.search_url': engine.at('/') } })
  for (const role of roles) {
    for (const tier of tiers) callers.set(`${role} ${tier}`, await app.keyCaller({ role, tier }))
  }
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await engine[Symbol.asyncDispose]()
})

const has = (role: BuiltInRole, needed: readonly Permission[], scopes?: readonly Permission[]): boolean =>
  needed.every((permission) => permissionsOfRole(role).has(permission) && (scopes?.includes(permission) ?? true))
const reaches = (name: string, tier: Tier): boolean =>
  tiers.indexOf(tier) >= tiers.indexOf(catalog.find(name)!.definition.tier)
/** Whether some call of the tool is the caller's to make. */
const mayUse = (name: string, role: BuiltInRole, tier: Tier, scopes?: readonly Permission[]): boolean =>
  reaches(name, tier) &&
  allRulesOf(catalog.find(name)!.definition).some((rules) => has(role, permissionsOf(rules), scopes))
/** Whether this call is. */
const mayCall = (name: string, args: unknown, role: BuiltInRole, tier: Tier, scopes?: readonly Permission[]): boolean =>
  reaches(name, tier) && has(role, permissionsOf(rulesFor(catalog.find(name)!.definition, args)), scopes)
const sampleFor = (name: string): Record<string, unknown> =>
  fc.sample(validArguments(catalog.find(name)!.listed.inputSchema as Schema), { seed: 7, numRuns: 1 })[0]!
const samples = new Map(catalog.names.map((name) => [name, sampleFor(name)]))
const argumentsFor = (name: string): Record<string, unknown> => structuredClone(samples.get(name)!)

/** The permissions that some call needs. */
const asked = permissions.filter((permission) =>
  catalog.tools.some(({ definition }) =>
    allRulesOf(definition).some((rules) => permissionsOf(rules).includes(permission)),
  ),
)

const matrix = catalog.names
  .filter((name) => catalog.find(name)!.definition.redirects !== true)
  .flatMap((name) => roles.flatMap((role) => tiers.map((tier) => ({ name, role, tier }))))

describe('the rights of a caller', () => {
  it.each(matrix)('let $role of tier $tier use $name exactly as it is defined', async ({ name, role, tier }) => {
    const caller = callers.get(`${role} ${tier}`)!
    const args = argumentsFor(name)
    const answer = await app.call(name, args, caller)
    const listed = (await app.app.host.list(caller)).some((tool) => tool.name === name)
    expect(listed).toBe(mayUse(name, role, tier))
    if (!mayCall(name, args, role, tier)) {
      expect(answer.failure).toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
      expect(answer.failure!.message).toContain(name)
      expect(await app.lastCall()).toMatchObject({ tool: name, outcome: 'refused', code: 'ERR_PERMISSION_DENIED' })
    } else if (answer.failure?.code === 'ERR_PERMISSION_DENIED') {
      expect(answer.failure.message, 'only the target of the call may be beyond the caller').not.toContain(name)
    }
  })

  it.each(asked)('narrowed to %s are that and no more', async (permission) => {
    const caller = await app.keyCaller({ role: 'admin', tier: 'operator', scopes: [permission] })
    const listed = (await app.app.host.list(caller)).map((tool) => tool.name)
    expect(listed).toEqual(catalog.names.filter((name) => mayUse(name, 'admin', 'operator', [permission])))
    for (const name of catalog.names) {
      const args = argumentsFor(name)
      if (catalog.find(name)!.definition.redirects === true) continue
      if (mayCall(name, args, 'admin', 'operator', [permission])) continue
      const { code } = await app.refusal(name, args, caller)
      expect(code, name).toBe('ERR_PERMISSION_DENIED')
    }
  })

  it('are those of the action, where a tool has several', async () => {
    const reader = await app.keyCaller({ scopes: ['vault:read', 'team:read'] })
    expect((await app.call('vault', { action: 'list' }, reader)).isError).toBe(false)
    expect((await app.call('team', { action: 'list' }, reader)).isError).toBe(false)
    const refused = [
      ['vault', { action: 'write', path: 'a.md', content: 'x' }, 'vault:update'],
      ['team', { action: 'receive', name: 't', agent: 'a' }, 'team:update'],
      ['team', { action: 'create', name: 't', roles: [{ name: 'a', role: 'x' }] }, 'team:create'],
      ['team', { action: 'destroy', name: 't' }, 'team:delete'],
      ['team', { action: 'none' }, 'team:update'],
      ['team', {}, 'team:update'],
    ] as const
    for (const [name, args, permission] of refused) {
      expect(await app.refusal(name, args, reader)).toMatchObject({
        code: 'ERR_PERMISSION_DENIED',
        details: { permission },
      })
    }
    const writer = await app.keyCaller({ scopes: ['vault:update'] })
    expect((await app.refusal('vault', { action: 'list' }, writer)).code).toBe('ERR_PERMISSION_DENIED')
  })

  it('are those of every tool whose work a call does', async () => {
    const everyTeam = ['team:read', 'team:create', 'team:update', 'team:delete'] as const
    const looking = ['workspace:read', 'workspace:update'] as const
    const cases = [
      [everyTeam, 'team', { action: 'create', name: 't', roles: [{ name: 'a', role: 'x' }] }, 'workspace:create'],
      [everyTeam, 'team', { action: 'destroy', name: 't' }, 'workspace:delete'],
      [['workspace:create'], 'workspace_prepare', { name: 'gold' }, 'workspace:exec'],
      [looking, 'git_status', { workspace_id: 'w' }, 'workspace:exec'],
      [looking, 'git_diff', { workspace_id: 'w', path: '/workspace' }, 'workspace:exec'],
    ] as const
    for (const [scopes, name, args, permission] of cases) {
      expect(await app.refusal(name, args, await app.keyCaller({ scopes }))).toMatchObject({
        code: 'ERR_PERMISSION_DENIED',
        details: { permission },
      })
    }
    const whole = await app.keyCaller({ scopes: [...everyTeam, 'workspace:create', 'workspace:delete'] })
    expect((await app.refusal('team', { action: 'destroy', name: 't' }, whole)).code).toBe('ERR_TEAM_NOT_FOUND')
  })

  it('differ for at least one tool between every two roles', () => {
    const counts = roles.map((role) => catalog.names.filter((name) => mayUse(name, role, 'operator')).length)
    expect(new Set(counts).size).toBe(roles.length)
  })
})

describe('a tool that hands its call on', () => {
  it('gives nobody a right that the target does not', async () => {
    for (const { name, role, tier } of matrix) {
      const caller = callers.get(`${role} ${tier}`)!
      const args = argumentsFor(name)
      if (mayCall(name, args, role, tier)) continue
      const answer = await app.call('run_tool', { tool_name: name, tool_args: args }, caller)
      expect(answer.failure, `${name} ${role} ${tier}`).toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
      expect(await app.lastCall()).toMatchObject({ tool: name, via: 'run_tool', outcome: 'refused' })
    }
  })
})
