import { afterEach, beforeEach, expect, it } from 'vitest'
import { rightsOf } from '../../src/contract/permissions.ts'
import { LOCAL_TENANT } from '../../src/contract/principal.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

/** One server of the registry, deployed for people, teams and everybody, and called through the pipeline. */
type Deployed = { id: string; status: string; author: string; teamId: string | null; isNew: boolean }
let app: TestApp
let upstream: McpUpstream
let owls = ''
let larks = ''
beforeEach(async () => {
  upstream = await startMcpUpstream()
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'] } })
  const team = async (name: string) => (await app.ask<{ id: string }>('user_team_create', { name })).id
  owls = await team('Owls')
  larks = await team('Larks')
  const authFields = [{ name: 'X-Who', label: 'Who', type: 'header', secret: false }]
  await app.ask('create_mcp_server', { name: 'Up', serverUrl: upstream.url, scope: 'org', authFields })
})
afterEach(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const person = (user: string, role: 'admin' | 'editor' | 'member', teams: string[]): ToolCaller =>
  callerOf({ tenant: LOCAL_TENANT, kind: 'user', user, actor: user, ...rightsOf(role), tier: 'user', teams })
const deploy = (who: string, more: object, caller: ToolCaller) =>
  app.ask<Deployed>('deploy_mcp_server', { catalogId: 'Up', values: { 'X-Who': who }, ...more }, caller)
const refusedDeploy = async (more: object, caller: ToolCaller) =>
  (await app.refusal('deploy_mcp_server', { catalogId: 'Up', ...more }, caller)).code
/** As whom the upstream sees the caller. */
async function servedAs(caller: ToolCaller): Promise<unknown> {
  const { isError, json } = await app.call('up__echo', { text: 'x' }, caller)
  return isError
    ? (JSON.parse(json) as { error: { code: string } }).error.code
    : upstream.requests.at(-1)!.headers['x-who']
}

it('serves the caller with their own deployment, else a team’s, else everybody’s, and with no other', async () => {
  const [uma, mia, otto] = [
    person('uma', 'editor', [owls]),
    person('mia', 'member', [owls]),
    person('otto', 'editor', []),
  ]
  const chief = person('chief', 'admin', [])
  expect(await deploy('owls', { scope: 'team', teamId: 'Owls' }, uma)).toMatchObject({
    status: 'success',
    teamId: owls,
  })
  expect([await servedAs(uma), await servedAs(mia)]).toEqual(['owls', 'owls'])
  // Who is served by none does not find the tool, an administrator included.
  expect([await servedAs(otto), await servedAs(chief)]).toEqual(['ERR_UNKNOWN_TOOL', 'ERR_UNKNOWN_TOOL'])
  await deploy('otto', {}, otto)
  await deploy('uma', {}, uma)
  expect([await servedAs(uma), await servedAs(mia), await servedAs(otto)]).toEqual(['uma', 'owls', 'otto'])
  await deploy('all', { scope: 'org' }, chief)
  expect([await servedAs(mia), await servedAs(otto), await servedAs(chief)]).toEqual(['owls', 'otto', 'all'])
  // Who leaves the team comes with other teams from then on.
  expect(await servedAs(person('mia', 'member', []))).toBe('all')
})

it('is one for each person, each team and the organisation, and made by who may', async () => {
  const [uma, ulf, mia] = [
    person('uma', 'editor', [owls]),
    person('ulf', 'editor', [owls, larks]),
    person('mia', 'member', [owls]),
  ]
  const chief = person('chief', 'admin', [])
  const first = await deploy('owls', { scope: 'team', teamId: owls }, uma)
  expect(await refusedDeploy({ scope: 'team', teamId: owls }, ulf)).toBe('ERR_ALREADY_EXISTS')
  // With other values it is the same one, and stays its author's.
  expect(await deploy('owls 2', { scope: 'team', teamId: owls }, ulf)).toMatchObject({
    id: first.id,
    isNew: false,
    author: 'user:uma',
  })
  expect(await servedAs(mia)).toBe('owls 2')
  expect((await deploy('larks', { scope: 'team', teamId: larks }, ulf)).id).not.toBe(first.id)
  expect(await refusedDeploy({ scope: 'team', teamId: larks }, uma)).toBe('ERR_PERMISSION_DENIED')
  expect(await refusedDeploy({ scope: 'team', teamId: 'Crows' }, chief)).toBe('ERR_NOT_FOUND')
  expect(await refusedDeploy({ scope: 'personal', teamId: owls }, person('una', 'editor', [owls]))).toBe(
    'ERR_INVALID_INPUT',
  )
  expect(await refusedDeploy({ scope: 'org' }, person('una', 'editor', [owls]))).toBe('ERR_PERMISSION_DENIED')
  expect(await refusedDeploy({}, mia)).toBe('ERR_PERMISSION_DENIED')
  // An administrator of teams deploys for a team without being in it.
  await app.ask('delete_mcp_server_deployment', { serverId: first.id }, ulf)
  expect(await deploy('by chief', { scope: 'team', teamId: owls }, chief)).toMatchObject({ isNew: true })
  expect(await servedAs(mia)).toBe('by chief')
})

it('is seen, read and removed by its team, and is not there for others', async () => {
  const [uma, mia, otto] = [
    person('uma', 'editor', [owls]),
    person('mia', 'member', [owls]),
    person('otto', 'editor', [larks]),
  ]
  const { id } = await deploy('owls', { scope: 'team', teamId: owls }, uma)
  const seenBy = async (caller: ToolCaller) =>
    (
      await app.ask<{ deployments: { id: string; teamId: string }[] }>('list_mcp_server_deployments', {}, caller)
    ).deployments.map((one) => one.id)
  expect([await seenBy(uma), await seenBy(mia), await seenBy(otto)]).toEqual([[id], [id], []])
  expect(await app.ask('get_mcp_servers', {}, otto)).toMatchObject({ items: [{ name: 'Up', deployments: [] }] })
  await app.ask('get_mcp_server_logs', { serverId: id }, mia)
  for (const tool of ['get_mcp_server_logs', 'delete_mcp_server_deployment']) {
    expect((await app.refusal(tool, { serverId: id }, otto)).code).toBe('ERR_NOT_FOUND')
  }
  // A member sees it, and may not take it from the team.
  expect((await app.refusal('delete_mcp_server_deployment', { serverId: id }, mia)).code).toBe('ERR_PERMISSION_DENIED')
  await app.ask('delete_mcp_server_deployment', { serverId: id }, uma)
  expect(await seenBy(mia)).toEqual([])
})

it('of a team that is gone serves nobody, and an administrator removes it', async () => {
  const mia = person('mia', 'member', [owls])
  const { id } = await deploy('owls', { scope: 'team', teamId: owls }, person('uma', 'editor', [owls]))
  await app.ask('user_team_delete', { team: owls })
  const without = person('mia', 'member', [])
  expect(await servedAs(without)).toBe('ERR_UNKNOWN_TOOL')
  expect((await app.refusal('get_mcp_server_logs', { serverId: id }, mia)).code).toBe('ERR_NOT_FOUND')
  await app.ask('delete_mcp_server_deployment', { serverId: id }, person('chief', 'admin', []))
})

it('lets a member install a server for themselves, and for nobody else', async () => {
  const [mia, otto] = [person('mia', 'member', [owls]), person('otto', 'member', [])]
  expect(await refusedDeploy({}, mia)).toBe('ERR_PERMISSION_DENIED')
  const input = { catalogId: 'Up', values: { 'X-Who': 'mia' } }
  const { id, ...installed } = await app.ask<Deployed & { scope: string }>('install_mcp_server', input, mia)
  expect(installed).toMatchObject({ status: 'success', scope: 'personal', author: 'user:mia' })
  expect([await servedAs(mia), await servedAs(otto)]).toEqual(['mia', 'ERR_UNKNOWN_TOOL'])
  expect((await app.refusal('install_mcp_server', { ...input, scope: 'org' }, mia)).code).toBe('ERR_INVALID_INPUT')
  await app.ask('delete_mcp_server_deployment', { serverId: id }, mia)
  expect(await servedAs(mia)).toBe('ERR_UNKNOWN_TOOL')
})

it('keeps a secret for as long as a server or a deployment refers to it', async () => {
  const authFields = [{ name: 'X-Token', label: 'Token', type: 'header', secret: true }]
  const { url } = await app.ask<{ url: string }>('secret_link_create', { purpose: 'both' })
  await app.ask('secret_link_submit', { token: url.split('/').at(-1)!, values: { value: 'same' } })
  const listed = async () => (await app.ask<{ secrets: { id: string }[] }>('secret_list')).secrets.map(({ id }) => id)
  const [secret] = await listed()
  const deployed: string[] = []
  for (const name of ['One', 'Two']) {
    await app.ask('create_mcp_server', { name, serverUrl: upstream.url, authFields })
    const values = { 'X-Token': `secret:${secret}` }
    deployed.push((await app.ask<Deployed>('deploy_mcp_server', { catalogId: name, values })).id)
  }
  await app.ask('delete_mcp_server_deployment', { serverId: deployed[0] })
  expect(await listed()).toEqual([secret])
  expect((await app.call('two__echo', { text: 'x' })).isError).toBe(false)
  expect(upstream.requests.at(-1)!.headers['x-token']).toBe('same')
  await app.ask('delete_mcp_server', { id: 'Two' })
  expect(await listed()).toEqual([])
})
