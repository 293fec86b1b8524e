import type { Approvals } from '../../contract/approvals.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import type { ToolInvoker } from '../../contract/tool-invoker.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { NewEvent, NewRun, Run, Steps } from '../../engine/ports.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { HttpSender, SecretResolver } from '../runs/ports.ts'
import type { Context } from '../templating/templates.ts'
import type { ImageShelf } from './container-images.ts'
import type { Position, Start } from './interpreter.ts'
import type { State, WorkflowManifest } from './manifest-schema.ts'
import type { WorkflowRegistry } from './registry.ts'

export type AgentRequest = Readonly<{
  /** Name or id. */
  agent: string
  /** Chosen by the configuration: what a tenant calls by that name is not meant. */
  isOfPlatform?: boolean
  input: Json
  intent: string | null
  /** The workspace that the agent works in; its own when null. */
  workspaceId: string | null
  /** Refuses an agent that would run anything. */
  isVirtualMachine?: boolean
  /** Judges look and do not touch. */
  isJudge: boolean
  /** Judges each tool call of the agent, beside those of its own manifest. */
  toolCallJudge?: string | null
  timeoutMs: number | null
}>

/** What running workflows is built on. */
export type RunDeps = Readonly<{
  invoker: ToolInvoker
  approvals: Pick<Approvals, 'request'>
  registry: Pick<WorkflowRegistry, 'resolve'>
  clock: Clock
  read: ReadTx
  newId(): string
  agents: Readonly<{
    /** An execution of the agent, ready to be started below a run. Refuses what does not exist. */
    prepare(principal: Principal, request: AgentRequest): Promise<NewRun>
  }>
  http: HttpSender
  values: SecretResolver
  images: ImageShelf
  /** Starts a run of its own; one that exists already is left as it is. */
  startRun(principal: Principal, run: NewRun & Readonly<{ id: string }>): Promise<void>
  cancelRun(tenant: TenantId, principal: Principal, id: string): Promise<void>
}>

/** What a run of a workflow is started with, pinned: neither a new version nor a removal changes a run. */
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
