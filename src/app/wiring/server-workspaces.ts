import type { Database } from '../../contract/database.ts'
import type { Permission } from '../../contract/permissions.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import { failureOf, type ToolInvoker } from '../../contract/tool-invoker.ts'
import type { LocalSpec } from '../../domains/mcp-servers/runtime.ts'
import type { Workspace } from '../../domains/workspaces/ports.ts'
import { sqlWorkspaceStore } from '../../stores/sql/workspace-store.ts'
import type { ServerWorkspaces } from '../../upstreams/ports.ts'
import type { WorkspaceServices } from './workspace-services.ts'

export type ServerWorkspaceParts = Readonly<{
  database: Database
  invoker: Pick<ToolInvoker, 'call'>
  workspaces(): Promise<WorkspaceServices>
}>

/** The name of a deployment's workspace contains its id, so that it is found when the deployment is removed. */
const MCP_WORKSPACE_PREFIX = 'mcp-'
const nameOf = (deploymentId: string): string => `${MCP_WORKSPACE_PREFIX}${deploymentId}`

const needed: readonly Permission[] = [
  'workspace:create',
  'workspace:read',
  'workspace:update',
  'workspace:exec',
  'workspace:delete',
]

/** Acts for the servers of an owner, in the owner's workspaces and within the owner's quota. */
const actingFor = (tenant: TenantId, owner: string): Principal => ({
  tenant,
  kind: 'agent',
  actor: 'mcp-servers',
  agent: 'mcp-servers',
  onBehalfOf: owner,
  role: 'member',
  permissions: new Set(needed),
  tier: 'user',
  teams: [],
})

/** Local MCP servers in workspaces, which the ordinary tools create, start and stop, so that the log shows it. */
export function createServerWorkspaces({
  database,
  invoker,
  workspaces,
}: ServerWorkspaceParts): ServerWorkspaces &
  Readonly<{ stopIdle(tenant: TenantId, deploymentId: string): Promise<void> }> {
  const find = (tenant: TenantId, deploymentId: string): Promise<Workspace | undefined> =>
    sqlWorkspaceStore.findWorkspaceByName(database.read, tenant, nameOf(deploymentId))

  async function ask<T>(principal: Principal, tool: string, args: object, signal?: AbortSignal): Promise<T> {
    const options = { transport: 'engine', signal: signal ?? new AbortController().signal } as const
    const answer = await invoker.call(principal, tool, args, options)
    if (answer.isError) throw failureOf(answer, 'The workspace of the MCP server: ')
    return answer.value as T
  }

  async function ready(
    tenant: TenantId,
    deploymentId: string,
    spec: LocalSpec,
    signal: AbortSignal,
  ): Promise<Workspace> {
    const principal = actingFor(tenant, spec.owner)
    const before = await find(tenant, deploymentId)
    if (before !== undefined && !matchesSpec(before, spec)) {
      // It may belong to a former author.
      await ask(actingFor(tenant, before.owner), 'workspace_destroy', { workspace_id: before.id }, signal)
    } else if (before !== undefined) {
      if (before.state === 'stopped') await ask(principal, 'workspace_start', { workspace_id: before.id }, signal)
      return (await find(tenant, deploymentId))!
    }
    await ask(
      principal,
      'workspace_create',
      {
        name: nameOf(deploymentId),
        ...(spec.allowedDomains.length === 0 ? { allow_internet: false } : { allowed_domains: spec.allowedDomains }),
        ...(spec.mounts.length === 0 ? {} : { mount: spec.mounts }),
      },
      signal,
    )
    return (await find(tenant, deploymentId))!
  }

  return {
    async open({ tenant, deploymentId }, spec, signal) {
      const { services } = await workspaces()
      const service = services.workspaces
      const workspace = await ready(tenant, deploymentId, spec, signal)
      const principal = actingFor(tenant, spec.owner)
      return {
        run: (request) => service.runRaw(workspace, { workdir: '/root', ...request, outputBytesMax: 1_024 }),
        writeFile: async (path, content) =>
          void (await service.openFiles(workspace).write(path, Buffer.from(content), { mode: 0o600 })),
        async forward(port) {
          const args = { workspace_id: workspace.id, action: 'add', guest_port: port }
          const { host_port } = await ask<{ host_port: number }>(principal, 'port_forward', args, signal)
          return `http://127.0.0.1:${host_port}`
        },
        async release() {
          const now = await find(tenant, deploymentId)
          if (now?.state === 'running') await ask(principal, 'workspace_stop', { workspace_id: now.id })
        },
      }
    },
    async stopIdle(tenant, deploymentId) {
      const workspace = await find(tenant, deploymentId)
      if (workspace?.state !== 'running') return
      await ask(actingFor(tenant, workspace.owner), 'workspace_stop', { workspace_id: workspace.id })
    },
    async remove(tenant, deploymentId) {
      const workspace = await find(tenant, deploymentId)
      if (workspace === undefined) return
      await workspaces()
      await ask(actingFor(tenant, workspace.owner), 'workspace_destroy', { workspace_id: workspace.id })
    },
  }
}

/** What cannot change in a workspace: its owner, its folders, its network. */
function matchesSpec({ owner, mounts, network }: Workspace, spec: LocalSpec): boolean {
  const folders = mounts.map(
    ({ root, beneath, target, readOnly }) => `${beneath === '.' ? root : `${root}/${beneath}`} ${target} ${readOnly}`,
  )
  const expected = spec.mounts.map(
    ({ host_path, path, mode }) => `${host_path.replace(/\/+$/, '')} ${path} ${mode !== 'rw'}`,
  )
  const domains = [...new Set(spec.allowedDomains)].sort()
  return (
    owner === spec.owner &&
    folders.sort().join('\n') === expected.sort().join('\n') &&
    [...network.allowedDomains].join(',') === domains.join(',')
  )
}
