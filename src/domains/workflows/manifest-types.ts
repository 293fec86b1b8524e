import type { Timing } from '../../contract/timing.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { AgentManifest } from '../agents/manifest.ts'
import type { WorkspaceNeeds } from '../executions/workspace.ts'

export type JsonObject = { readonly [key: string]: Json | undefined }

/** A workflow as the program uses it: every default filled in, every old spelling replaced by the present one. */
export type WorkflowManifest = Readonly<{
  name: string
  /** Semantic version. */
  version: string
  description: string
  labels: Readonly<Record<string, string>>
  annotations: Readonly<Record<string, string>>
  inputSchema: JsonObject | null
  outputSchema: JsonObject | null
  outputTemplate: JsonObject | null
  initialState: string
  /** In the order of the text. */
  states: ReadonlyMap<string, State>
  context: JsonObject
  maxTotalTransitions: number
  storage: Storage
  /** When it runs by itself, for whoever registered it. */
  defaultSchedule: Timing | null
}>

export type StorageClass = 'ephemeral' | 'persistent'
export type Storage = Readonly<{
  /** Whether the manifest speaks of storage at all; agents then work in the workspace of the run. */
  isDeclared: boolean
  workspace: Readonly<{
    storageClass: StorageClass
    /** Null: for as long as the run lasts. */
    ttlHours: number | null
    sizeLimitMb: number | null
    /** An existing workspace to work in, by id or name; it is never destroyed by a run. */
    volumeId: string | null
    blackboardKey: string
  }>
  sharedVolumes: readonly SharedVolume[]
}>
export type SharedVolume = Readonly<{ name: string; storageClass: StorageClass; sizeLimitBytes: number | null }>

export const stateKinds = [
  'Agent',
  'System',
  'Human',
  'ParallelAgents',
  'ContainerRun',
  'ParallelContainerRun',
  'Subworkflow',
] as const
export type StateKind = (typeof stateKinds)[number]

type Common<Kind extends StateKind> = Readonly<{
  kind: Kind
  transitions: readonly Transition[]
  timeoutMs: number | null
  maxVisits: number
}>

/** Texts named `input`, `intent`, `command`, `prompt`, values of `env` and the like are templates. */
export type State =
  | AgentState
  | SystemState
  | HumanState
  | ParallelAgentsState
  | ContainerRunState
  | ParallelContainerRunState
  | SubworkflowState

export type AgentState = Common<'Agent'> &
  Readonly<{
    agent: string
    /** Null: the input of the run. */
    input: string | null
    intent: string | null
    /** Asks for a virtual machine, which only an agent can do without that runs nothing. */
    isVirtualMachine: boolean
    /** An agent that looks at each tool call before it is made, beside those that the worker's own manifest names. */
    toolCallJudge: string | null
    judges: readonly JudgeRef[]
    /** How often the judges may send the state back. */
    maxIterations: number
    outputHandler: OutputHandler | null
  }>
export type SystemState = Common<'System'> &
  Readonly<{ command: string; env: Readonly<Record<string, string>>; workdir: string | null }>
export type HumanState = Common<'Human'> & Readonly<{ prompt: string; defaultResponse: string | null }>
export type ParallelAgentsState = Common<'ParallelAgents'> &
  Readonly<{
    agents: readonly ParallelAgent[]
    judges: readonly JudgeRef[]
    consensus: Consensus
    outputHandler: OutputHandler | null
  }>
export type ContainerRunState = Common<'ContainerRun'> &
  Readonly<{
    step: ContainerStep
    retry: Readonly<{ maxAttempts: number; backoffMs: number }>
    outputHandler: OutputHandler | null
  }>
export type ParallelContainerRunState = Common<'ParallelContainerRun'> &
  Readonly<{ steps: readonly ContainerStep[]; completion: Completion }>
export type SubworkflowState = Common<'Subworkflow'> &
  Readonly<{
    workflow: string
    mode: 'blocking' | 'fire_and_forget'
    resultKey: string | null
    input: string | null
  }>

export type JudgeRef = Readonly<{ agent: string; inputTemplate: string | null; weight: number }>
export type ParallelAgent = Readonly<{ agent: string; input: string; weight: number; timeoutMs: number }>

export const consensusStrategies = ['weighted_average', 'majority', 'unanimous', 'best_of_n'] as const
export type Consensus = Readonly<{
  strategy: (typeof consensusStrategies)[number]
  threshold: number | null
  agreement: number | null
  n: number | null
  minJudgesRequired: number
  confidenceWeighting: Readonly<{ agreementFactor: number; selfConfidenceFactor: number }>
}>

export const completions = ['all_succeed', 'any_succeed', 'best_effort'] as const
export type Completion = (typeof completions)[number]

export type ContainerStep = Readonly<{
  name: string
  image: string
  /** Whether another image may stand in for one that is not here. */
  isImageReplaceable: boolean
  /** The name of a secret of the configuration; it must be set. */
  registryCredentials: string | null
  command: readonly string[]
  env: Readonly<Record<string, string>>
  workdir: string | null
  volumes: readonly VolumeMount[]
  resources: Readonly<{ cpuMillis: number | null; memoryMb: number | null; timeoutMs: number | null }>
  /** The words of the command are one line for a shell. */
  shell: boolean
  readOnlyRoot: boolean
  /** `default` is whatever workspaces have. */
  network: 'default' | 'none' | 'bridge'
}>
export type VolumeMount = Readonly<{ name: string; mountPath: string; readOnly: boolean }>

/** Values that refer to what the operator has set, and templates. */
export type GivenValues = AgentManifest['env']

export type OutputHandler = Readonly<{ timeoutMs: number | null; required: boolean }> &
  (
    | Readonly<{ type: 'agent'; agent: string; inputTemplate: string | null }>
    | Readonly<{ type: 'mcp_tool'; tool: string; arguments: JsonObject }>
    | Readonly<{
        type: 'webhook'
        url: string
        method: (typeof webhookMethods)[number]
        headers: GivenValues
        bodyTemplate: string | null
        retries: number
      }>
    | Readonly<{
        type: 'container'
        image: string
        command: readonly string[]
        env: GivenValues
        resources: WorkspaceNeeds['resources']
      }>
  )
export const webhookMethods = ['POST', 'PUT', 'PATCH'] as const

export type Transition = Readonly<{ condition: Condition; target: string; feedback: string | null }>
export type Condition =
  | Readonly<{ type: PlainCondition }>
  | Readonly<{ type: 'exit_code'; value: number }>
  | Readonly<{ type: ThresholdCondition; threshold: number }>
  | Readonly<{ type: 'score_between'; min: number; max: number }>
  | Readonly<{ type: 'consensus'; threshold: number; agreement: number }>
  | Readonly<{ type: 'all_approved' | 'any_rejected'; threshold: number }>
  | Readonly<{ type: 'input_equals'; value: string }>
  | Readonly<{ type: 'custom'; expression: string }>

export const plainConditions = [
  'always',
  'on_success',
  'on_failure',
  'exit_code_zero',
  'exit_code_non_zero',
  'input_equals_yes',
  'input_equals_no',
  'timeout',
] as const
export type PlainCondition = (typeof plainConditions)[number]
export const thresholdConditions = [
  'score_above',
  'score_below',
  'confidence_above',
  'score_and_confidence_above',
] as const
export type ThresholdCondition = (typeof thresholdConditions)[number]
export const conditionTypes = [
  ...plainConditions,
  ...thresholdConditions,
  'exit_code',
  'score_between',
  'consensus',
  'all_approved',
  'any_rejected',
  'input_equals',
  'custom',
] as const
