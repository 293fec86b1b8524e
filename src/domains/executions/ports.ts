import type { Approvals } from '../../contract/approvals.ts'
import type { Call } from '../../contract/call.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import type { SecurityContext } from '../../contract/security-context.ts'
import type { ToolInvoker } from '../../contract/tool-invoker.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Engine } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { AgentManifest } from '../agents/manifest.ts'
import type { HttpSender, SecretResolver } from '../runs/ports.ts'
import type { Models } from './model.ts'

export type SubAgent = Readonly<{ id: string; slug: string; name: string; description: string | null }>
export type ResolvedAgent = Readonly<{ id: string; name: string; version: string; manifest: AgentManifest }>

/** The registry of agents, as executions need it. */
export type AgentDirectory = Readonly<{
  /** ERR_AGENT_NOT_FOUND for an agent that does not exist or that the principal may not see. */
  resolve(tx: ReadTx, principal: Principal, idOrName: string, version?: string): Promise<ResolvedAgent>
  /** Only platform agents: for names that the configuration or the program chose. */
  resolvePlatform(tx: ReadTx, name: string): Promise<ResolvedAgent>
  /** The sub-agents of an agent that the principal may see. */
  subAgentsOf(tx: ReadTx, principal: Principal, agentId: string): Promise<readonly SubAgent[]>
}>

/** The workspaces of callers, as executions need them. A workspace of another owner is reported as not found. */
export type WorkspaceAccess = Readonly<{
  /** A running workspace of this machine. Touches only the store. */
  requireUsable(call: Pick<Call, 'principal' | 'nowMs'>, tx: ReadTx, idOrName: string): Promise<{ id: string }>
  /** A whole file; `text` if it is text. */
  readBytes(
    call: Call,
    request: Readonly<{ workspace_id: string; path: string; bytesMax: number }>,
  ): Promise<Readonly<{ bytes: Buffer; text: string | undefined }>>
}>

export type JudgingSettings = Readonly<{ skip: readonly string[]; always: readonly string[] }>

export type ExecutionDeps = Readonly<{
  engine: Engine
  agents: AgentDirectory
  invoker: ToolInvoker
  approvals: Pick<Approvals, 'request'>
  models: Models
  http: HttpSender
  values: SecretResolver
  contexts: Readonly<{ find(name: string): SecurityContext | undefined }>
  /** The workspace image of a runtime; refuses one that cannot run here. */
  imageOf(runtime: Pick<AgentManifest['runtime'], 'language' | 'version' | 'image'>): Promise<string>
  /** Whether a workspace has internet access by default. */
  allowsInternet: boolean
  judging: JudgingSettings
  /** Whether a snapshot of the workspace is taken at the end of each iteration, for forks. */
  snapshots: boolean
  read: ReadTx
  clock: Clock
}>

/** Retained snapshots of workspaces, for forks; touches only the store. */
export type SnapshotService = Readonly<{
  hasSnapshot(tx: ReadTx, tenant: TenantId, workspaceId: string, name: string): Promise<boolean>
  /** Discards the retained snapshots of the workspace of that name after its end. */
  discardArchive(tx: WriteTx, tenant: TenantId, name: string): Promise<void>
}>

/** The input of a run of the kind `execution`. It contains the manifest, so changes of the agent do not affect the run. */
export type ExecutionInput = Readonly<{
  agent: Readonly<{ id: string; name: string; version: string }>
  manifest: AgentManifest
  intent: string | null
  input: Json
  contextOverrides: Readonly<Record<string, Json>>
  /** A judge reads the workspace of the run that it judges, and changes nothing there; a worker works in its own. */
  role: 'worker' | 'judge'
  workspaceId: string | null
  /** The caller named the workspace: it is prepared like one of the agent's own. */
  preparesWorkspace?: true
  /** Retains the workspace although the manifest does not require it. */
  keepWorkspace: boolean
  /** A deadline earlier than the manifest's. */
  untilMs: number | null
  /** The agents that delegated the task, the first one first. */
  delegation?: readonly string[]
  /** The number of runs before it that started each other. The stored name is the former one. */
  generation?: number
  /** The workspace is created from this snapshot, taken at the end of an iteration of another execution. */
  fork?: Readonly<{ workspaceId: string; snapshot: string }>
  /** A fork continues after this iteration, even if it was accepted there. */
  continuesAfter?: number
  /** The output is a manifest of that kind, which is checked and deployed before the execution completes. */
  publishes?: ManifestKind
}>
export type ManifestKind = 'agent' | 'workflow'

export type ExecutionOutput = Readonly<{
  text: string
  iterations: number
  /** The validators' score of the last iteration; absent without validators. */
  score?: number
  workspace_id: string | null
  usage: Readonly<{ input_tokens: number; output_tokens: number; cost_usd: number | null; model_calls: number }>
}>

/** A recorded failure: a program decides only by what is recorded, failures included. */
export type Fault = Readonly<{ code: ErrorCode; message: string; details?: Readonly<Record<string, Json>> }>
