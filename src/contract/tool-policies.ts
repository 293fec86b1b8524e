import type { Transport } from './call.ts'
import type { Decision } from './decision.ts'
import type { Principal, TenantId } from './principal.ts'

/** What people and programs write here, and others read. */
export type CarriedKind =
  | 'task'
  | 'note'
  | 'team'
  | 'agent'
  | 'workflow'
  | 'server'
  | 'request'
  | 'gateway'
  | 'secret'
  | 'seal_session'

/** What a tool may show of others: content of workspaces, output of runs, arguments that wait for an approval, results in a team. */
export type ReadSource = 'workspace' | 'run' | 'approval' | 'team' | 'unnamed'

/** What one of our tools is known to do, declared in its definition. */
export type BuiltInTrust = Readonly<{
  /**
   * What it answers was written by anybody: who reads it has read untrusted data. `record`: it tells all that was written here, and a person
   * who reads that without a model between has read nothing that acts.
   */
  source?: 'untrusted' | 'record'
  /**
   * It can send data out of the installation, like a tool of another server; `open-network`: it runs programs of a workspace, which
   * can if the workspace has network access; `opens-network`: it can give a workspace that access.
   */
  sends?: true | 'open-network' | 'opens-network'
  /**
   * It changes what holds calls up, or makes a credential that nothing holds up yet: never from an untrusted context, nor from one with a
   * call that waits for an approval.
   */
  governs?: true
  /** The items that it reads or writes, named by these fields of its arguments and answer, carry trust from writer to reader. */
  carries?: Readonly<{ as: CarriedKind; fields: readonly string[] }>
  /**
   * It shows what others wrote there, and the service says where (`enterWorkspace`, `readsFrom`). Where only the call
   * and its result are known, their ids say it; `unnamed`: they have none.
   */
  reads?: ReadSource
}>

/**
 * A tool as policies see it. `id` is what a policy names: the id of an upstream tool, the name of one of ours, or `client:` and
 * the name of a program's own tool.
 */
export type PolicyTool = Readonly<{
  id?: string
  /** What the ids of tools have in common whose names a program might take for one another. Only a program's own tools have it. */
  alike?: string
  name: string
  origin: 'platform' | 'upstream' | 'unknown'
  builtIn?: BuiltInTrust
  /** The argument of one of our tools that has a command, or a list of them. */
  commands?: string
  /** The arguments of one of our tools that are paths in a workspace. */
  paths?: readonly string[]
}>

/** The name under which policies and the log know the delivery of a run's output to a webhook. No caller has this tool. */
export const WEBHOOK_TOOL = 'output_webhook'

/** The caller of a judged call. */
export type PolicySubject = Readonly<{
  principal: Principal
  /** The id of the agent, gateway or proxy through which the call comes. */
  profile?: string
  /** The caller's own label, from a header; never a proof. */
  externalAgentId?: string
  /** The transport of the call. */
  origin?: Transport | 'proxy'
  isUntrusted: boolean
}>

/** How specific the deciding rule is: of several refusals the most specific is reported. */
export type Specificity = 'conditions' | 'default' | 'governance' | 'built-in'

export type InvocationVerdict = Readonly<{
  action: 'allow' | 'deny' | 'require_approval'
  policy?: string
  specificity: Specificity
  /** For the caller; never text from the call. */
  reason: string
  /** Whether the verdict would differ in a trusted context. */
  becauseUntrusted: boolean
  trace: readonly Decision[]
}>

export type ResultVerdict = Readonly<{
  action: 'trusted' | 'untrusted' | 'block' | 'sanitise'
  policy?: string
  reason: string
  trace: readonly Decision[]
}>

/** The one engine that judges tool calls and their results, however a tool is called. */
export type ToolPolicies = Readonly<{
  /** Grows with every change of the tenant's policies. */
  versionOf(tenant: TenantId): number
  /** Whether the verdict of `judgeCall` can depend on the trust of the context; if not, trust need not be looked up. */
  needsTrust(tenant: TenantId, tool: PolicyTool): boolean | Promise<boolean>
  judgeCall(subject: PolicySubject, tool: PolicyTool, args: unknown): InvocationVerdict | Promise<InvocationVerdict>
  judgeResult(subject: PolicySubject, tool: PolicyTool, result: unknown): ResultVerdict | Promise<ResultVerdict>
}>
