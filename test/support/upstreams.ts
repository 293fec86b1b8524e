import { Client, type ProgressCallback, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { AppError } from '../../src/contract/app-error.ts'
import type { Principal, TenantId } from '../../src/contract/principal.ts'
import type { RawAnswer } from '../../src/contract/raw-answer.ts'
import type { ServedLists, UpstreamTarget, UpstreamTool, UpstreamTools } from '../../src/contract/upstream-tools.ts'
import { sha256Hex } from '../../src/kernel/hash.ts'

/** Upstream tools over real connections: one client for each server that a test adds. */
export type TestUpstreams = UpstreamTools &
  AsyncDisposable &
  Readonly<{
    /** A server whose tools those see whom `isVisible` lets. */
    add(server: ConnectedServer): Promise<void>
    /** Looks again at what the servers offer. */
    refresh(tenant: TenantId): void
    /** What was called, and with whose access. */
    targets: readonly UpstreamTarget[]
  }>

type ConnectedServer = Readonly<{
  tenant: TenantId
  name: string
  url: string
  isVisible?(principal: Principal): boolean
}>

export const idOf = (server: string, tool: string): string => {
  const hex = sha256Hex(`${server}/${tool}`)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

/** Each server has one list, which has its name. */
export const servedBy = (servers: readonly string[]): ServedLists => ({
  byItem: new Map(servers.map((name) => [name, name])),
  byDeployment: new Map(),
  assigned: new Map(),
})

export function createTestUpstreams(): TestUpstreams {
  const servers = new Map<string, ConnectedServer & { client: Client }>()
  const versions = new Map<TenantId, number>()
  const listeners = new Set<(tenant: TenantId) => void>()
  const targets: UpstreamTarget[] = []
  const refresh = (tenant: TenantId): void => {
    versions.set(tenant, (versions.get(tenant) ?? 0) + 1)
    for (const listener of listeners) listener(tenant)
  }
  const listed = async ({ client, name: serverName, tenant }: ConnectedServer & { client: Client }) =>
    (await client.listTools()).tools.map(
      (tool): UpstreamTool => ({
        id: idOf(serverName, tool.name),
        definition: '',
        tenant,
        catalogId: serverName,
        serverName,
        name: `${serverName}__${tool.name}`,
        aliases: [],
        ...(tool.title === undefined ? {} : { title: tool.title }),
        description: tool.description ?? '',
        inputSchema: tool.inputSchema,
        ...(tool.outputSchema === undefined ? {} : { outputSchema: tool.outputSchema as Record<string, unknown> }),
        ...(tool.annotations === undefined ? {} : { annotations: tool.annotations }),
      }),
    )
  const ofTenant = (tenant: TenantId) => [...servers.values()].filter((server) => server.tenant === tenant)
  return {
    targets,
    refresh,
    async add(server) {
      const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode: 'legacy' } })
      await client.connect(new StreamableHTTPClientTransport(new URL(server.url)))
      servers.set(server.name, { ...server, client })
      refresh(server.tenant)
    },
    version: (tenant) => versions.get(tenant) ?? 0,
    list: async (tenant) =>
      await Promise.all(
        ofTenant(tenant).map(async (server) => ({
          id: server.name,
          scope: 'org' as const,
          tools: await listed(server),
        })),
      ),
    visibleTo: async (principal) =>
      servedBy(
        ofTenant(principal.tenant)
          .filter(({ isVisible }) => isVisible?.(principal) ?? true)
          .map(({ name }) => name),
      ),
    unreachableFor: async () => [],
    onChanged(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    async call(target, args, { signal, onProgress }) {
      targets.push(target)
      for (const server of ofTenant(target.tenant)) {
        const { tools } = await server.client.listTools()
        const tool = tools.find(({ name }) => idOf(server.name, name) === target.toolId)
        if (tool === undefined) continue
        const options = { signal, ...(onProgress && { onprogress: onProgress as ProgressCallback }) }
        return (await server.client.callTool({ name: tool.name, arguments: { ...args } }, options)) as RawAnswer
      }
      throw new AppError('ERR_NOT_FOUND', 'The tool is not offered any more.')
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...servers.values()].map(({ client }) => client.close()))
    },
  }
}
