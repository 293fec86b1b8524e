import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { counted } from '../../kernel/counted.ts'
import { parseReference } from '../secrets/rules.ts'
import { invalid } from './config-rules.ts'
import type { CatalogItem, Deployment } from './ports.ts'

/** The page where a signed-in person starts to authorise a deployment. */
export const authorizePathOf = (id: string): string => `/mcp-servers/${id}/authorize`

/** The page where a signed-in person installs a server of the registry for themselves. */
export const installPathOf = (catalogId: string): string => `/mcp-servers/${catalogId}/install`

/** The secret references of a deployment. */
export const secretsOf = ({ values, grant }: Deployment): readonly string[] => [
  ...Object.values(values),
  ...(grant === null ? [] : [grant]),
]

export const alreadyDeployed = ({ id, sharing }: Deployment): AppError =>
  new AppError('ERR_ALREADY_EXISTS', `scope: the server is already deployed for this ${sharing.scope}.`, {
    field: 'scope',
    deployment_id: id,
  })

export const noDeployment = (id: string): AppError =>
  new AppError(
    'ERR_NOT_FOUND',
    'There is no such deployment that you can see. list_mcp_server_deployments lists them.',
    {
      id: id.slice(0, 128).toWellFormed(),
    },
  )

export const orphaned = (id: string): AppError =>
  new AppError(
    'ERR_UPSTREAM_UNAVAILABLE',
    'The person or API key that deployed this MCP server was removed, so the server was stopped. Deploy it again with deploy_mcp_server to take it over.',
    { deployment_id: id },
  )

export const problemText = (error: unknown): string =>
  error instanceof AppError ? `${error.code}: ${error.message}` : 'ERR_INTERNAL: The MCP server could not be queried.'

/** Null if all tools of a list of this length are used. */
export const leftOutText = (count: number): string | null =>
  count <= limits.mcpToolsPerServerMax
    ? null
    : `ERR_QUOTA_EXCEEDED: The server lists ${count} tools, and only the first ${limits.mcpToolsPerServerMax} can be used. Have it list fewer, for example with its own options.`

export const recordOf = (item: CatalogItem, { id, sharing, status }: Deployment) => ({
  deployment_id: id,
  catalog_id: item.id,
  server: item.name,
  scope: sharing.scope,
  author: sharing.author,
  teams: [...sharing.teams],
  status,
})

export function messageOf(
  item: CatalogItem,
  { status, error }: Deployment,
  { hasLink, tools, agentIds }: Readonly<{ hasLink: boolean; tools: number; agentIds: readonly string[] }>,
): string {
  if (hasLink) return `${item.name} needs values that only a person may enter. Give the link to a person.`
  if (status === 'success')
    return `${item.name} is deployed and has ${counted(tools, 'tool, whose name begins', 'tools, whose names begin')} with ${item.slug}__.${error === null ? '' : ` ${error}`}`
  if (status === 'discovering-tools') {
    const later = agentIds.length === 0 ? '' : ' Then assign its tools to the agents with bulk_assign_tools_to_agents.'
    return `${item.name} is deployed and still starts. list_mcp_server_deployments shows when it can be used, and get_mcp_server_logs what it prints.${later}`
  }
  return `${item.name} is deployed, but cannot be used yet: ${error ?? 'it is being connected'}`
}

export function requireQuota(count: number): void {
  if (count < limits.mcpDeploymentsMax) return
  throw new AppError(
    'ERR_QUOTA_EXCEEDED',
    `The limit of ${count} deployments of MCP servers is reached. Remove one that is not needed.`,
  )
}

export function requireNoReference(name: string, value: string): void {
  if (parseReference(value) !== undefined) throw invalid(name, 'enter the value itself, not a reference to it')
}
