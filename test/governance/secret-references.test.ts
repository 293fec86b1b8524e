import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

/** Who can make a server of their own receive what the environment, the files and the secrets of others hold. */
type Row = Record<string, unknown>
type Deployed = { id: string; status: string; error: string | null; link?: { url: string } }
const PLANTED = 'PLANTED_FOR_A_TEST'
const VALUE = 'what-only-the-operator-knows'

let app: TestApp
let upstream: McpUpstream
let editor: ToolCaller
beforeEach(async () => {
  process.env[PLANTED] = VALUE
  upstream = await startMcpUpstream()
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'], 'rate_limits.enabled': false } })
  editor = await app.keyCaller({ role: 'editor' })
})
afterEach(async () => {
  delete process.env[PLANTED]
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const create = (more: object, caller?: ToolCaller) =>
  app.ask<{ id: string }>('create_mcp_server', { name: 'Up', serverUrl: upstream.url, ...more }, caller)
const deploy = (more: object = {}, caller?: ToolCaller) =>
  app.ask<Deployed>('deploy_mcp_server', { catalogId: 'Up', ...more }, caller)
const received = () => upstream.requests.at(-1)?.headers['x-a']
const tokenOf = ({ link }: Deployed) => link!.url.split('/').at(-1)!
const asked = { a: { type: 'string', title: 'A', headerName: 'X-A', required: true } }

describe('a reference', () => {
  it.each(['env', 'file', 'secret'])('in the default of a field is the text that it is (%s)', async (kind) => {
    const { reference } = await app.ask<{ reference: string }>('secret_link_create', { purpose: 'mine' })
    const text = { env: `env:${PLANTED}`, file: 'file:/etc/hostname' }[kind] ?? reference
    await create({ userConfig: { a: { type: 'string', headerName: 'X-A', default: text } } }, editor)
    expect(await deploy({}, editor)).toMatchObject({ status: 'success' })
    expect(received()).toBe(text)
  })

  it('in the default of a variable is the text that it is', async () => {
    const { specOf } = await import('../../src/domains/mcp-servers/spec.ts')
    const variables = [true, false].map((promptOnInstallation, index) => ({
      key: `V${index}`,
      type: 'plain_text' as const,
      promptOnInstallation,
      default: `env:${PLANTED}`,
    }))
    const item = { config: { command: 'x', environment: variables }, serverType: 'local', tenant: 'local' }
    const deployment = { values: {}, sharing: { author: 'owner' } }
    const spec = await specOf(item as never, deployment as never, async () => VALUE)
    expect(spec).toMatchObject({ env: { V0: `env:${PLANTED}`, V1: `env:${PLANTED}` } })
  })

  it('that a person types into the page of a link is the value itself, whatever caller created the link', async () => {
    await create({ userConfig: { a: { ...asked.a, sensitive: true } } })
    await app.ask('secret_link_submit', { token: tokenOf(await deploy()), values: { a: `env:${PLANTED}` } })
    await expect.poll(received).toBe(`env:${PLANTED}`)
  })

  it('cannot be typed into a field of a page that is no secret', async () => {
    await create({ userConfig: asked })
    const args = { token: tokenOf(await deploy()), values: { a: `env:${PLANTED}` } }
    expect(await app.refusal('secret_link_submit', args)).toMatchObject({ code: 'ERR_INVALID_INPUT' })
    expect(upstream.requests).toEqual([])
  })

  it('to the environment stays the operator’s when another user changes the server', async () => {
    const { id: team } = await app.ask<{ id: string }>('user_team_create', { name: 'crew' })
    const member: ToolCaller = { ...editor, principal: { ...editor.principal, teams: [team] } }
    const environment = [{ key: 'T', type: 'secret', promptOnInstallation: false, value: `env:${PLANTED}` }]
    const args = { name: 'Ours', command: 'serve', environment, scope: 'team', teams: ['crew'] }
    const { id } = await app.ask<{ id: string }>('create_mcp_server', args)
    const theft: Row = { id, command: 'send-it-elsewhere' }
    expect(await app.refusal('edit_mcp_config', theft, member)).toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
    await app.ask('edit_mcp_config', { id, command: 'serve-better' })
  })
})

describe('a value that no header can have', () => {
  it.each(['one\ntwo-of-a-secret', 'snow\u2603-of-a-secret'])('is refused without being told (%j)', async (value) => {
    await create({ scope: 'org', userConfig: { a: { ...asked.a, sensitive: true } } })
    const deployed = await deploy({ scope: 'org', values: { a: value } })
    expect(deployed).toMatchObject({ status: 'error', error: expect.stringContaining('ERR_CREDENTIAL_REQUIRED: a:') })
    const { json } = await app.call('list_mcp_server_deployments')
    const log = await app.call('get_mcp_server_logs', { serverId: deployed.id })
    for (const text of [JSON.stringify(deployed), json, log.json]) expect(text).not.toContain('of-a-secret')
  })
})

describe('a secret', () => {
  const newSecret = async (caller?: ToolCaller): Promise<string> =>
    (await app.ask<{ reference: string }>('secret_link_create', { purpose: 'a token' }, caller)).reference
  const idsOf = async (caller?: ToolCaller) =>
    (await app.ask<{ secrets: { id: string }[] }>('secret_list', {}, caller)).secrets.map(({ id }) => `secret:${id}`)

  it('is not deleted while a server or a deployment refers to it, and the refusal says which', async () => {
    const [inServer, inDeployment] = [await newSecret(editor), await newSecret(editor)]
    const environment = [{ key: 'A', type: 'secret', value: inServer, promptOnInstallation: false }]
    const local = { name: 'Local one', command: 'node', environment }
    const { id } = await app.ask<{ id: string }>('create_mcp_server', local, editor)
    await create({ userConfig: { a: { ...asked.a, sensitive: true } } }, editor)
    const deployed = await deploy({ values: { a: inDeployment } }, editor)
    expect(await app.refusal('secret_delete', { id: inServer }, editor)).toMatchObject({
      code: 'ERR_SECRET_IN_USE',
      message: "The secret is in use: the MCP server 'Local one'.",
      details: { used_by: [{ kind: 'mcp_server', id, name: 'Local one' }] },
    })
    expect(await app.refusal('secret_delete', { id: inDeployment }, editor)).toMatchObject({
      code: 'ERR_SECRET_IN_USE',
      details: { used_by: [{ kind: 'mcp_deployment', id: deployed.id, name: 'Up' }] },
    })
    const other = await newSecret(editor)
    await app.ask('edit_mcp_config', { id, environment: [{ ...environment[0], value: other }] }, editor)
    // What the server had alone went with the change; a secret to which nothing refers can be deleted.
    if ((await idsOf(editor)).includes(inServer)) await app.ask('secret_delete', { id: inServer }, editor)
    expect(await idsOf(editor)).not.toContain(inServer)
  })

  it("is deleted by its owner or an administrator, and is nobody else's to know of", async () => {
    const [mine, theirs] = [await newSecret(editor), await newSecret(editor)]
    const other = await app.keyCaller({ role: 'editor' })
    const refusals = await Promise.all([mine, 'sec_nowhere'].map((id) => app.refusal('secret_delete', { id }, other)))
    expect(refusals[0]).toMatchObject({ code: 'ERR_NOT_FOUND' })
    expect(refusals[0]!['message']).toBe(refusals[1]!['message'])
    await app.ask('secret_delete', { id: mine }, editor)
    await app.ask('secret_delete', { id: theirs.replace('secret:', '') })
    expect(await idsOf()).toEqual([])
    expect(await app.refusal('secret_delete', { id: mine }, editor)).toMatchObject({ code: 'ERR_NOT_FOUND' })
  })
})
