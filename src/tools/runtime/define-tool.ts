import type { z } from 'zod'
import type { Call } from '../../contract/call.ts'
import type { Permission } from '../../contract/permissions.ts'
import type { Principal, Tier } from '../../contract/principal.ts'
import type { BuiltInTrust } from '../../contract/tool-policies.ts'
import type { Governed } from '../../domains/security-contexts/read-access-request.ts'
import type { KnownNames } from './known-names.ts'
import type { Services } from './services.ts'
import type { ToolCaller } from './tool-host.ts'

/**
 * What a tool does to the world. MCP hints are derived from it, so they cannot contradict each other.
 * `create`, `update` and `delete` run inside one write transaction, together with the record of the call.
 * `external` reaches beyond the store: it runs outside a transaction, writes through `call.transact`, and its record is
 * committed before the answer. `read` never writes.
 */
const effects = ['read', 'create', 'update', 'delete', 'external'] as const
export type Effect = (typeof effects)[number]
export const rateCategories = ['create', 'exec', 'default', 'message'] as const
export type RateCategory = (typeof rateCategories)[number]

/** The unit of exposure, by its public name. Its folder under `tools/` has the name of the domain (`test/repo/toolset-folders.ts`). */
export const toolsets = [
  'agents',
  'cmd',
  'executions',
  'fs',
  'gateways',
  'identity',
  'intents',
  'interactions',
  'ledger',
  'limits',
  'log',
  'mcp-servers',
  'meta',
  'model-proxies',
  'modes',
  'people',
  'platform',
  'policies',
  'secrets',
  'server',
  'teams',
  'vault',
  'web',
  'workflows',
  'workspaces',
] as const
export type Toolset = (typeof toolsets)[number]

/**
 * How arguments are checked. `strict` refuses unknown fields. `aegis` does so too unless nothing is required: then any
 * object is accepted and unknown keys are ignored with a warning; its message for a missing argument is the document's.
 * `schema` leaves it to the JSON Schema of the tool whether unknown fields are allowed, and passes them on.
 * In all of them, null for an optional field means that it was left out: some clients send every field.
 */
export type ArgumentRule = 'strict' | 'aegis' | 'schema'

/** What a service may hand out for a schema's type: the same, but nobody is going to change it. */
type Answer<T> = T extends readonly (infer Item)[]
  ? readonly Answer<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Answer<T[Key]> }
    : T

/** What a call is judged by: the right it needs, what it may do, and the bucket it is counted in. */
export type CallRules = Readonly<{
  /** `null` means that no permission is needed, on purpose. */
  permission: Permission | null
  /** What it needs besides, because it does what another tool is there for. */
  alsoNeeds?: readonly Permission[]
  effect: Effect
  rate: RateCategory
  /** Also done when the disk of the state is nearly full: it frees room, or ends something. What deletes always is. */
  whenDiskFull?: true
}>

export type ToolContext = Services & Readonly<{ call: Call; principal: Principal }>

