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

/** The registry of agents, as far as executions need it. */
export type AgentDirectory = Readonly<{
  /** ERR_AGENT_NOT_FOUND for what the principal may not see, or that is not there. */
  resolve(tx: ReadTx, principal: Principal, idOrName: string, version?: string): Promise<ResolvedAgent>
  /** Only among those of the platform: for names that the configuration or the program chose. */
  resolvePlatform(tx: ReadTx, name: string): Promise<ResolvedAgent>
  /** Those to which an agent hands tasks on, as far as the principal sees them. */
  subAgentsOf(tx: ReadTx, principal: Principal, agentId: string): Promise<readonly SubAgent[]>
}>

/** The workspaces of callers, as far as executions need them. Not theirs and not there are the same answer. */
export type WorkspaceAccess = Readonly<{
  /** A running one of this machine. Touches only the store. */
  requireUsable(call: Pick<Call, 'principal' | 'nowMs'>, tx: ReadTx, idOrName: string): Promise<{ id: string }>
  /** A whole file; `text` if it is some. */
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
  /** The image of a workspace for a runtime; refuses what cannot be run here. */
  imageOf(runtime: Pick<AgentManifest['runtime'], 'language' | 'version' | 'image'>): Promise<string>
  /** Whether a workspace reaches the internet when nothing says so. */
  allowsInternet: boolean
  judging: JudgingSettings
  /** Whether the workspace is kept as it was at the end of each iteration, for forks. */
  snapshots: boolean
  read: ReadTx
  clock: Clock
}>

/** What is kept of workspaces for forks; touches only the store. */
export type SnapshotService = Readonly<{
  hasSnapshot(tx: ReadTx, tenant: TenantId, workspaceId: string, name: string): Promise<boolean>
  /** Lets go of what was kept of the workspace of that name after its end. */
  discardArchive(tx: WriteTx, tenant: TenantId, name: string): Promise<void>
}>

/** What a run of the kind `execution` is asked. The manifest is in it: what becomes of the agent does not touch the run. */
export type ExecutionInput = Readonly<{
  agent: Readonly<{ id: string; name: string; version: string }>
  manifest: AgentManifest
  intent: string | null
  input: Json
  contextOverrides: Readonly<Record<string, Json>>
  /** A judge looks into the workspace of whom it judges, and changes nothing there; a worker works in the one it is given. */
  role: 'worker' | 'judge'
  workspaceId: string | null
  /** The workspace is one that the caller that started it has named: it is made ready as one of the agent's own would be. */
  preparesWorkspace?: true
  /** Keeps the workspace although nothing in the manifest asks for it. */
  keepWorkspace: boolean
  /** An end that comes earlier than the manifest's own. */
  untilMs: number | null
  /** The agents above that handed the task on, the first one first. */
  delegation?: readonly string[]
  /** Runs that began one another before it, if it was a run that began it. */
  generation?: number
  /** The workspace is made from there, as it was at the end of an iteration of another execution. */
  fork?: Readonly<{ workspaceId: string; snapshot: string }>
  /** The copy of another execution goes on after this iteration, also when it was accepted there. */
  continuesAfter?: number
  /** What it writes is a manifest of that kind, which is checked and deployed before the work counts as done. */
  publishes?: ManifestKind
}>
export type ManifestKind = 'agent' | 'workflow'

export type ExecutionOutput = Readonly<{
  text: string
  iterations: number
  /** What the validators of the agent gave the last iteration; absent where there are none. */
  score?: number
  workspace_id: string | null
  usage: Readonly<{ input_tokens: number; output_tokens: number; cost_usd: number | null; model_calls: number }>
}>

/** A failure as a fact: what a program decides by is recorded, also when it went wrong. */
export type Fault = Readonly<{ code: ErrorCode; message: string; details?: Readonly<Record<string, Json>> }>
