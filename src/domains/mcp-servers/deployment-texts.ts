import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { CatalogItem, Deployment } from './ports.ts'

/** The page on which a person who is signed in begins to authorise a deployment. */
export const authorizePathOf = (id: string): string => `/mcp-servers/${id}/authorize`

/** The references among what a deployment has. */
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

export const problemText = (error: unknown): string =>
  error instanceof AppError ? `${error.code}: ${error.message}` : 'ERR_INTERNAL: The MCP server could not be queried.'

export const recordOf = (item: CatalogItem, { id, sharing, status }: Deployment) => ({
  deployment_id: id,
  catalog_id: item.id,
  server: item.name,
  scope: sharing.scope,
  author: sharing.author,
  teams: [...sharing.teams],
  status,
})

export function messageOf(item: CatalogItem, { status, error }: Deployment, hasLink: boolean, tools: number): string {
  if (hasLink) return `${item.name} needs values that you should not see: give the link to a person.`
  if (status === 'success')
    return `${item.name} is deployed and has ${tools} tools, whose names begin with ${item.slug}__.`
  return `${item.name} is deployed, but cannot be used yet: ${error ?? 'it is being connected'}`
}

export function requireQuota(count: number): void {
  if (count < limits.mcpDeploymentsMax) return
  throw new AppError(
    'ERR_QUOTA_EXCEEDED',
    `There are ${count} deployments of MCP servers, which is the limit. Remove one that is not needed.`,
  )
}
