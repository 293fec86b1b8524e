import type { Decision } from '../../contract/decision.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import type { InvocationVerdict, PolicySubject, ResultVerdict } from '../../contract/tool-policies.ts'
import type { ContextKey, TaintCause } from '../../contract/trust.ts'

/** A call of a tool as a model wrote it, or as it stands in the history of a request. */
export type ModelCall = Readonly<{
  /** By which the program answers it. */
  id?: string | undefined
  name: string
  /** Undefined where the call cannot be read, and so not be judged. */
  args: unknown
}>

/** What a tool answered, as the history of a request has it. */
export type HistoryResult = Readonly<{
  /** The call that it answers, where the history has it. */
  call: ModelCall | undefined
  /** In the form in which an MCP server would have answered it. */
  value: unknown
  /** Puts a text in its place, in the parsed body. */
  replace(text: string): void
}>

/** A verdict together with the name under which the tool is known here. */
export type Judged<Verdict> = Verdict & Readonly<{ tool: string }>

export type CallSubject = Omit<PolicySubject, 'isUntrusted'>

/**
 * What the one engine of policies says of tools that programs have, under the names that their models see. Everything answers at
 * once where memory knows.
 */
export type ToolJudge = Readonly<{
  /** False for a tenant that has never had a policy. */
  hasPolicies(tenant: TenantId): boolean
  isRestrictive: boolean
  call(subject: PolicySubject, call: ModelCall): Judged<InvocationVerdict> | Promise<Judged<InvocationVerdict>>
  result(
    subject: PolicySubject,
    call: ModelCall | undefined,
    value: unknown,
  ): Judged<ResultVerdict> | Promise<Judged<ResultVerdict>>
  isUntrusted(tenant: TenantId, contexts: readonly ContextKey[]): boolean | Promise<boolean>
  /** Resolves when it is on disk. */
  taint(tenant: TenantId, contexts: readonly ContextKey[], cause: TaintCause): Promise<void>
  /** A summary in which no word of the result can be. Rejects where there is none. */
  sanitise(principal: Principal, policy: string, text: string, signal: AbortSignal): Promise<string>
}>

/** What judges the calls of one answer, in the order in which they come. */
export type CallJudge = Readonly<{
  /** Undefined for one that is allowed, otherwise what is said in its place. */
  refusalOf(call: ModelCall): string | undefined | Promise<string | undefined>
  /** The provider ran a tool of its own and gave the model what it found: what follows was written after reading that. */
  providerRan(tool: string): void
}>

/** The events of one answer. Only whole events are handed in. What is held when the answer ends was never complete, and is lost. */
export type EventJudge = Readonly<{
  /** What passes of an event goes to `out`; what is held waits for a later one. `data` is undefined where it is no JSON. */
  take(event: Buffer, data: unknown, out: Buffer[]): void | Promise<void>
  /** Whether every event has to be looked at, also those without a mark. */
  readonly isActive: boolean
  readonly heldBytes: number
}>

/** How one operation of a provider says which tools there are, what they answered and which are called. */
export type JudgedFormat = Readonly<{
  /** Whether it refers to what the provider has stored: a history, and tools, that are not in the request. */
  refersToStored?(body: Fields): boolean
  /** Tools that the provider runs itself, by name. */
  providerTools(body: Fields): readonly string[]
  /** Takes those tools out of the parsed body. */
  removeTools(body: Record<string, unknown>, tools: ReadonlySet<string>): void
  /** In the order in which the model reads them. */
  results(body: Fields): readonly HistoryResult[]
  /** What makes a conversation the same one: its messages up to the first answer. Undefined before there is one. */
  beginning(body: Fields): unknown
  /** Bytes of which an answer, or a part of a stream, has at least one if there is something to judge. */
  marks: readonly string[]
  /** Changes the parsed answer where a call is refused, and answers whether it did. */
  whole(answer: unknown, judge: CallJudge): Promise<boolean>
  events(judge: CallJudge): EventJudge
}>

export type Fields = Readonly<Record<string, unknown>>
export type MutableFields = Record<string, unknown>

/** What passes of an answer. */
export type AnswerJudge = Readonly<{
  take(bytes: Buffer): Buffer | undefined | Promise<Buffer | undefined>
  finish(): Buffer | undefined | Promise<Buffer | undefined>
  whole(bytes: Buffer): Buffer | Promise<Buffer>
  readonly heldBytes: number
}>

/** A request that was judged, and what judges its answer. */
export type JudgedRequest = Readonly<{
  /** The body was changed, and has to be written anew. */
  isChanged: boolean
  /** Grows while the answer is judged. */
  decisions: readonly Decision[]
  /** Absent where no call could be refused. */
  answer: AnswerJudge | undefined
  /** Tools of the provider that the model was not given. */
  removed: readonly string[]
  /** To be told the id of an answer that the provider stores. */
  answered?(responseId: string): void
}>
