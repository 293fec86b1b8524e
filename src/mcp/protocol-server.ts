import {
  type CallToolResult,
  type jsonSchemaValidator,
  mergeCapabilities,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  Server,
  type ServerCapabilities,
  type ServerContext,
  type Tool,
} from '@modelcontextprotocol/server'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/server/validators/ajv'
import type { Progress } from '../contract/call.ts'
import type { UpstreamContent } from '../contract/upstream-content.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Counted } from '../tools/runtime/in-flight-calls.ts'
import type { CallDuration, ToolAnswer, ToolCaller } from '../tools/runtime/tool-host.ts'
import { callOutcome } from './call-outcome.ts'
import { isRequestId } from './call-request.ts'
import { callInTask, resultObject } from './calls-in-tasks.ts'
import { contentCapabilities, installContent } from './gateway-content.ts'
import type { ListKind, McpExtension, ResourceProvider } from './mcp-extension.ts'
import { listFor, skillCapabilities, toolCapabilities } from './server-facts.ts'
import type { SkillCatalog } from './skill-catalog.ts'
import { installSkills, skillResources } from './skill-methods.ts'
import type { StartCall } from './start-call.ts'
import { installTasks } from './task-methods.ts'
import { declaresTasks, type TaskStore, type TaskWork } from './task-store.ts'
import { isSameList, type ToolLists, type WholeList } from './tool-list.ts'
import type { ServerIdentity } from './wire.ts'

/**
 * The SDK's low-level server, one for each connection or stateless request. It answers everything that the hot path does
 * not: handshake, lists, skills, extension methods, and the tool calls that need the SDK's judgement.
 */
export type ProtocolDeps = Readonly<{
  identity: ServerIdentity
  instructions: string
  startCall: StartCall
  lists: ToolLists
  logger: Logger
  skills: SkillCatalog | undefined
  content: (() => Promise<UpstreamContent | undefined>) | undefined
  extension: McpExtension | undefined
  extensionToolNames: ReadonlySet<string>
  tasks: TaskStore
  /** What may take long is answered as a task to clients that know tasks. */
  durationOf(tool: string, args: unknown): CallDuration
  clock: Clock
  changed(kind: ListKind): void
}>

export type ProtocolConnection = {
  /** What calls are counted on; without it, the caller. */
  readonly calls?: Counted
  /** The address is that of a gateway: it has what the servers behind it offer, and none of our skills. */
  readonly isOfGateway?: boolean
  caller(): ToolCaller
  /** The list that the client was last given, or told to fetch. */
  seen?: WholeList
}

/** Only a server that asks its client for input validates with it, so it is made when first used. */
let ajv: AjvJsonSchemaValidator | undefined
const validator: jsonSchemaValidator = {
  getValidator(schema) {
    ajv ??= new AjvJsonSchemaValidator()
    return ajv.getValidator(schema)
  },
}

export function createProtocolServer(deps: ProtocolDeps, connection: ProtocolConnection): Server {
  const { extension } = deps
  const content = connection.isOfGateway === true ? deps.content : undefined
  const skills = connection.isOfGateway === true ? undefined : deps.skills
  let capabilities: ServerCapabilities = toolCapabilities
  if (skills !== undefined) capabilities = mergeCapabilities(capabilities, skillCapabilities)
  if (content !== undefined) capabilities = mergeCapabilities(capabilities, contentCapabilities)
  if (extension !== undefined) capabilities = mergeCapabilities(capabilities, extension.capabilities)

  const server = new Server(deps.identity, {
    capabilities,
    instructions: deps.instructions,
    jsonSchemaValidator: validator,
    ...extension?.serverOptions,
  })
  server.onerror = (error) => deps.logger.debug('MCP connection reported an error', { error: error.message })
  installTools(server, deps, connection)
  installTasks(server, deps.tasks, connection.caller)
  if (skills !== undefined) installSkills(server, skills, () => connection.caller().principal)
  const providers: ResourceProvider[] = []
  if (extension?.resources !== undefined) providers.push(extension.resources)
  if (skills !== undefined) providers.push(skillResources(skills))
  if (providers.length > 0) installResources(server, providers, connection)
  const call = (name: string, args: Record<string, unknown>, context: ServerContext) =>
    callInFlight(deps.startCall, connection, connection.caller(), { name, arguments: args }, context)
  if (content !== undefined) installContent(server, connection.caller, content, call)
  extension?.install(server)
  return server
}

