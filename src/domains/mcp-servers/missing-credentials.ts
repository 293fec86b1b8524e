import { AppError } from '../../contract/app-error.ts'
import { isPermitted } from '../../contract/permissions.ts'
import { identityOf, type Principal, userIdOf } from '../../contract/principal.ts'
import { canModify, canSee } from '../../contract/sharing.ts'
import { installPathOf } from './deployment-texts.ts'
import type { CatalogItem, Deployment, StoredTool } from './ports.ts'
import { missingFields } from './rules.ts'

/** A call that has no credential. `origin` is the address that its caller used, `publicOrigin` the one that is configured. */
type Lacking = Readonly<{
  tool: StoredTool
  item: CatalogItem | undefined
  principal: Principal
  origin?: string | undefined
  publicOrigin: string
}>

type NextStep = Readonly<{ text: string; details?: Readonly<Record<string, unknown>> }>

/** No deployment serves the caller. */
export const notDeployed = (lacking: Lacking): AppError =>
  credentialRequired(lacking, 'it is not deployed for you, for one of your teams, or for everyone', ownStep(lacking))

/** What the caller deploys would not be used: the assignment names another deployment. */
export const notAssignable = (lacking: Lacking): AppError =>
  credentialRequired(lacking, 'the deployment that is assigned to this tool does not exist or is not yours', {
    text: 'A deployment of your own would not be used. Ask the author of the assignment to make it with resolveAtCallTime, or with a deployment that serves you.',
  })

/** The deployment that the call would use was never given all values. */
export function valuesMissing(lacking: Lacking, deployment: Deployment): AppError | undefined {
  const { item } = lacking
  const fields = item === undefined ? [] : missingFields(item.config, deployment.values).map(({ name }) => name)
  if (fields.length === 0) return undefined
  const isPersonal = deployment.sharing.scope === 'personal'
  const next = isPersonal ? ownStep(lacking) : sharedStep(lacking, deployment)
  return credentialRequired(lacking, 'values that it needs were not entered', {
    ...next,
    details: { ...next.details, fields },
  })
}

/** The name of the server is part of the name of the tool. */
function credentialRequired({ tool, ...lacking }: Lacking, reason: string, { text, details }: NextStep): AppError {
  const [server = tool.name] = tool.name.split('__')
  return new AppError(
    'ERR_CREDENTIAL_REQUIRED',
    `There is no credential for the MCP server '${server}': ${reason}. ${text}`,
    { server, ...(isVisible(lacking) && { catalog_id: tool.catalogId }), ...details } as ConstructorParameters<
      typeof AppError
    >[2],
  )
}

/** Who may not see the server cannot install it, and is not told its id. */
const isVisible = ({ item, principal }: Pick<Lacking, 'item' | 'principal'>): boolean =>
  item !== undefined && canSee(principal, 'mcpRegistry', item.sharing)

/** How the caller gets a deployment of its own, or has it completed. */
function ownStep(lacking: Lacking): NextStep {
  const { principal } = lacking
  const tool = deployToolFor(principal)
  if (tool === undefined || !isVisible(lacking)) return requestStep(principal)
  const { catalogId } = lacking.tool
  const page = pageFor(lacking, catalogId)
  const call = { tool, arguments: { catalogId } }
  const calling = `call ${tool} with {"catalogId":"${catalogId}"}`
  if (page === undefined) return { text: `Deploy it for yourself: ${calling} at the address /mcp.`, details: { call } }
  const opening = `To install it for themselves, the person opens ${page} in a browser, signed in`
  return principal.gateway === undefined
    ? { text: `${opening}; or ${calling}.`, details: { install_url: page, call } }
    : { text: `${opening}. Then call again.`, details: { install_url: page } }
}

/** A page for the person in whose name the call is made; programs without a person, and callers without an address, have none. */
function pageFor({ principal, origin, publicOrigin }: Lacking, catalogId: string): string | undefined {
  const isOfUser = userIdOf(identityOf(principal)) !== undefined
  const base = origin ?? (isOfUser ? publicOrigin : undefined)
  return base !== undefined && (isOfUser || principal.kind === 'owner')
    ? `${base}${installPathOf(catalogId)}`
    : undefined
}

function requestStep(principal: Principal): NextStep {
  const mayRequest = principal.gateway === undefined && isPermitted(principal, 'mcpServerInstallationRequest:create')
  return {
    text: `Ask an administrator to deploy it for one of your teams${mayRequest ? ', or request it by name with create_mcp_server_installation_request' : ''}.`,
  }
}

/** Of a team, or of everyone: those who may change it enter the values. */
function sharedStep({ principal, tool: { catalogId } }: Lacking, { sharing }: Deployment): NextStep {
  const { scope, teams } = sharing
  const isAllowed =
    isPermitted(principal, 'mcpRegistry:update') && canModify(principal, 'mcpServerInstallation', sharing)
  if (!isAllowed) return { text: 'Ask the author of the deployment, or an administrator, to enter them.' }
  const args = { catalogId, scope, ...(scope === 'team' && { teamId: teams[0]! }) }
  return {
    text: `Call deploy_mcp_server with ${JSON.stringify(args)} at the address /mcp, for a link where a person can enter them.`,
    details: { call: { tool: 'deploy_mcp_server', arguments: args } },
  }
}

/** The tool with which the caller gets its own deployment; undefined if it may have none. */
const deployToolFor = (principal: Principal): string | undefined => {
  if (isPermitted(principal, 'mcpRegistry:update')) return 'deploy_mcp_server'
  return isPermitted(principal, 'mcpServerInstallation:create') ? 'install_mcp_server' : undefined
}
