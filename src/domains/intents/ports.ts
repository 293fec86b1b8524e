import type { IntentLanguage } from '../../contract/intent-languages.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Engine } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { ResolvedAgent } from '../agents/service.ts'
import type { ExecutionDeps } from '../executions/ports.ts'
import type { TemplateSource } from './authors.ts'

export const intentStates = [
  'agent_discovery',
  'agent_generation',
  'code_generation',
  'code_validation',
  'code_execution',
  'result_formatting',
] as const
export type IntentState = (typeof intentStates)[number]

/** The input of a run of the kind `intent`. */
export type IntentInput = Readonly<{
  intent: string
  inputs: Readonly<Record<string, Json>>
  language: IntentLanguage
  /** For one run of the program. */
  timeoutSecs: number
  /** A workspace of the caller to run in; a new one if null. */
  volumeId: string | null
  /** Runs that started each other without waiting, up to this one. The stored name is the former one. */
  generation?: number
}>

/** The results of the states of a run. */
export type IntentBoard = {
  agent: { id: string; name: string; version: string } | null
  reused_existing_agent: boolean
  workspace_id: string | null
  code: string | null
  exit_code: number | null
  stdout: string | null
  stderr: string | null
  /** Why the latest attempt was rejected. */
  feedback: string | null
  transitions: number
}

export type IntentOutput = Readonly<{
  final_result: string | null
  reused_existing_agent: boolean
  failed_at_state: IntentState | null
  blackboard: Readonly<Record<string, Json>>
}>

export type IntentDeps = Pick<ExecutionDeps, 'invoker' | 'models' | 'imageOf' | 'clock'> &
  Readonly<{
    read: ReadTx
    runs: Pick<Engine, 'list'>
    agents: TemplateSource & ExecutionDeps['agents']
  }>

export type FoundAgent = ResolvedAgent & Json

/** The subject of every such run. */
export const intentPipeline = {
  id: '6b1d4c0e-6a1e-4c55-9d0a-5f0c6f1a00e1',
  name: 'intent-to-execution',
  version: '1.0.0',
} as const