export type ToolDefinition<Input extends z.ZodType = z.ZodType, Output extends z.ZodType = z.ZodType> = CallRules &
  Readonly<{
    name: string
    toolset: Toolset
    title: string
    /** Written for a model that must choose: what it does, when to use it, what to use instead. */
    description: string
    tier: Tier
    /** Calling it again with the same arguments changes nothing more. */
    idempotent: boolean
    /**
     * For a tool with a parameter `action`: where the rules of single actions differ from the tool's own, which hold for
     * all other actions and for whatever is none. The hints of MCP are made from the tool's own rules.
     */
    actions?: Readonly<Record<string, Partial<CallRules>>>
    /** Whether the inner-loop judge is skipped by default. */
    skipJudge: boolean
    /** What the log keeps of arguments and answer beside their digests. */
    audit: 'digest' | 'content'
    /** How arguments are checked; `strict` if absent. */
    arguments?: ArgumentRule
    /** Other names that callers give to fields; a field may be given once, under any of its names. */
    otherNames?: Readonly<Record<string, string>>
    /** Which arguments security contexts look at; nothing of a tool without it can be held against their lists. */
    governed?: Governed
    /** What is known of its data where no policy says otherwise; trusted, and nothing leaves, if absent. */
    trust?: BuiltInTrust
    /** Another documented spelling of this tool, with which it shares its safe name. */
    aliasOf?: string
    /** Reaches the open world although it changes nothing there. */
    openWorld?: true
    /** For an `external` tool: it only creates something new that belongs to the caller, or leaves the harm to what it calls. */
    harmless?: true
    /** Its answer names tools for the caller to call, so it spells them as the caller's list does. */
    namesTools?: true
    /** Its answer is a `RawAnswer`, MCP content that another server made. Such a tool has no `output`. */
    raw?: true
    /** What the answer is as plain text, where that is what a reader wants instead of JSON. */
    text?(output: z.output<Output>): string
    /** The largest answer as JSON, where the usual bound is too small. */
    answerBytesMax?: number
    /** It waits, for `timeout_seconds` if given; an answer with `timed_out` before that says to call again. */
    waits?: true
    /** It may well take longer than a client waits for an answer. */
    long?: true
    /** What a tool that writes looks at beside the store: done before its transaction begins, which all others wait for. */
    before?(input: z.output<Input>, context: ToolContext): Promise<void>
    /** It begins a run and answers at once: the field of the answer that names the run, and the tool that waits for it. */
    begins?: Readonly<{ field: string; waitTool: string }>
    /** The only transports that offer it; over all others there is no such tool. */
    transports?: readonly ToolCaller['transport'][]
    /** Also answers a tenant whose log is halted, though that takes no record: it tells what is wrong, or mends it. */
    onHaltedLog?: 'answer'
    /** Also answers in mode MINIMAL, when no store is open. */
    minimal?: true
    /**
     * Hands the call on to another tool before anything is checked, so that every stage judges the tool that really runs.
     * Such a tool has no `output`, and its own `run` is never reached.
     */
    redirect?(args: unknown, context: RedirectContext): RedirectedCall
    input: Input
    /** Absent only for a tool that passes the answer of another tool or server on. */
    output?: Output
    run(input: z.output<Input>, context: ToolContext): Promise<Answer<z.input<Output>>> | Answer<z.input<Output>>
  }>

/** The members that only a call needs, and that bring Zod and the domains along. */
type ToolCode = 'input' | 'output' | 'run' | 'before' | 'text' | 'redirect'

/** What running a tool takes beside its declaration. */
export type LoadedTool = Pick<ToolDefinition, 'name' | ToolCode>

/** What a definition says of its tool, as plain data: enough to list it, to find it and to judge a call of it. */
export type ToolDeclaration = Omit<ToolDefinition, ToolCode | 'toolset'> &
  Readonly<{
    /** `upstream` for a tool of another MCP server. */
    toolset: Toolset | 'upstream'
    /** Whether it has `redirect`. */
    redirects?: true
  }>

/** Of a tool of this program itself. */
export type OwnDeclaration = ToolDeclaration & Readonly<{ toolset: Toolset }>

export function declarationOf(definition: ToolDefinition): OwnDeclaration {
  const { input: _, output: __, run: ___, before: ____, text: _____, redirect, ...declared } = definition
  return redirect === undefined ? declared : { ...declared, redirects: true }
}

/** What a redirecting tool may know: the names there are, other spellings of them, and what each takes. */
type RedirectContext = Readonly<{
  names: KnownNames
  inputSchemaOf(name: string): Readonly<Record<string, unknown>> | undefined
  documentedNameOf(name: string): string | undefined
}>
type RedirectedCall = Readonly<{ name: string; args: unknown; warnings: readonly string[] }>

/** Carries the types; does nothing else. */
export const defineTool = <Input extends z.ZodType, Output extends z.ZodType>(
  definition: ToolDefinition<Input, Output>,
): ToolDefinition<Input, Output> => definition
