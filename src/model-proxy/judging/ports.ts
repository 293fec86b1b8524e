import type { Decision } from '../../contract/decision.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import type { InvocationVerdict, PolicySubject, ResultVerdict } from '../../contract/tool-policies.ts'
import type { ContextKey, TaintCause } from '../../contract/trust.ts'

/** A tool call as a model wrote it, or in the history of a request. */
export type ModelCall = Readonly<{
  /** The id that the program answers with. */
  id?: string | undefined
  name: string
  /** Undefined if the call cannot be parsed, and so not judged, or if only its result is known. */
  args: unknown
}>

/** A tool's result in the history of a request. */
export type HistoryResult = Readonly<{
  /** The call that it answers, if the history has it. */
  call: ModelCall | undefined
  /** In the format of an MCP server's answer. */
  value: unknown
  /** Replaces it with a text, in the parsed body. */
  replace(text: string): void
  /** The provider has it, and the request only refers to it, so that it cannot be replaced. */
  isStored?: true
}>

/** A reference in the history of a request to an item that the provider has stored. */
type ItemReference = Readonly<{
  /** Undefined if it names none. */
  id: string | undefined
  /** Replaces it with a text of the model, in the parsed body. */
  replace(text: string): void
}>

/** A verdict with the tool's name here. */
export type Judged<Verdict> = Verdict & Readonly<{ tool: string }>

/** `from`: the untrusted context in which it was written. */
export type JudgedResult = ResultVerdict & Readonly<{ from?: ContextKey }>

export type CallSubject = Omit<PolicySubject, 'isUntrusted'>

/**
 * The one policy engine, for programs' tools under the names that their models see. Everything answers at once if memory knows.
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
  ): Judged<JudgedResult> | Promise<Judged<JudgedResult>>
  isUntrusted(tenant: TenantId, contexts: readonly ContextKey[]): boolean | Promise<boolean>
  /** Resolves when it is on disk. */
  taint(principal: Principal, contexts: readonly ContextKey[], cause: TaintCause): Promise<void>
  /** A summary that cannot contain any word of the result. Rejects if there is none. */
  sanitise(principal: Principal, policy: string, text: string, signal: AbortSignal): Promise<string>
}>

/** Judges the calls of one answer, in order. */
export type CallJudge = Readonly<{
  /** Undefined for an allowed call, otherwise the text that replaces it. */
  refusalOf(call: ModelCall): string | undefined | Promise<string | undefined>
  /** The provider ran its own tool and gave the model the result: what follows was written after reading that. */
  providerRan(tool: string): void
  /** An item of an answer that the provider may store; `replacedBy` is what the program sees in its place. */
  wrote(itemId: string, replacedBy?: string): void
  /** A part of an answer that only the provider can read, and that the program sends back. */
  wroteOpaque(part: string): void
}>

/**
 * The events of one answer. Only whole events are passed in. Events that are still held when the answer ends were never complete,
 * and are dropped.
 */
export type EventJudge = Readonly<{
  /** Events that pass go to `out`; held ones wait for a later call. `data` is undefined if it is not JSON. */
  take(event: Buffer, data: unknown, out: Buffer[]): void | Promise<void>
  /** Whether every event must be judged, even those without a mark. */
  isActive(): boolean
  heldBytes(): number
}>

/** How one operation of a provider represents tools, their results and calls. */
export type JudgedFormat = Readonly<{
  /** Whether it refers to content that the provider has stored: a history, and tools, that are not in the request. */
  refersToStored?(body: Fields): boolean
  /** Whether it refers to stored content that cannot have passed through here as a whole. */
  refersToUnseen?(body: Fields): boolean
  /** Single items of stored content to which it refers instead of repeating them. */
  references?(body: Fields): readonly ItemReference[]
  /** Tools that the provider runs itself, by name. */
  providerTools(body: Fields): readonly string[]
  /** Removes those tools from the parsed body. */
  removeTools(body: Record<string, unknown>, tools: ReadonlySet<string>): void
  /** In the order in which the model reads them. `stored` has the calls of answers to which the request refers, by id. */
  results(body: Fields, stored?: ReadonlyMap<string, ModelCall>): readonly HistoryResult[]
  /** The identity of a conversation: its messages up to the first answer. Undefined before there is one. */
  beginning(body: Fields): unknown
  /**
   * Byte sequences of which an answer, or a part of a stream, contains at least one if there is something to judge and nothing in it is
   * escaped.
   */
  marks: readonly string[]
  /** Changes the parsed answer if a call is refused, and returns whether it did. */
  whole(answer: unknown, judge: CallJudge): Promise<boolean>
  events(judge: CallJudge): EventJudge
}>

export type Fields = Readonly<Record<string, unknown>>
export type MutableFields = Record<string, unknown>

/** The parts of an answer that pass. */
export type AnswerJudge = Readonly<{
  take(bytes: Buffer): Buffer | undefined | Promise<Buffer | undefined>
  finish(): Buffer | undefined | Promise<Buffer | undefined>
  /** Undefined if it cannot be read. `isJson`: the provider says that it is JSON. */
  whole(bytes: Buffer, isJson: boolean): Buffer | undefined | Promise<Buffer>
  readonly heldBytes: number
}>

/** A judged request, and the judge of its answer. */
export type JudgedRequest = Readonly<{
  /** The body was changed, and must be serialised again. */
  isChanged: boolean
  /** Grows while the answer is judged. */
  decisions: readonly Decision[]
  /** Absent if no call could be refused. */
  answer: AnswerJudge | undefined
  /** Tools of the provider that were removed from the request. */
  removed: readonly string[]
  /** Called with the id of an answer that the provider stores. */
  answered?(responseId: string): void
}>
