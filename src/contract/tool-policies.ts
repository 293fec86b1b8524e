import type { Transport } from './call.ts'
import type { Decision } from './decision.ts'
import type { Principal, TenantId } from './principal.ts'

/** What one of our own tools is known to do, said in its definition. */
export type BuiltInTrust = Readonly<{
  /** What it answers was written by anybody: who reads it has read untrusted data. */
  source?: 'untrusted'
  /** It can carry data out of the installation, as a tool of another server can; `open-network`: from a workspace that reaches out. */
  sends?: true | 'open-network'
  /** It changes what holds calls up: never from an untrusted context, nor from one with a call that waits for an approval. */
  governs?: true
  /** What it brings into the workspace was written by anybody. */
  fills?: 'workspace'
  /** What it reads or writes by these fields of its arguments and its answer carries trust from who wrote it to who reads it. */
  carries?: Readonly<{ as: 'task' | 'note' | 'team' | 'execution'; fields: readonly string[] }>
}>

/**
 * A tool as policies see it. `id` is what a policy names: the id of a tool of another server, the name of one of ours, or
 * `client:` and the name of one that a program brought along.
 */
export type PolicyTool = Readonly<{
  id?: string
  name: string
  origin: 'platform' | 'upstream' | 'unknown'
  builtIn?: BuiltInTrust
}>

/** For whom a call is judged. */
export type PolicySubject = Readonly<{
  principal: Principal
  /** The id of the agent, gateway or proxy through which the call comes. */
  profile?: string
  /** What the caller says it is, in a header: a label, never a proof. */
  externalAgentId?: string
  /** Where the call came in. */
  origin?: Transport | 'proxy'
  isUntrusted: boolean
}>

/** How special the rule is that decided: of several refusals the most special one is told. */
export type Specificity = 'conditions' | 'default' | 'governance' | 'built-in'

export type InvocationVerdict = Readonly<{
  action: 'allow' | 'deny' | 'require_approval'
  policy?: string
  specificity: Specificity
  /** For the caller; never in words of the call. */
  reason: string
  /** Whether the answer would have been another in a trusted context. */
  becauseUntrusted: boolean
  trace: readonly Decision[]
}>

export type ResultVerdict = Readonly<{
  action: 'trusted' | 'untrusted' | 'block' | 'sanitise'
  policy?: string
  reason: string
  trace: readonly Decision[]
}>

/** The one engine that judges calls of tools and what they answer, for every way in which a tool is reached. */
export type ToolPolicies = Readonly<{
  /** Grows with every change of the tenant's policies. */
  versionOf(tenant: TenantId): number
  /** Whether the answer to `judgeCall` can depend on the trust of the context; where not, nobody need find that out. */
  needsTrust(tenant: TenantId, tool: PolicyTool): boolean | Promise<boolean>
  judgeCall(subject: PolicySubject, tool: PolicyTool, args: unknown): InvocationVerdict | Promise<InvocationVerdict>
  judgeResult(subject: PolicySubject, tool: PolicyTool, result: unknown): ResultVerdict | Promise<ResultVerdict>
}>
