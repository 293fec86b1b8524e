import {
  type CompleteResult,
  type InputRequiredResult,
  isInputRequiredResult,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { AppError } from '../contract/app-error.ts'
import { clientCapabilitiesOf } from '../contract/calling-client.ts'
import type { ContentKind, ContentRequest, UpstreamContent } from '../contract/upstream-content.ts'
import { heardClient } from '../tools/runtime/heard-client.ts'
import type { ToolAnswer } from '../tools/runtime/tool-host.ts'
import { sessionClient } from './calling-client.ts'
import { completionRequest } from './completion-request.ts'
import type { ProtocolConnection } from './protocol-server.ts'

/** Tasks of 2025-11-25; those of the newer revision are an extension, which is declared everywhere. */
const olderTasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } }

export const contentCapabilities = {
  resources: { subscribe: true },
  prompts: {},
  completions: {},
  logging: {},
  tasks: olderTasks,
}

/** Passes the pipeline as a call of the tool; `request` is sent instead of what the tool itself does. */
export type CallContent = (
  name: 'read_mcp_resource' | 'get_mcp_prompt',
  args: Record<string, unknown>,
  context: ServerContext,
  request?: ContentRequest,
) => Promise<ToolAnswer | InputRequiredResult>

/**
 * Resources, prompts and completions of servers behind a gateway. What sends something of the caller to a server passes the pipeline as
 * a tool call, and so is judged and in the log. `_meta` of a list names servers that did not answer, so a list that is short for that reason says so.
 */
export function installContent(
  server: Server,
  connection: ProtocolConnection,
  open: () => Promise<UpstreamContent | undefined>,
  call: CallContent,
): void {
  const { caller } = connection
  async function list(kind: ContentKind, { mcpReq }: ServerContext) {
    const found = await (await open())?.list(caller().principal, kind, mcpReq.signal)
    const { items = [], unreachable = [] } = found ?? {}
    const _meta = unreachable.length === 0 ? undefined : { 'castellan/unreachable': unreachable }
    return { items: [...items], ...(_meta && { _meta }) }
  }

  server.setRequestHandler('resources/list', async (_, context) => {
    const { items, ...rest } = await list('resources', context)
    return { resources: items as { uri: string; name: string }[], ...rest }
  })
  server.setRequestHandler('resources/templates/list', async (_, context) => {
    const { items, ...rest } = await list('resourceTemplates', context)
    return { resourceTemplates: items as { uriTemplate: string; name: string }[], ...rest }
  })
  server.setRequestHandler('prompts/list', async (_, context) => {
    const { items, ...rest } = await list('prompts', context)
    return { prompts: items as { name: string }[], ...rest }
  })
  server.setRequestHandler('resources/read', async ({ params }, context) => {
    const answer = await call('read_mcp_resource', { uri: params.uri }, context)
    if (isInputRequiredResult(answer)) return answer
    if (answer.failure?.code === 'ERR_NOT_FOUND') throw new ResourceNotFoundError(params.uri)
    return outputOf<{ contents: { uri: string; text: string }[] }>(answer)
  })
  server.setRequestHandler('prompts/get', async ({ params }, context) => {
    const args = { name: params.name, ...(params.arguments && { arguments: params.arguments }) }
    const answer = await call('get_mcp_prompt', args, context)
    if (isInputRequiredResult(answer)) return answer
    return outputOf<{ messages: { role: 'user'; content: { type: 'text'; text: string } }[] }>(answer)
  })
  installSubscriptions(server, connection, open, call)
  server.setRequestHandler('logging/setLevel', async ({ params }) => {
    await choose(connection, () => {
      connection.logLevel = params.level
    })
    return {}
  })
  server.setRequestHandler('completion/complete', async ({ params }, context) => {
    const { judged, sent } = completionRequest(params)
    const send = async () => {
      const found = await (await open())?.complete(caller().principal, sent, context.mcpReq.signal)
      return found ?? { completion: { values: [] } }
    }
    const { tool, args } = judged
    const answer = await call(tool, args, context, { method: 'completion/complete', isRead: true, send })
    return isInputRequiredResult(answer) ? (answer as never) : outputOf<CompleteResult>(answer)
  })
}

/** In a session; in the stateless revision a listening client names the resources itself. */
function installSubscriptions(
  server: Server,
  connection: ProtocolConnection,
  open: () => Promise<UpstreamContent | undefined>,
  call: CallContent,
): void {
  const { session, subscriptions } = connection
  if (session === undefined || subscriptions === undefined) return
  // A session that another process began has no call that could record what its client hears, so it hears only of changes.
  connection.subscribe = async (uri, hears = async () => false) => {
    const { principal } = connection.caller()
    const capabilities = clientCapabilitiesOf(server.getClientCapabilities()) ?? {}
    const { client } = sessionClient(server, connection, session, principal, capabilities, undefined)
    const content = await open()
    if (content === undefined) throw new AppError('ERR_NOT_FOUND', 'uri: there is no such resource')
    await subscriptions.begin(content, principal, uri, heardClient(client, hears))
  }
  server.setRequestHandler('resources/subscribe', async ({ params: { uri } }, context) => {
    const send: ContentRequest['send'] = async (hears) => {
      await choose(connection, () => connection.subscribe!(uri, hears))
      return {}
    }
    const answer = await call('read_mcp_resource', { uri }, context, {
      ...{ method: 'resources/subscribe', isRead: false, send },
    })
    if (isInputRequiredResult(answer)) return answer as never
    if (answer.failure?.code === 'ERR_NOT_FOUND') throw new ResourceNotFoundError(uri)
    return outputOf<Record<string, never>>(answer)
  })
  server.setRequestHandler('resources/unsubscribe', async ({ params: { uri } }) => {
    await choose(connection, () => subscriptions.end(uri))
    return {}
  })
}

/** A change of what the client chose, which may have to outlive the process. */
async function choose(connection: ProtocolConnection, change: () => void | Promise<void>): Promise<void> {
  if (connection.choose === undefined) await change()
  else await connection.choose(change)
}

function outputOf<Result>({ failure, output }: ToolAnswer): Result {
  if (failure === undefined) return output as Result
  const code = failure.code === 'ERR_NOT_FOUND' ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError
  throw new ProtocolError(code, failure.message, { code: failure.code, ...failure.details })
}
