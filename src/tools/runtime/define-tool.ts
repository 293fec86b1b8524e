import type { z } from 'zod'
import type { Call } from '../../contract/call.ts'
import type { Permission } from '../../contract/permissions.ts'
import type { Principal, Tier } from '../../contract/principal.ts'
import type { BuiltInTrust } from '../../contract/tool-policies.ts'
import type { Governed } from '../../domains/security-contexts/read-access-request.ts'
import type { KnownNames } from './known-names.ts'
import type { Services } from './services.ts'
import type { StatedFailure } from './stated-failure.ts'
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

/** The type of a service's answer for a schema: the same, but read-only. */
type Answer<T> = T extends readonly (infer Item)[]
  ? readonly Answer<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Answer<T[Key]> }
    : T

/** The rules for a call: the permission it needs, its effect, and its rate bucket. */
export type CallRules = Readonly<{
  /** `null` means that no permission is needed, on purpose. */
  permission: Permission | null
  /** Further permissions, because it does the work of another tool. */
  alsoNeeds?: readonly Permission[]
  effect: Effect
  rate: RateCategory
  /** Also allowed when the disk of the state is nearly full: it frees space, or ends something. Deleting tools always are. */
  whenDiskFull?: true
}>

/** `unused` are required fields that an action does not use, each with the value that it gets if it is left out. */
type ActionRules = Readonly<{ unused?: Readonly<Record<string, number | string>> }>

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
     * For a tool with a parameter `action`: the actions whose rules differ from the tool's own, which apply to all other values.
     * MCP's hints follow the tool's own rules.
     */
    actions?: Readonly<Record<string, Partial<CallRules> & ActionRules>>
    /** Whether the inner-loop judge is skipped by default. */
    skipJudge: boolean
    /** `content` stores arguments and answer in the log, where nothing can be erased. If absent, the log has only their digests. */
    audit?: 'content'
    /** How arguments are checked; `strict` if absent. */
    arguments?: ArgumentRule
    /** Alternative names of fields; a field may be given once, under any of its names. */
    otherNames?: Readonly<Record<string, string>>
    /** The arguments that security contexts check; without it, no list can be applied to the tool. */
    governed?: Governed
    /** Further arguments that are paths in a workspace. */
    paths?: readonly string[]
    /** It changes what its optional fields name, so a call without any of them is a mistake, and refused. */
    needsChange?: true
    /** What is known of its data if no policy says otherwise; if absent, its answers are trusted and it sends nothing out. */
    trust?: BuiltInTrust
    /** Another documented spelling of this tool, with which it shares its safe name. */
    aliasOf?: string
    /** Has effects outside although it changes nothing there. */
    openWorld?: true
    /**
     * For an `external` tool: it only creates something new that belongs to the caller, or the harm depends on the tool that it
     * calls.
     */
    harmless?: true
    /** Its answer names tools to call, spelled as in the caller's list. */
    namesTools?: true
    /** Its answer is a `RawAnswer`, MCP content from another server. Such a tool has no `output`. */
    raw?: true
    /** The answer as plain text, where readers prefer that to JSON. */
    text?(output: z.output<Output>): string
    /** The largest answer as JSON, where the usual bound is too small. */
    answerBytesMax?: number
    /** It waits, for `timeout_seconds` if given; an answer with `timed_out` before that says to call again. */
    waits?: true
    /** It may take longer than a client waits for an answer. */
    long?: true
    /**
     * For a writing tool: work outside the store, done before its transaction begins, because all other transactions wait for it.
     */
    before?(input: z.output<Input>, context: ToolContext): Promise<void>
    /** It starts a run and answers at once: the field of the answer that names the run, and the tool that waits for it. */
    begins?: Readonly<{ field: string; waitTool: string }>
    /** Answers of the documented shape that say that the work was not done. The command line's exit code and MCP's `isError` follow it. */
    fails?: StatedFailure
    /** The only transports that offer it; on all others the tool does not exist. */
    transports?: readonly ToolCaller['transport'][]
    /** Also answers a tenant whose log is halted, although it cannot be recorded: it reports or repairs the problem. */
    onHaltedLog?: 'answer'
    /** Also answers in mode MINIMAL, when no store is open. */
    minimal?: true
    /**
     * Redirects the call to another tool before anything is checked, so that every stage judges the tool that really runs. Such a
     * tool has no `output`, and its own `run` is never reached.
     */
    redirect?(args: unknown, context: RedirectContext): RedirectedCall
    input: Input
    /** Absent only for a tool that forwards the answer of another tool or server. */
    output?: Output
    run(input: z.output<Input>, context: ToolContext): Promise<Answer<z.input<Output>>> | Answer<z.input<Output>>
  }>

/** The members that only a call needs, and that import Zod and the domains. */
type ToolCode = 'input' | 'output' | 'run' | 'before' | 'text' | 'redirect'

/** The code of a tool, beside its declaration. */
export type LoadedTool = Omit<Pick<ToolDefinition, 'name' | ToolCode>, 'input'> &
  Readonly<{ input: Pick<ToolDefinition['input'], 'safeParse'> }>

/** The declaration of a tool as plain data: enough to list it, to find it and to judge a call of it. */
export type ToolDeclaration = Omit<ToolDefinition, ToolCode | 'toolset'> &
  Readonly<{
    /** `upstream` for a tool of another MCP server. */
    toolset: Toolset | 'upstream'
    /** Whether it has `redirect`. */
    redirects?: true
  }>

/** The declaration of one of our tools. */
export type OwnDeclaration = ToolDeclaration & Readonly<{ toolset: Toolset }>

export function declarationOf(definition: ToolDefinition): OwnDeclaration {
  const { input: _, output: __, run: ___, before: ____, text: _____, redirect, ...declared } = definition
  return redirect === undefined ? declared : { ...declared, redirects: true }
}

/** What a redirecting tool may read: the known names, their other spellings, and the parameters of each. */
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
