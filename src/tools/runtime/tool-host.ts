import type { ErrorDetails } from '../../contract/app-error.ts'
import type { Progress, Transport } from '../../contract/call.ts'
import type { CallingClient } from '../../contract/calling-client.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import type { OfferedAgent } from '../../contract/gateway-directory.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import type { WebhookDelivery } from '../../contract/tool-invoker.ts'
import type { ContentRequest, UnreachableServer } from '../../contract/upstream-content.ts'
import type { ZaruMode } from './zaru-modes.ts'

/**
 * What a transport (stdio, HTTP, CLI, agent loop) sees of the tools: a list for a caller, and calls. Nothing else.
 */
export type Exposure = ChosenTools | ZaruExposure
export type ChosenTools = 'default' | 'full' | readonly string[]
/** A mode shows its tools, limited to the named ones if there are any, and refuses all others. */
export type ZaruExposure = Readonly<{ zaruMode: ZaruMode; tools?: ChosenTools }>

/** The caller, its transport, and the tools that the connection chose to see. Created once for a connection. */
export type ToolCaller = Readonly<{
  principal: Principal
  transport: Transport
  exposure: Exposure
  /** Offer `fs_read`-style names: set for clients that refuse dots or long names. Both spellings are always callable. */
  safeNames: boolean
  /** List each tool under one name, as safe names do: set for unknown clients. */
  distinctNames?: boolean
  /** Fields that the client adds to the arguments of every call; dropped where the tool has no such parameter. */
  addedArguments?: readonly string[]
  /** Scheme, name and port under which the client knows the HTTP server, checked by the transport. */
  origin?: string
}>

/** A tool as MCP lists it; computed once per name, never per request. */
export type ListedTool = Readonly<{
  name: string
  title: string
  description: string
  inputSchema: Readonly<Record<string, unknown>> & { readonly type: 'object' }
  outputSchema?: Readonly<Record<string, unknown>> & { readonly type: 'object' }
  annotations: Readonly<{
    title: string
    readOnlyHint: boolean
    destructiveHint: boolean
    idempotentHint: boolean
    openWorldHint: boolean
  }>
  /** For clients of 2025-11-25, at the address of a gateway. */
  execution?: Readonly<{ taskSupport: 'optional' }>
}>

export type ToolFailure = Readonly<{ code: ErrorCode; message: string; details: ErrorDetails }>

/**
 * `json` is the answer as compact JSON text: a transport puts it into `structuredContent` verbatim and, as a string, into the
 * text content, so that nothing is serialised twice. On failure it is the envelope `{"error":{code,message,details}}`.
 * `content`, when present, replaces the text content: another text than the JSON, a block for each warning, or what another
 * server answered.
 */
export type ToolAnswer = Readonly<{
  json: string
  /** The value of `json`, for callers in this process; absent on failure. */
  output?: unknown
  isError: boolean
  /** The answer has the shape of a success, and says that the work was not done. */
  statesError?: true
  failure?: ToolFailure
  /** There is no tool of the called name. An existing tool that does not find some other name says so in its failure. */
  isUnknownTool?: true
  content?: readonly Readonly<Record<string, unknown>>[]
  /** The same as JSON, where it was made already. */
  contentJson?: string
  /** Over MCP the answer is its content alone; `json` says the same for transports without content blocks. */
  structured?: false
  /** Further members of `_meta`. */
  meta?: Readonly<Record<string, unknown>>
  /** The texts of the blocks after the first, without their label; absent if there are none. */
  warnings?: readonly string[]
}>

export type CallOptions = Readonly<{
  signal?: AbortSignal
  progress?: (update: Progress) => void
  /** The calling program, if it can be asked questions. */
  client?: CallingClient
  /** For agents: the environment of their commands. */
  environment?: () => Readonly<Record<string, string>>
  /** A run that itself waits for people. */
  waitsForApproval?: boolean
  /** A run that delegates a task to this agent, and itself starts the child run. */
  delegatesTo?: OfferedAgent
  /** A run that needs a script of this program, which no policy judges. */
  isOwnScript?: boolean
  /** A run that sends its output to an address of its manifest. */
  webhook?: WebhookDelivery
  /** A request of MCP that reaches a server like the called tool, and is sent instead of it. */
  content?: ContentRequest
}>

/** `waits` is long too, and its answer may say to call again. */
export type CallDuration = 'short' | 'long' | 'waits'

export type ToolHost = Readonly<{
  /**
   * Every tool this caller may use under its exposure, in stable order. The same array while the list does not change; a promise
   * only if something may have changed.
   */
  list(caller: ToolCaller): readonly ListedTool[] | Promise<readonly ListedTool[]>
  /** The servers whose tools may be missing or outdated in the caller's list. */
  unreachable?(caller: ToolCaller): Promise<readonly UnreachableServer[]>
  /** Never rejects: every failure is an answer. An unknown name is an answer with ERR_UNKNOWN_TOOL. */
  call(caller: ToolCaller, name: string, args: unknown, options?: CallOptions): Promise<ToolAnswer>
  /** Whether calls of the tenant may need a person's approval, so that clients should be ready to be asked. */
  mayAskPerson?(tenant: TenantId): boolean
  /** The reader gets what was answered to the writer, without a call: it is no more trusted than the writer. */
  readsFrom?(reader: Principal, writer: Principal): Promise<void>
  /** How long a call may take, which decides whether it is better answered as a task. */
  durationOf?(caller: ToolCaller, name: string, args: unknown): CallDuration | Promise<CallDuration>
  /** Called when the lists that callers of the tenant see may have changed. Returns an unsubscribe function. */
  onListChanged(listener: (tenant: TenantId) => void): () => void
}>
