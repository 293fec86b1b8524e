import { startMcpUpstream } from '../support/mcp-upstream.ts'
import { castellanJson } from '../support/people.ts'

/** A gateway with the tools of a real MCP server behind it, and the key of a member who may use it. */
export type GatewayStage = AsyncDisposable &
  Readonly<{
    url: string
    key: string
    /** What is wrong with the record of the call, if anything is: it must be that of the member, at the gateway. */
    faultsOfRecord(): Promise<string[]>
  }>

export type Exposure = 'search_and_run_only' | 'full'
type Row = Record<string, unknown>

/** What a client can do there: with `full` it calls the tool itself, else through `run_tool`. */
export const SAID = 'said through the gateway'
export const wantedAt = (exposure: Exposure): Readonly<{ tool: string; args: Row }> =>
  exposure === 'full'
    ? { tool: 'up__echo', args: { text: SAID } }
    : { tool: 'run_tool', args: { tool_name: 'up__echo', tool_args: { text: SAID } } }

export async function openGatewayStage(origin: string, dataDir: string, exposure: Exposure): Promise<GatewayStage> {
  const upstream = await startMcpUpstream()
  async function call<T>(tool: string, args: Row): Promise<T> {
    const response = await fetch(`${origin}/v1/tools/${tool}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(args),
    })
    if (!response.ok) throw new Error(`${tool}: ${await response.text()}`)
    return (await response.json()) as T
  }
  const { id: catalogId } = await call<{ id: string }>('create_mcp_server', {
    name: 'up',
    serverUrl: upstream.url,
    scope: 'org',
  })
  await call('deploy_mcp_server', { catalogId, scope: 'org' })
  const gateway = await call<{ id: string; path: string }>('create_mcp_gateway', {
    name: 'Work',
    toolExposureMode: exposure,
  })
  const assigned = { mcpGatewayId: gateway.id, toolId: 'up__*', resolveAtCallTime: true }
  await call('bulk_assign_tools_to_mcp_gateways', { assignments: [assigned] })
  const made = await castellanJson({ dataDir }, ['keys', 'create', 'ann', '--role', 'member'])

  return {
    url: `${origin}${gateway.path}`,
    key: String(made['secret']),
    async faultsOfRecord() {
      const { lines } = await call<{ lines: string[] }>('log_export', {})
      const called = lines.filter((line) => line.includes('up__echo'))
      const isRight = called.some((entry) => entry.includes(gateway.id) && entry.includes(String(made['id'])))
      return isRight ? [] : [`the log has no call of the member at the gateway: ${called.join(' ').slice(0, 1_000)}`]
    },
    [Symbol.asyncDispose]: () => upstream[Symbol.asyncDispose](),
  }
}
