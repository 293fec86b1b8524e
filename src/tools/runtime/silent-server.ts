import { AppError } from '../../contract/app-error.ts'
import type { UnreachableServer } from '../../contract/upstream-content.ts'
import { isUpstreamName } from './exposure.ts'

/** An unknown tool whose name is that of a tool of another server. */
export type UnknownUpstreamTool = Readonly<{ error: AppError; name: string }>

export function unknownUpstreamTool(error: unknown, names: readonly unknown[]): UnknownUpstreamTool | undefined {
  if (!(error instanceof AppError) || error.code !== 'ERR_UNKNOWN_TOOL') return undefined
  const name = names.find((one): one is string => typeof one === 'string' && isUpstreamName(one))
  return name === undefined ? undefined : { error, name }
}

/** If the server of the tool did not answer, the error says so: another name would not help. */
export function explainedBySilentServer(
  { error, name }: UnknownUpstreamTool,
  unreachable: readonly UnreachableServer[],
): AppError {
  const silent = unreachable.find(({ server }) => name.startsWith(`${server}__`))
  if (silent === undefined) return error
  const { server, code } = silent
  // It is there under another name: that helps more.
  const { nearest } = error.details as { nearest?: readonly string[] }
  if (nearest?.some((near) => near.startsWith(`${server}__`)) === true) return error
  const reason =
    code === 'ERR_CREDENTIAL_REQUIRED'
      ? 'values that it needs are missing. list_mcp_server_deployments says which'
      : 'it did not start or cannot be reached. get_mcp_server_logs shows why'
  const message = `The MCP server '${server}' does not have this tool now: ${reason}.`
  return new AppError('ERR_UNKNOWN_TOOL', message, { nearest: [], server, reason: code }, { cause: error })
}
