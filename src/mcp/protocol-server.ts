import {
  type CallToolResult,
  type InputRequests,
  type InputRequiredResult,
  inputRequired,
  isInputRequiredResult,
  type jsonSchemaValidator,
  type LoggingLevel,
  mergeCapabilities,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type Server,
  type ServerCapabilities,
  type ServerContext,
  type Tool,
} from '@modelcontextprotocol/server'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/server/validators/ajv'
import type { Call, Progress } from '../contract/call.ts'
import type { Principal } from '../contract/principal.ts'
import type { ContentRequest, UpstreamContent } from '../contract/upstream-content.ts'
import type { Clock } from '../kernel/clock.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Counted } from '../tools/runtime/in-flight-calls.ts'
import type { CallDuration, CallOptions, ToolAnswer, ToolCaller } from '../tools/runtime/tool-host.ts'
import { callOutcome } from './call-outcome.ts'
import { isRequestId } from './call-request.ts'
import {
  type ClientSession,
  clientOfRequest,
  clientOfSession,
  envelopeCapabilities,
  noSuchState,
  tellIn,
} from './calling-client.ts'
import { callInTask, resultObject } from './calls-in-tasks.ts'
import { CheckedServer } from './checked-server.ts'
import { type CallContent, contentCapabilities, installContent } from './gateway-content.ts'
import type { ListKind, McpExtension, ResourceProvider } from './mcp-extension.ts'
import { listFor, MODERN_REVISION, skillCapabilities, toolCapabilities } from './server-facts.ts'
import type { SharedTasks } from './shared-tasks.ts'
import type { SkillCatalog } from './skill-catalog.ts'
import { installSkills, skillResources } from './skill-methods.ts'
import type { StartCall } from './start-call.ts'
import type { Subscriptions } from './subscriptions.ts'
import { clientOfTask, installTasks, noTaskFor, olderAnswer, taskKindOf, tooManyTasks } from './task-methods.ts'
import type { TaskWork } from './task-store.ts'
import { isSameList, type ToolLists, type WholeList } from './tool-list.ts'
import type { WaitingCalls } from './waiting-calls.ts'
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
  tasks: SharedTasks
  waiting: WaitingCalls
  /** Long calls are answered with a task to clients that know tasks. */
  durationOf(caller: ToolCaller, tool: string, args: unknown): CallDuration | Promise<CallDuration>
  /** Whether the client may be asked questions during a call of this tool. */
  mayAsk(principal: Principal, tool: string): boolean
  clock: Clock
  changed(kind: ListKind): void
}>

export type ProtocolConnection = {
  /** What calls are counted on; without it, the caller. */
  readonly calls?: Counted
  /** The address of a gateway: it offers the content of the servers behind it, and none of our skills. */
  readonly isOfGateway?: boolean
  caller(): ToolCaller
  /** The session, if there is one: in a session the client can be asked questions. */
  readonly session?: ClientSession
  /** The minimum level of server log messages that the client requested. */
  logLevel?: LoggingLevel
  /** The resources that the client of a session subscribed to. */
  readonly subscriptions?: Subscriptions
  /** Subscribes to a resource outside a request of the client. Set where there are subscriptions. */
  subscribe?: (uri: string, hears?: NonNullable<Call['hears']>) => Promise<void>
  /** Makes a change of the two above, and stores it with the session. */
  readonly choose?: (change: () => void | Promise<void>) => Promise<void>
  /** The list that the client last received, or was told to fetch. */
  seen?: WholeList
}

/** Only a server that asks its client for input needs it, so it is created on first use. */
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

  const server = new CheckedServer(deps.identity, {
    capabilities,
    instructions: deps.instructions,
    jsonSchemaValidator: validator,
    ...extension?.serverOptions,
  })
  server.onerror = (error) => deps.logger.debug('MCP connection reported an error', { error: error.message })
  installTools(server, deps, connection)
  installTasks(server, deps.tasks, connection)
  if (skills !== undefined) installSkills(server, skills, () => connection.caller().principal)
  const providers: ResourceProvider[] = []
  if (extension?.resources !== undefined) providers.push(extension.resources)
  if (skills !== undefined) providers.push(skillResources(skills))
  if (providers.length > 0) installResources(server, providers, connection)
  const call: CallContent = (name, args, context, request) =>
    callAsking(server, deps, connection, { name, args, ...(request && { content: request }) }, context)
  if (content !== undefined) installContent(server, connection, content, call)
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
        'cursor: was not issued by this list. List again from the start.',
      )
    }
    const { nextCursor, whole, _meta } = page
    const meta = _meta && { _meta: { ..._meta } }
    connection.seen = whole
    const tools = listFor(server.getNegotiatedProtocolVersion(), page.tools)
    if (nextCursor !== undefined) return { tools: [...tools] as Tool[], nextCursor, ...meta }
    return { tools: [...tools, ...(extension?.tools ?? [])] as Tool[], ...meta }
  })

  server.setRequestHandler('tools/call', async ({ params }, context) => {
    const caller = connection.caller()
    if (extension !== undefined && deps.extensionToolNames.has(params.name)) {
      const createTask = (work: TaskWork) => deps.tasks.create(caller.principal, work)
      const call = { server, context, caller, changed: deps.changed, createTask }
      return (await extension.callTool(params.name, params.arguments ?? {}, call)) as CallToolResult
    }
    const request = { name: params.name, args: params.arguments ?? {} }
    const kind = taskKindOf(server, connection, params, context)
    const duration = kind === undefined ? 'short' : await deps.durationOf(caller, request.name, request.args)
    if (kind === 'older' && duration === 'short') throw noTaskFor(request.name)
    if (kind !== undefined && duration !== 'short') {
      const created = await deps.tasks.create(caller.principal, (handle) => {
        const client = clientOfTask(server, connection.session, caller.principal, context, handle)
        const called = { ...request, duration, client, revision: server.getNegotiatedProtocolVersion() }
        return callInTask(deps, connection.calls, caller, called, handle)
      })
      if (created !== undefined) return (kind === 'older' ? olderAnswer(created) : created) as unknown as CallToolResult
      if (kind === 'older') throw tooManyTasks()
    }
    const answer = await callAsking(server, deps, connection, request, context)
    if (isInputRequiredResult(answer)) return answer
    const outcome = callOutcome(caller, answer, server.getNegotiatedProtocolVersion())
    if (outcome.kind === 'error') throw new ProtocolError(outcome.code, outcome.message, outcome.data)
    return resultObject(outcome)
  })
}

