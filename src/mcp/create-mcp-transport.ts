import type { IncomingMessage, ServerResponse } from 'node:http'
import type { McpSessionMemory } from '../contract/mcp-sessions.ts'
import type { TenantId } from '../contract/principal.ts'
import type { UpstreamContent } from '../contract/upstream-content.ts'
import { type Clock, systemClock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import { type Random, systemRandom } from '../kernel/random.ts'
import { createInFlightCalls, type InFlightCalls } from '../tools/runtime/in-flight-calls.ts'
import { everPresent, type Presence } from '../tools/runtime/presence.ts'
import type { ToolHost } from '../tools/runtime/tool-host.ts'
import { createEnvelopeCheck } from './call-request.ts'
import { mayReachServer } from './calling-client.ts'
import type { HttpCaller } from './http-caller.ts'
import { type LineCaller, LineConnection, type LineSession } from './line-session.ts'
import type { LineTransport } from './line-transport.ts'
import type { ListKind, McpExtension } from './mcp-extension.ts'
import type { ProtocolDeps } from './protocol-server.ts'
import { SERVER_NAME, serverInstructions } from './server-facts.ts'
import { inSession, isOf } from './session-identity.ts'
import { createSkillCatalog } from './skill-catalog.ts'
import type { SkillSource } from './skill-source.ts'
import { createStartCall } from './start-call.ts'
import { StreamableHttp } from './streamable-http.ts'
import { createTaskStore } from './task-store.ts'
import { createToolLists } from './tool-list.ts'
import { createWaitingCalls } from './waiting-calls.ts'
import { createWire } from './wire.ts'

/**
 * The MCP transport: protocol only. It knows a tool host, and optionally where skills come from; it knows no domain.
 */
export type McpTransportDeps = Readonly<{
  host: ToolHost
  version: string
  logger: Logger
  skills?: SkillSource
  /** What MCP servers behind gateways offer beside tools. */
  content?: () => Promise<UpstreamContent | undefined>
  /** Where sessions at gateways outlive the process. */
  sessionMemory?: () => Promise<McpSessionMemory | undefined>
  /** The conformance fixtures; never set in production. */
  fixtures?: McpExtension
  clock?: Clock
  random?: Random
  /** Without it nobody is ever gone. */
  presence?: Presence
  /** Shared with the other transports of the process; without it this one has its own. */
  inFlight?: InFlightCalls
}>

export type McpTransport = Readonly<{
  /** Serves one connection until its input ends or `close` is called. */
  serveLines(transport: LineTransport, caller: LineCaller): LineSession
  /** Serves one HTTP request. The principal was authenticated and Host and Origin were checked before. */
  handleHttp(req: IncomingMessage, res: ServerResponse, caller: HttpCaller): void
  /** Ends the HTTP sessions that were idle for too long; also happens by itself. */
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
  const tasks = createTaskStore({ clock, random })
  const waiting = createWaitingCalls({ random })
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
    extension: fixtures,
    extensionToolNames: new Set(fixtures?.tools.map((tool) => tool.name)),
    changed,
    wire: createWire(identity),
    isModernEnvelope: createEnvelopeCheck(),
    tasks,
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
      logger.warn('clients were not notified that their tools changed', { tenant, cause: String(error) })
    }
  }
  const stopTools = host.onListChanged((tenant) => void toolsChanged(tenant))
  const stopSkills = deps.skills?.onChange(() => {
    skills?.clear()
    changed('resources')
  })

  return {
    serveLines(transport, caller) {
      // A command line is a caller like one over REST: each of its calls is a connection of its own.
      const session = caller.session ?? random.bytes(LINE_SESSION_BYTES).toString('base64url')
      const principal = caller.transport === 'cli' ? caller.principal : inSession(caller.principal, session)
      const connection = new LineConnection(shared, transport, { ...caller, principal })
      connections.add(connection)
      connection.closed.then(() => connections.delete(connection))
      return connection
    },
    handleHttp: (req, res, caller) => http.handle(req, res, caller),
    sweepSessions: () => http.sweep(),
    async close(graceMs) {
      stopTools()
      stopSkills?.()
      tasks.close()
      waiting.close()
      await inFlight.drain(graceMs)
      await Promise.all([...connections].map((connection) => connection.close()))
      await http.close()
    },
  }
}
