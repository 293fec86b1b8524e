import {
  type CompleteResult,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import type { ContentKind, UpstreamContent } from '../contract/upstream-content.ts'
import type { ToolAnswer, ToolCaller } from '../tools/runtime/tool-host.ts'

export const contentCapabilities = { resources: {}, prompts: {}, completions: {} }

/**
 * What the servers behind a gateway offer beside tools. What is read passes the pipeline as a call of a tool, and so is in the log.
 * A server that cannot be asked is named in `_meta` of a list: a list that is short for that reason says so.
 */
export function installContent(
  server: Server,
  caller: () => ToolCaller,
  open: () => Promise<UpstreamContent | undefined>,
  call: (name: string, args: Record<string, unknown>, context: ServerContext) => Promise<ToolAnswer>,
): void {
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
    if (answer.failure?.code === 'ERR_NOT_FOUND') throw new ResourceNotFoundError(params.uri)
    return outputOf<{ contents: { uri: string; text: string }[] }>(answer)
  })
  server.setRequestHandler('prompts/get', async ({ params }, context) => {
    const args = { name: params.name, ...(params.arguments && { arguments: params.arguments }) }
    return outputOf<{ messages: { role: 'user'; content: { type: 'text'; text: string } }[] }>(
      await call('get_mcp_prompt', args, context),
    )
  })
  server.setRequestHandler('completion/complete', async ({ params }, { mcpReq }) => {
    const { ref, argument, context } = params
    const asked = { ref, argument, ...(context && { context }) }
    const found = await (await open())?.complete(caller().principal, asked, mcpReq.signal)
    return (found ?? { completion: { values: [] } }) as CompleteResult
  })
}

function outputOf<Result>({ failure, output }: ToolAnswer): Result {
  if (failure === undefined) return output as Result
  const code = failure.code === 'ERR_NOT_FOUND' ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError
  throw new ProtocolError(code, failure.message, { code: failure.code, ...failure.details })
}