function installTools(server: Server, deps: ProtocolDeps, connection: ProtocolConnection): void {
  const { extension } = deps
  server.setRequestHandler('tools/list', async ({ params }) => {
    const page = await deps.lists.page(connection.caller(), params?.cursor)
    if (page === undefined) {
      throw new ProtocolError(
        ProtocolErrorCode.InvalidParams,
        'cursor: not one that this list gave out. List again from the start.',
      )
    }
    const { nextCursor, whole } = page
    connection.seen = whole
    const tools = listFor(server.getNegotiatedProtocolVersion(), page.tools)
    if (nextCursor !== undefined) return { tools: [...tools] as Tool[], nextCursor }
    return { tools: [...tools, ...(extension?.tools ?? [])] as Tool[] }
  })

  server.setRequestHandler('tools/call', async ({ params }, context) => {
    const caller = connection.caller()
    if (extension !== undefined && deps.extensionToolNames.has(params.name)) {
      const createTask = (work: TaskWork) => deps.tasks.create(caller.principal, work)
      const call = { server, context, caller, changed: deps.changed, createTask }
      return (await extension.callTool(params.name, params.arguments ?? {}, call)) as CallToolResult
    }
    const request = { name: params.name, args: params.arguments ?? {} }
    const duration = deps.durationOf(request.name, request.args)
    if (duration !== 'short' && declaresTasks(context.mcpReq.envelope)) {
      const created = deps.tasks.create(caller.principal, (handle) =>
        callInTask(deps, connection.calls, caller, { ...request, duration }, handle),
      )
      if (created !== undefined) return created as unknown as CallToolResult
    }
    const answer = await callInFlight(deps.startCall, connection, caller, params, context)
    const outcome = callOutcome(caller, answer, server.getNegotiatedProtocolVersion())
    if (outcome.kind === 'error') throw new ProtocolError(outcome.code, outcome.message, outcome.data)
    return resultObject(outcome)
  })
}

function callInFlight(
  startCall: StartCall,
  connection: ProtocolConnection,
  caller: ToolCaller,
  params: { name: string; arguments?: Record<string, unknown> | undefined },
  context: ServerContext,
): Promise<ToolAnswer> {
  const token = context.mcpReq._meta?.progressToken
  const progress = isRequestId(token)
    ? (update: Progress) => {
        const note = { method: 'notifications/progress' as const, params: { progressToken: token, ...update } }
        context.mcpReq.notify(note).catch(() => {})
      }
    : undefined
  return new Promise((resolve) => {
    const call = startCall(connection.calls, caller, params.name, params.arguments ?? {}, progress, resolve)
    const { signal } = context.mcpReq
    if (call !== undefined) signal.addEventListener('abort', () => call.cancel(signal.reason), { once: true })
  })
}

function installResources(
  server: Server,
  providers: readonly ResourceProvider[],
  connection: ProtocolConnection,
): void {
  server.setRequestHandler('resources/list', async () => {
    const caller = connection.caller()
    const lists = await Promise.all(providers.map((provider) => provider.list(caller)))
    return { resources: lists.flat() }
  })
  server.setRequestHandler('resources/templates/list', () => ({
    resourceTemplates: providers.flatMap((provider) => provider.templates),
  }))
  server.setRequestHandler('resources/read', async ({ params }) => {
    const caller = connection.caller()
    for (const provider of providers) {
      const result = await provider.read(params.uri, caller)
      if (result !== undefined) return result
    }
    throw new ResourceNotFoundError(params.uri)
  })
}

/** Tells the client of one connection that its tools changed, if they did since it last saw them. */
export async function announceTools(lists: ToolLists, server: Server, connection: ProtocolConnection): Promise<void> {
  const before = connection.seen
  const now = await lists.whole(connection.caller())
  connection.seen = now
  if (before === undefined || !isSameList(before, now)) announceChange(server, 'tools')
}

/** Tells the client of one connection that a list changed; a connection that just ended is no error. */
export function announceChange(server: Server, kind: ListKind): void {
  const { tools, prompts, resources } = server.getCapabilities()
  const ignore = () => {}
  if (server.transport === undefined) return
  if (kind === 'tools' && tools?.listChanged) server.sendToolListChanged().catch(ignore)
  else if (kind === 'prompts' && prompts?.listChanged) server.sendPromptListChanged().catch(ignore)
  else if (kind === 'resources' && resources?.listChanged) server.sendResourceListChanged().catch(ignore)
}
