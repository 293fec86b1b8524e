import type {
  CallToolResult,
  InputRequiredResult,
  ReadResourceResult,
  Resource,
  ResourceTemplateType,
  Server,
  ServerCapabilities,
  ServerContext,
  ServerOptions,
} from '@modelcontextprotocol/server'
import type { ListedTool, ToolCaller } from '../tools/runtime/tool-host.ts'
import type { TaskWork } from './task-store.ts'

/**
 * A narrow way to add what a tool host cannot provide: prompts, resources, and tools that talk to the client while they run. The
 * transport asks the extension only for the names it claims. It exists for the protocol conformance fixtures and for protocol
 * extensions, never for product tools.
 */
export type ListKind = 'tools' | 'prompts' | 'resources'

export type ResourceProvider = Readonly<{
  list(caller: ToolCaller): Promise<readonly Resource[]>
  templates: readonly ResourceTemplateType[]
  /** `undefined` when the URI is not one of this provider's. */
  read(uri: string, caller: ToolCaller): Promise<ReadResourceResult | undefined>
}>

export type ExtensionCall = Readonly<{
  server: Server
  context: ServerContext
  caller: ToolCaller
  /** Tells every connected client that a list changed. */
  changed(kind: ListKind): void
  /** Answers the call with a task; the work's answer is the result of the call. Undefined if there is no capacity. */
  createTask(work: TaskWork): Promise<Readonly<Record<string, unknown>> | undefined>
}>

export type McpExtension = Readonly<{
  capabilities: ServerCapabilities
  serverOptions?: Pick<ServerOptions, 'requestState'>
  tools: readonly ListedTool[]
  callTool(
    name: string,
    args: Readonly<Record<string, unknown>>,
    call: ExtensionCall,
  ): Promise<CallToolResult | InputRequiredResult>
  resources?: ResourceProvider
  /** Sets handlers for methods that the transport does not serve itself; runs once for each protocol server, before it connects. */
  install(server: Server): void
}>
