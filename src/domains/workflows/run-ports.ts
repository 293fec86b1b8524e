import type { Approvals } from '../../contract/approvals.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import type { ToolInvoker } from '../../contract/tool-invoker.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { NewEvent, NewRun, Run, Steps } from '../../engine/ports.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { HttpSender, SecretResolver } from '../runs/ports.ts'
import type { Context } from '../templating/templates.ts'
import type { ImageCatalog } from './container-images.ts'
import type { Position, Start } from './interpreter.ts'
import type { State, WorkflowManifest } from './manifest-schema.ts'
import type { WorkflowRegistry } from './registry.ts'

export type AgentRequest = Readonly<{
  /** Name or id. */
  agent: string
  /** Named by the configuration: a tenant's agent of that name is not used. */
  isOfPlatform?: boolean
  input: Json
  intent: string | null
  /** The workspace that the agent works in; null for one of its own. */
  workspaceId: string | null
  /** Refuses an agent that would run code. */
  isVirtualMachine?: boolean
  /** A judge has read-only tools. */
  isJudge: boolean
  /** Judges each tool call of the agent, in addition to the judges of its own manifest. */
  toolCallJudge?: string | null
  timeoutMs: number | null
}>

export type RunDeps = Readonly<{
  invoker: ToolInvoker
  approvals: Pick<Approvals, 'request'>
  registry: Pick<WorkflowRegistry, 'resolve'>
  clock: Clock
  read: ReadTx
  newId(): string
  agents: Readonly<{
    /** Prepares an execution of the agent to start as a child run. Throws if the agent does not exist. */
    prepare(principal: Principal, request: AgentRequest): Promise<NewRun>
  }>
  http: HttpSender
  values: SecretResolver
  images: ImageCatalog
  /** Starts an independent run. Idempotent: an existing run is left as it is. */
  startRun(principal: Principal, run: NewRun & Readonly<{ id: string }>): Promise<void>
  cancelRun(tenant: TenantId, principal: Principal, id: string): Promise<void>
}>

/** The pinned input of a workflow run: neither a new version nor a removal of the workflow changes a run. */
export type WorkflowInput = Readonly<{
  manifest: string
  start: Omit<Start, 'tenant'>
  /** How many runs started each other without waiting, up to this one. */
  generation: number
}>

/** One visit to one state. */
export type Visit<Kind extends State = State> = Readonly<{
  run: Run
  steps: Steps
  deps: RunDeps
  manifest: WorkflowManifest
  position: Position
  state: Kind
  context: Context
  /** Names a step of this visit. */
  key(name: string): string
}>

export type Outcome = Readonly<{ result: JsonObject; writes?: JsonObject; events?: readonly NewEvent[] }>
