import { systemClock } from '../../src/kernel/clock.ts'
import type { ToolAnswer, ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, movableClock, openTestApp, type TestApp, type TestAppOptions } from './app.ts'
import { answerProvider, CLIENT_ID, CLIENT_SECRET, startIdentityProvider } from './identity-provider.ts'
import { type McpUpstream, startMcpUpstream } from './mcp-upstream.ts'
import { type OauthPeer, startOauthPeer } from './oauth-peer.ts'

/**
 * People sign in with a real provider, and use a server with tokens that a peer gives out in return for theirs (RFC 8693). The peer
 * asks the provider whose the token is.
 */
export type ExchangeStage = AsyncDisposable &
  Readonly<{
    /** The program as it runs now. */
    app(): TestApp
    clock: ReturnType<typeof movableClock>
    upstream: McpUpstream
    peer: OauthPeer
    /** A new provider, which knows none of the tokens of the old one. */
    replaceProvider(): void
    /** Tokens that the server takes. */
    valid: Set<string>
    /** Whether the server takes every token. */
    setOpen(isOpen: boolean): void
    /** Whom the provider gave the token to. */
    ownerOf(token: string): Promise<string | undefined>
    exchange(more?: object): object
    /** A server with a gateway of its name, at which `echo` uses exchanged tokens. */
    register(name: string, more?: object): Promise<void>
    toolIds(server: string): Promise<string[]>
    /** Through the pages of the provider, to a session of ours. */
    signIn(login: string): Promise<ToolCaller & { session: string }>
    /** The same, up to what comes back to us. */
    beginSignIn(login: string): Promise<() => Promise<ToolCaller & { session: string }>>
    echo(caller: ToolCaller, gateway?: string): Promise<ToolAnswer>
    restart(): Promise<void>
  }>

const ORIGIN = 'http://127.0.0.1:7433'
const SECRET_NAME = 'OIDC_SECRET_OF_EXCHANGE'

/** Each of `people` has an e-mail address at example.com, and is a user. */
export async function openExchangeStage(
  people: readonly string[],
  more: TestAppOptions['config'] = {},
): Promise<ExchangeStage> {
  const clock = movableClock(systemClock.nowMs())
  const valid = new Set<string>()
  let isOpen = true
  let issued = 0
  const peer = await startOauthPeer()
  const provider = await startIdentityProvider(
    Object.fromEntries(people.map((name) => [name, { email: `${name}@example.com`, email_verified: true }])),
  )
  const replaceProvider = () => provider.allow(`${ORIGIN}/auth/callback/company`)
  replaceProvider()
  process.env[SECRET_NAME] = CLIENT_SECRET

  async function ownerOf(token: string): Promise<string | undefined> {
    const response = await fetch(`${provider.issuer}/me`, { headers: { authorization: `Bearer ${token}` } })
    return response.ok ? ((await response.json()) as { sub: string }).sub : undefined
  }
  peer.onSubject(async (token) => {
    const sub = await ownerOf(token)
    const made = sub && `up-for-${sub}-${++issued}`
    if (made !== undefined) valid.add(made)
    return made
  })
  const upstream = await startMcpUpstream('streamable-http', {
    ...peer,
    isValid: (token) => isOpen || valid.has(token),
  })
  const company = {
    ...{ id: 'company', name: 'Company', issuer: provider.issuer, client_id: CLIENT_ID },
    ...{ client_secret: `env:${SECRET_NAME}`, scopes: ['offline_access'] },
    exchange_endpoints: [`${peer.issuer}/token`],
  }
  const config = { 'web.allow_private_addresses': ['127.0.0.1'], oidc_providers: [company] as never, ...more }
  let app = await openTestApp({ clock, config })
  for (const name of people) await app.ask('user_create', { email: `${name}@example.com` })

  const exchange = (rest: object = {}) => ({
    token_endpoint: `${peer.issuer}/token`,
    client_id: 'castellan',
    client_secret: 'a-secret-of-the-client',
    audience: 'up',
    ...rest,
  })
  async function toolIds(server: string): Promise<string[]> {
    const { tools } = await app.ask<{ tools: { id: string; name: string }[] }>('get_mcp_server_tools', {
      mcpServerId: server,
    })
    return tools.filter(({ name }) => name.endsWith('echo')).map(({ id }) => id)
  }
  async function register(name: string, rest: object = {}): Promise<void> {
    isOpen = true
    const enterpriseManagedConfig = exchange(rest)
    await app.ask('create_mcp_server', { name, serverUrl: upstream.url, enterpriseManagedConfig })
    await app.ask('deploy_mcp_server', { catalogId: name, scope: 'org' })
    const { id } = await app.ask<{ id: string }>('create_mcp_gateway', { name, scope: 'org' })
    const [toolId] = await toolIds(name)
    const credentialResolutionMode = 'enterprise_managed'
    await app.ask('bulk_assign_tools_to_mcp_gateways', {
      assignments: [{ mcpGatewayId: id, toolId, credentialResolutionMode }],
    })
  }
  await register('Up')

  async function beginSignIn(login: string): Promise<() => Promise<ToolCaller & { session: string }>> {
    const people = (await app.app.ready).people!
    const started = await (await people.accounts()).startProviderSignIn(
      ORIGIN,
      { provider: 'company', returnTo: '/account' },
      new Headers(),
    )
    const back = await answerProvider(started.url, login, (url) => url.href.startsWith(`${ORIGIN}/`))
    const cookie = started.cookies.map((one) => one.split(';')[0]).join('; ')
    const request = new Request(back, { headers: { cookie } })
    return async () => {
      const { cookies } = await people.finishProviderSignIn(ORIGIN, {
        provider: 'company',
        request,
        address: '127.0.0.1',
      })
      const session = cookies.find((one) => one.includes('session_token='))!.split(';')[0]!
      const shown = { address: '127.0.0.1', isLoopback: true, resource: '' }
      const principal = await people.principals.ofCookie(session, shown, clock.nowMs())!
      return { ...callerOf(principal, { transport: 'http' }), session }
    }
  }

  return {
    app: () => app,
    ...{ clock, upstream, peer, replaceProvider, valid, ownerOf, exchange, register, toolIds, beginSignIn },
    setOpen(next) {
      isOpen = next
    },
    signIn: async (login) => await (await beginSignIn(login))(),
    async echo(caller, gateway = 'Up') {
      const directory = (await app.app.ready).gateways!
      const id = await directory.find(caller.principal, gateway.toLowerCase())
      const there = { ...caller, principal: { ...caller.principal, gateway: id! } }
      return await app.call(`${gateway.toLowerCase()}__echo`, { text: 'x' }, there)
    },
    async restart() {
      await app.stop()
      app = await openTestApp({ clock, config, dataDir: app.dataDir })
    },
    async [Symbol.asyncDispose]() {
      await app[Symbol.asyncDispose]()
      for (const one of [upstream, peer, provider]) await one[Symbol.asyncDispose]()
      delete process.env[SECRET_NAME]
    },
  }
}
