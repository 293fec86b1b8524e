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
import { abilitiesOf } from '../contract/calling-client.ts'
import type { ContentKind, UpstreamContent } from '../contract/upstream-content.ts'
import type { ToolAnswer } from '../tools/runtime/tool-host.ts'
import { sessionClient } from './calling-client.ts'
import type { ProtocolConnection } from './protocol-server.ts'

/** Tasks as 2025-11-25 has them; those of the newer revision are an extension, which is declared everywhere. */
const olderTasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } }

export const contentCapabilities = {
  resources: { subscribe: true },
  prompts: {},
  completions: {},
  logging: {},
  tasks: olderTasks,
}

/**
 * What the servers behind a gateway offer beside tools. What is read passes the pipeline as a call of a tool, and so is in the log.
 * A server that cannot be asked is named in `_meta` of a list: a list that is short for that reason says so.
 */
export function installContent(
  server: Server,
  connection: ProtocolConnection,
  open: () => Promise<UpstreamContent | undefined>,
  call: (
    name: string,
    args: Record<string, unknown>,
    context: ServerContext,
  ) => Promise<ToolAnswer | InputRequiredResult>,
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
  installSubscriptions(server, connection, open)
  server.setRequestHandler('logging/setLevel', ({ params }) => {
    connection.logLevel = params.level
    return {}
  })
  server.setRequestHandler('completion/complete', async ({ params }, { mcpReq }) => {
    const { ref, argument, context } = params
    const asked = { ref, argument, ...(context && { context }) }
    const found = await (await open())?.complete(caller().principal, asked, mcpReq.signal)
    return (found ?? { completion: { values: [] } }) as CompleteResult
  })
}

/** In a session; in the stateless revision a client that listens says of which resources. */
function installSubscriptions(
  server: Server,
  connection: ProtocolConnection,
  open: () => Promise<UpstreamContent | undefined>,
): void {
  const { session, subscriptions } = connection
  if (session === undefined || subscriptions === undefined) return
  server.setRequestHandler('resources/subscribe', async ({ params: { uri } }, context) => {
    const { principal } = connection.caller()
    const abilities = abilitiesOf(server.getClientCapabilities()) ?? {}
    const { client, over } = sessionClient(server, connection, session, principal, abilities, context)
    over()
    const content = await open()
    if (content === undefined) throw new ResourceNotFoundError(uri)
    try {
      await subscriptions.begin(content, principal, uri, client)
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      if (error.code === 'ERR_NOT_FOUND') throw new ResourceNotFoundError(uri)
      throw new ProtocolError(ProtocolErrorCode.InternalError, error.message, { code: error.code, ...error.details })
    }
    return {}
  })
  server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => {
    subscriptions.end(uri)
    return {}
  })
}

function outputOf<Result>({ failure, output }: ToolAnswer): Result {
  if (failure === undefined) return output as Result
  const code = failure.code === 'ERR_NOT_FOUND' ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError
  throw new ProtocolError(code, failure.message, { code: failure.code, ...failure.details })
}
