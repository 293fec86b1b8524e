import { expect } from 'vitest'
import { openTestApp } from './app.ts'
import { startMcpUpstream } from './mcp-upstream.ts'

type Row = Record<string, unknown>
const reachable = { 'web.allow_private_addresses': ['127.0.0.1'] }

async function withServers(
  config: Record<string, number>,
  work: (ask: (tool: string, args?: object) => Promise<Row>, states: () => Promise<unknown[]>) => Promise<void>,
): Promise<void> {
  await using upstream = await startMcpUpstream()
  await using app = await openTestApp({ config: { ...reachable, ...config } })
  for (const name of ['one', 'two']) await app.ask('create_mcp_server', { name, serverUrl: upstream.url })
  const silent = ['-e', 'process.stdin.resume()']
  await app.ask('create_mcp_server', { name: 'silent', command: 'node', arguments: silent })
  const states = async () =>
    (await app.ask<{ deployments: Row[] }>('list_mcp_server_deployments')).deployments.map(({ state }) => state)
  await work((tool, args) => app.ask(tool, args), states)
}

/** What each setting of `mcp_servers` changes. */
export const mcpServerEffects: Readonly<Record<string, () => Promise<void>>> = {
  'mcp_servers.idle_secs': () =>
    withServers({ 'mcp_servers.idle_secs': 1 }, async (ask, states) => {
      await ask('deploy_mcp_server', { catalogId: 'one' })
      expect(await states()).toEqual(['running'])
      await expect.poll(states).toEqual(['stopped'])
    }),
  'mcp_servers.start_timeout_secs': () =>
    withServers({ 'mcp_servers.start_timeout_secs': 2 }, async (ask) => {
      const { status, error } = await ask('deploy_mcp_server', { catalogId: 'silent' })
      expect([status, error]).toEqual(['error', expect.stringContaining('within 2 s of its start')])
    }),
  'mcp_servers.max_running': () =>
    withServers({ 'mcp_servers.max_running': 1 }, async (ask, states) => {
      await ask('deploy_mcp_server', { catalogId: 'one' })
      await ask('deploy_mcp_server', { catalogId: 'two' })
      expect(await states()).toEqual(['stopped', 'running'])
    }),
  'mcp_servers.call_timeout_secs': async () => {
    await using upstream = await startMcpUpstream()
    await using app = await openTestApp({ config: { ...reachable, 'mcp_servers.call_timeout_secs': 1 } })
    await app.ask('create_mcp_server', { name: 'slow', serverUrl: upstream.url })
    await app.ask('deploy_mcp_server', { catalogId: 'slow' })
    const tools = await (await app.app.ready).upstreamTools!()
    const { principal } = await app.keyCaller({ role: 'editor' })
    const owner = { ...principal, kind: 'owner' as const }
    const tool = (await tools.list(owner.tenant))
      .flatMap((list) => list.tools)
      .find(({ name }) => name === 'slow__hang')!
    const target = { tenant: owner.tenant, toolId: tool.id, principal: owner, credential: { mode: 'dynamic' as const } }
    const call = tools.call(target, {}, { signal: new AbortController().signal })
    await expect(call).rejects.toMatchObject({ code: 'ERR_TIMED_OUT' })
  },
}
