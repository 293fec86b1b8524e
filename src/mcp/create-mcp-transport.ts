import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ForwardedAnswers } from '../contract/forwarded-answers.ts'
import { newLineSession } from '../contract/line-session.ts'
import type { McpSessionMemory } from '../contract/mcp-sessions.ts'
import type { TenantId } from '../contract/principal.ts'
import type { ProcessNames, TaskDirectory } from '../contract/task-directory.ts'
import type { UpstreamContent } from '../contract/upstream-content.ts'
import type { Reply } from '../http/exchange/reply.ts'
import type { RequestHead } from '../http/exchange/request-head.ts'
import { createBackground } from '../kernel/background.ts'
import { type Clock, systemClock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import { type Random, randomId, systemRandom } from '../kernel/random.ts'
import { createInFlightCalls, type InFlightCalls } from '../tools/runtime/in-flight-calls.ts'
import { everPresent, type Presence } from '../tools/runtime/presence.ts'
import type { ToolHost } from '../tools/runtime/tool-host.ts'
import { createEnvelopeCheck } from './call-request.ts'
import { mayReachServer } from './calling-client.ts'
import { createAnswerForwarding } from './forward-answers.ts'
import type { HttpCaller } from './http-caller.ts'
import { type LineCaller, LineConnection, type LineSession } from './line-session.ts'
import type { LineTransport } from './line-transport.ts'
import { createListedTasks } from './listed-tasks.ts'
import type { ListKind, McpExtension } from './mcp-extension.ts'
import type { GatewaySource } from './open-responses.ts'
import type { ProtocolDeps } from './protocol-server.ts'
import { SERVER_NAME, serverInstructions } from './server-facts.ts'
import { inLineSession, isOf } from './session-identity.ts'
import { createSharedTasks, shareTask } from './shared-tasks.ts'
import { createSkillCatalog } from './skill-catalog.ts'
import type { SkillSource } from './skill-source.ts'
import { createStartCall } from './start-call.ts'
import { StreamableHttp } from './streamable-http.ts'
import { createTaskStore, type TaskStore } from './task-store.ts'
import { createToolLists } from './tool-list.ts'
import { createWaitingCalls } from './waiting-calls.ts'
import { createWire } from './wire.ts'

/** The MCP transport: protocol only. It depends on a tool host, and optionally on a source of skills, but on no domain. */
export type McpTransportDeps = Readonly<{
  host: ToolHost
  version: string
  logger: Logger
  skills?: SkillSource
  /** Resources and prompts of MCP servers behind gateways. */
  content?: () => Promise<UpstreamContent | undefined>
  /** Storage for sessions at gateways that outlive the process. */
  sessionMemory?: () => Promise<McpSessionMemory | undefined>
  /** Who may use the address of a gateway or an agent; without it, nobody loses the right. */
  gateways?: GatewaySource
  /** Set if other processes serve the same clients; without it, an answer must reach the process that asked. */
  forwardedAnswers?: () => Promise<ForwardedAnswers | undefined>
  /** With `forwardedAnswers`: the tasks of all processes. */
  taskDirectory?: () => Promise<TaskDirectory | undefined>
  /** Without it, no process is known to have ended. */
  processes?: ProcessNames
  /** The conformance fixtures; never set in production. */
  fixtures?: McpExtension
  clock?: Clock
  random?: Random
  /** Without it no caller is ever revoked. */
  presence?: Presence
  /** Shared with the other transports of the process; if absent, this one has its own. */
  inFlight?: InFlightCalls
}>

export type McpTransport = Readonly<{
  /** Serves one connection until its input ends or `close` is called. */
  serveLines(transport: LineTransport, caller: LineCaller): LineSession
  /** Serves one HTTP request. The principal was authenticated, and Host and Origin were checked before. */
  handleHttp(req: IncomingMessage, res: ServerResponse, caller: HttpCaller): void
  /** Serves a plain tool call past `node:http`; false if it is no such call, and then nothing was done. */
  servePlain(head: RequestHead, body: string, caller: HttpCaller, reply: Reply): boolean
  /** Ends the HTTP sessions that were idle for too long; also happens automatically. */
  sweepSessions(): void
  /** Finishes or fails every call, then ends every stream and connection. */
  close(graceMs: number): Promise<void>
}>

const LINE_SESSION_BYTES = 12

export function createMcpTransport(deps: McpTransportDeps): McpTransport {
  const { host, logger, fixtures } = deps
  const identity = { name: SERVER_NAME, version: deps.version }
  const lists = createToolLists(host)
  const skills = deps.skills === undefined ? undefined : createSkillCatalog({ source: deps.skills, logger })
  const connections = new Set<LineConnection>()
  const presence = deps.presence ?? everPresent
  const inFlight = deps.inFlight ?? createInFlightCalls(presence)
  const clock = deps.clock ?? systemClock
  const random = deps.random ?? systemRandom
  const passing =
    deps.forwardedAnswers && createAnswerForwarding({ answers: deps.forwardedAnswers, clock, random, logger })
  const processes = deps.processes ?? { own: randomId(random, 'process'), hasEnded: () => false }
  const listed = deps.taskDirectory && createListedTasks({ directory: deps.taskDirectory, clock, processes, logger })
  const others = passing && listed && { passing, listed }
  const noteCreated = others && shareTask(others, () => tasks)
  const tasks: TaskStore = createTaskStore({ clock, random, noteCreated, noteChanged: listed?.change })
  const waiting = createWaitingCalls({ random, passing, listed: others?.listed.states })
  deps.presence?.onRevoked((tenant, owner) => {
    tasks.forget((principal) => isOf(principal, tenant, owner))
    waiting.forget((principal) => isOf(principal, tenant, owner))
  })
  const shared = {
    identity,
    instructions: serverInstructions,
    inFlight,
    startCall: createStartCall({ host, logger, inFlight }),
    lists,
    logger,
    skills,
    content: deps.content,
    sessionMemory: deps.sessionMemory,
    gateways: deps.gateways,
    passing,
    extension: fixtures,
    extensionToolNames: new Set(fixtures?.tools.map((tool) => tool.name)),
    changed,
    wire: createWire(identity),
    isModernEnvelope: createEnvelopeCheck(),
    tasks: createSharedTasks(tasks, others, host.readsFrom),
    waiting,
    durationOf: (caller, tool, args) => host.durationOf?.(caller, tool, args) ?? 'short',
    mayAsk: ({ tenant }, tool) => mayReachServer(tool) || host.mayAskPerson?.(tenant) === true,
    clock,
    random,
    presence,
  } satisfies ProtocolDeps & Record<string, unknown>
  const http = new StreamableHttp(shared)

  function changed(kind: ListKind): void {
    for (const connection of connections) connection.announce(kind)
    http.announce(kind)
  }
  async function toolsChanged(tenant: TenantId): Promise<void> {
    try {
      for (const connection of connections) await connection.toolsChanged(tenant)
      await http.toolsChanged(tenant)
    } catch (error) {
      logger.warn('clients could not be notified that their tools changed', { tenant, cause: String(error) })
    }
  }
  const announcing = createBackground((error) =>
    logger.warn('a change of tools was not announced', { cause: String(error) }),
  )
  const stopTools = host.onListChanged((tenant) => announcing.run(() => toolsChanged(tenant)))
  const stopSkills = deps.skills?.onChange(() => {
    skills?.clear()
    changed('resources')
  })

  return {
    serveLines(transport, caller) {
      // A command line is a caller like one over REST: each of its calls is a separate connection.
      const session =
        caller.session ?? newLineSession(clock.nowMs(), random.bytes(LINE_SESSION_BYTES).toString('base64url'))
      const principal = caller.transport === 'cli' ? caller.principal : inLineSession(caller.principal, session)
      const connection = new LineConnection(shared, transport, { ...caller, principal })
      connections.add(connection)
      connection.closed.then(() => connections.delete(connection))
      return connection
    },
    handleHttp: (req, res, caller) => http.handle(req, res, caller),
    servePlain: (head, body, caller, reply) => http.servePlain(head, body, caller, reply),
    sweepSessions: () => http.sweep(),
    async close(graceMs) {
      stopTools()
      stopSkills?.()
      tasks.close()
      waiting.close()
      await inFlight.drain(graceMs)
      await listed?.close()
      await announcing.close()
      await Promise.all([...connections].map((connection) => connection.close()))
      await http.close()
    },
  }
}