type NamedCall = Readonly<{ name: string; args: Readonly<Record<string, unknown>>; content?: ContentRequest }>

/**
 * A call during which its client can be asked questions: by requests of ours in a session; in the stateless revision by the
 * answer to its request, after which the client calls again with the answers.
 */
async function callAsking(
  server: Server,
  deps: Pick<ProtocolDeps, 'startCall' | 'waiting' | 'mayAsk'>,
  connection: ProtocolConnection,
  { name, args, content }: NamedCall,
  context: ServerContext,
): Promise<ToolAnswer | InputRequiredResult> {
  const caller = connection.caller()
  const { principal } = caller
  const { mcpReq } = context
  const progress = progressOf(context)
  const call = (options: Pick<CallOptions, 'signal' | 'progress' | 'client'>): Promise<ToolAnswer> =>
    new Promise((resolve) => {
      const { signal, client } = options
      const started = deps.startCall(connection.calls, caller, name, args, options.progress, resolve, client, content)
      if (started === undefined || signal === undefined) return
      signal.addEventListener('abort', () => started.cancel(signal.reason), { once: true })
      if (signal.aborted) started.cancel(signal.reason)
    })
  const { signal } = mcpReq
  if (server.getNegotiatedProtocolVersion() !== MODERN_REVISION) {
    const callingClient =
      connection.session && clientOfSession(server, connection, connection.session, principal, context)
    try {
      return await call({
        signal,
        ...(progress && { progress }),
        ...(callingClient && { client: callingClient.client }),
      })
    } finally {
      callingClient?.over()
    }
  }
  const state = mcpReq.requestState()
  const canAsk = envelopeCapabilities(mcpReq.envelope) !== undefined && deps.mayAsk(principal, name)
  if (!canAsk && state === undefined) return await call({ signal, ...(progress && { progress }) })
  const callRequest = { signal, progress, tell: tellIn(context) }
  const subject = sha256Hex(JSON.stringify([name, args, ...(content === undefined ? [] : [content.method])]))
  const outcome = await (typeof state === 'string'
    ? deps.waiting.resume<ToolAnswer>(principal, subject, state, mcpReq.inputResponses ?? {}, callRequest)
    : deps.waiting.begin(principal, subject, callRequest, (asking) =>
        call({
          signal: asking.signal,
          progress: asking.progress,
          client: clientOfRequest(connection.session, principal, context, asking),
        }),
      ))
  if (outcome === undefined) throw noSuchState()
  if (outcome.kind === 'answered') return outcome.answer
  return inputRequired({ inputRequests: outcome.questions as unknown as InputRequests, requestState: outcome.state })
}

function progressOf({ mcpReq }: ServerContext): ((update: Progress) => void) | undefined {
  const token = mcpReq._meta?.progressToken
  if (!isRequestId(token)) return undefined
  return (update) => {
    const note = { method: 'notifications/progress' as const, params: { progressToken: token, ...update } }
    mcpReq.notify(note).catch(() => {})
  }
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

/** Notifies the client of one connection if its tools have changed since it last saw them. */
export async function announceTools(lists: ToolLists, server: Server, connection: ProtocolConnection): Promise<void> {
  const before = connection.seen
  const now = await lists.whole(connection.caller())
  connection.seen = now
  if (before === undefined || !isSameList(before, now)) announceChange(server, 'tools')
}

/** Notifies the client of one connection that a list changed; a connection that just ended is not an error. */
export function announceChange(server: Server, kind: ListKind): void {
  const { tools, prompts, resources } = server.getCapabilities()
  const ignore = () => {}
  if (server.transport === undefined) return
  if (kind === 'tools' && tools?.listChanged) server.sendToolListChanged().catch(ignore)
  else if (kind === 'prompts' && prompts?.listChanged) server.sendPromptListChanged().catch(ignore)
  else if (kind === 'resources' && resources?.listChanged) server.sendResourceListChanged().catch(ignore)
}
