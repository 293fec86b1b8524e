import type { ErrorDetails } from '../../contract/app-error.ts'
import type { Door, Progress } from '../../contract/call.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ZaruMode } from './zaru-modes.ts'

/**
 * What a door (stdio, HTTP, CLI, agent loop) sees of the tools: a list for a caller, and calls. Nothing else.
 */
export type Exposure = ChosenTools | ZaruExposure
export type ChosenTools = 'default' | 'full' | readonly string[]
/** A mode shows its tools, of those that are named if some are, and refuses the others. */
export type ZaruExposure = Readonly<{ zaruMode: ZaruMode; tools?: ChosenTools }>

/** Who asks, through which door, and what the connection chose to see. Made once for a connection. */
export type ToolCaller = Readonly<{
  principal: Principal
  door: Door
  exposure: Exposure
  /** Offer `fs_read`-style names: set for clients that refuse dots or long names. Both spellings are always callable. */
  safeNames: boolean
  /** Fields that the client adds to the arguments of every call; dropped where the tool has no such parameter. */
  addedArguments?: readonly string[]
  /** Name and port under which the HTTP server was reached, found good by the door. */
  host?: string
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
}>

export type ToolFailure = Readonly<{ code: ErrorCode; message: string; details: ErrorDetails }>

/**
 * `json` is the answer as compact JSON text: a door puts it into `structuredContent` verbatim and, as a string, into the
 * text content, so that nothing is serialised twice. On failure it is the envelope `{"error":{code,message,details}}`.
 * `content`, when present, replaces the text content: another text than the JSON, and a block for each warning.
 */
export type ToolAnswer = Readonly<{
  json: string
  /** What `json` says, for callers in this process; absent on failure. */
  output?: unknown
  isError: boolean
  failure?: ToolFailure
  content?: readonly Readonly<Record<string, unknown>>[]
  /** What the blocks after the first say, without their label; absent when there are none. */
  warnings?: readonly string[]
}>

export type CallOptions = Readonly<{
  signal?: AbortSignal
  progress?: (update: Progress) => void
  /** For callers that are agents: what their commands find in the environment. */
  environment?: () => Readonly<Record<string, string>>
}>

/** `waits` is long too, and its answer may say to call again. */
export type CallDuration = 'short' | 'long' | 'waits'

export type ToolHost = Readonly<{
  /** Every tool this caller may use under its exposure, in stable order. Depends only on who asks. */
  list(caller: ToolCaller): readonly ListedTool[]
  /** Never rejects: every failure is an answer. An unknown name is an answer with ERR_UNKNOWN_TOOL. */
  call(caller: ToolCaller, name: string, args: unknown, options?: CallOptions): Promise<ToolAnswer>
  /** How long a call may take, and so whether it is better answered as a task. */
  durationOf?(name: string, args: unknown): CallDuration
  /** Called when the list that callers see may have changed. Returns an unsubscribe function. */
  onListChanged(listener: () => void): () => void
}>
