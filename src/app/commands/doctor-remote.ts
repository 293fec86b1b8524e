import type { McpClient } from '../../cli/mcp-client.ts'
import { AppError } from '../../contract/app-error.ts'
import { remoteLimits } from '../../contract/remote-limits.ts'
import { counted } from '../../kernel/counted.ts'
import { readText } from '../remote/http-client.ts'
import { openRemoteServer, type RemoteChoice } from '../remote/remote-server.ts'
import { withClient } from './client.ts'
import type { CommandContext } from './context.ts'
import { bad, type Finding, note, ok } from './findings.ts'

/** What a client can see of a remote server: whether it can be reached, is healthy, and accepts the credentials. */
export async function checkRemote(context: CommandContext, choice: RemoteChoice): Promise<Finding[]> {
  const { address, http } = await openRemoteServer(choice, context.env)
  const findings = [ok('node', process.version)]
  try {
    const signal = AbortSignal.timeout(remoteLimits.remoteReplyMs)
    const reply = await http(`${address.origin}/health`, { method: 'GET', headers: {}, signal })
    findings.push(ok('server', address.resource))
    findings.push(...healthOf(await readText(reply, remoteLimits.remoteMetadataBytesMax), context.version))
    findings.push(await withClient(context, address.isGateway ? toolsOf : callerOf))
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    findings.push(bad(error.code === 'ERR_UNAUTHENTICATED' ? 'identity' : 'connection', error.message))
  }
  return findings
}

function healthOf(text: string, ownVersion: string): Finding[] {
  const { status, mode, version } = parsed(text)
  if (typeof status !== 'string' || typeof version !== 'string') {
    return [bad('health', 'the server there is not a Castellan server')]
  }
  const health = status === 'ok' ? ok('health', `ok, mode ${mode}`) : bad('health', `${status}, mode ${mode}`)
  const isSame = version === ownVersion
  const versions = `${version}, and this program is ${ownVersion}, so tools and fields may differ`
  return [health, isSame ? ok('version', version) : note('version', versions)]
}

function parsed(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text)) as Record<string, unknown>
  } catch {
    return {}
  }
}

/** A gateway need not have whoami. */
const toolsOf = async (client: McpClient): Promise<Finding> =>
  ok('gateway', counted((await client.listTools()).length, 'tool is offered', 'tools are offered'))

async function callerOf(client: McpClient): Promise<Finding> {
  const { agentName, organization, role, tier } = (await client.callTool('whoami', {})).answer
  return ok('identity', `${agentName} of ${organization}, role ${role}, tier ${tier}`)
}
