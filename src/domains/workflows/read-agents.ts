import { checkTemplate } from './check-texts.ts'
import {
  type AgentState,
  type Consensus,
  consensusStrategies,
  type JudgeRef,
  type ParallelAgent,
  type ParallelAgentsState,
} from './manifest-types.ts'
import { type Fields, openFields } from './read-fields.ts'
import { readOutputHandler } from './read-output-handler.ts'

export const agentFields = [
  'agent',
  'input',
  'intent',
  'isolation',
  'judges',
  'max_iterations',
  'pre_execution_validator',
  'output_handler',
  'volumes',
]
export const parallelAgentFields = ['agents', 'consensus', 'judges_for_parallel', 'output_handler']

type Common = Pick<AgentState, 'transitions' | 'timeoutMs' | 'maxVisits'>

export function readAgent(fields: Fields, common: Common): AgentState | undefined {
  const agent = fields.text('agent', { required: true, max: 256 })
  const input = fields.text('input', { blank: true }) ?? null
  if (fields.raw('input') === undefined) fields.warn('input', 'is absent; the agent gets the input of the run')
  checkTemplate(fields, 'input', input)
  checkTemplate(fields, 'agent', agent)
  const intent = fields.text('intent', { blank: true }) ?? null
  checkTemplate(fields, 'intent', intent)
  if (fields.raw('volumes') !== undefined) {
    fields.warn(
      'volumes',
      'is ignored: an Agent state works in the workspace of the run; give volumes in the manifest of the agent',
    )
  }
  const isolation = fields.choice('isolation', ['inherit', 'docker', 'process', 'firecracker'])
  const isVirtualMachine = isolation === 'firecracker'
  if (isVirtualMachine) fields.warn('isolation', 'there are no virtual machines here, so the agent may run nothing')
  else if (isolation !== undefined && isolation !== 'inherit')
    fields.warn('isolation', 'agents run in a workspace; write inherit')
  const toolCallJudge = fields.text('pre_execution_validator', { max: 256 }) ?? null
  // What is judged must not choose its judge.
  if (toolCallJudge?.includes('{{')) fields.error('pre_execution_validator', 'cannot be a template; name an agent')
  const judges = readJudges(fields, 'judges')
  const maxIterations = fields.number('max_iterations', { integer: true, min: 1, max: 20 }) ?? 10
  const outputHandler = readOutputHandler(fields)
  if (agent === undefined) return undefined
  const asked = { agent, input, intent, isVirtualMachine, toolCallJudge }
  return { kind: 'Agent', ...common, ...asked, judges, maxIterations, outputHandler }
}

export function readParallelAgents(fields: Fields, common: Common): ParallelAgentsState | undefined {
  const list = fields.list('agents')
  if (list === undefined || list.length === 0 || list.length > 20) {
    fields.error('agents', 'must be a list of 1 to 20 agents')
    return undefined
  }
  const agents = list.flatMap((item, index) => readParallelAgent(fields, item, index) ?? [])
  const judges = readJudges(fields, 'judges_for_parallel')
  const consensus = readConsensus(fields, judges.length > 0 ? judges.length : list.length)
  return { kind: 'ParallelAgents', ...common, agents, judges, consensus, outputHandler: readOutputHandler(fields) }
}

function readParallelAgent(fields: Fields, item: unknown, index: number): ParallelAgent | undefined {
  const at = `${fields.at}.agents[${index}]`
  const one = openFields(fields.findings, at, item, {
    known: ['agent', 'input', 'weight', 'timeout_seconds', 'poll_interval_ms'],
    renamed: { agent_id: 'agent', name: 'agent' },
  })
  const agent = one?.text('agent', { required: true, max: 256 })
  const input = one?.text('input', { required: true, blank: true })
  if (one === undefined || agent === undefined || input === undefined) return undefined
  checkTemplate(one, 'input', input)
  checkTemplate(one, 'agent', agent)
  one.number('poll_interval_ms', { min: 1 })
  return {
    agent,
    input,
    weight: readWeight(one),
    timeoutMs: (one.number('timeout_seconds', { min: 1, max: 86_400 }) ?? 60) * 1000,
  }
}

function readJudges(fields: Fields, key: string): readonly JudgeRef[] {
  return (fields.list(key) ?? []).slice(0, 20).flatMap((item, index) => {
    const at = `${fields.at}.${key}[${index}]`
    const value = typeof item === 'string' ? { agent_id: item } : item
    const judge = openFields(fields.findings, at, value, {
      known: ['agent_id', 'input_template', 'weight'],
      renamed: { agent: 'agent_id', name: 'agent_id', input: 'input_template' },
    })
    const agent = judge?.text('agent_id', { required: true, max: 256 })
    if (judge === undefined || agent === undefined) return []
    const inputTemplate = judge.text('input_template', { blank: true }) ?? null
    checkTemplate(judge, 'input_template', inputTemplate)
    return [{ agent, inputTemplate, weight: readWeight(judge) }]
  })
}

function readWeight(fields: Fields): number {
  const weight = fields.number('weight', { min: 0, max: 1000 })
  if (weight === 0) fields.error('weight', 'must be above 0')
  return weight ?? 1
}

function readConsensus(fields: Fields, voices: number): Consensus {
  if (fields.raw('consensus') === undefined) {
    fields.warn('consensus', 'is absent; the strategy weighted_average is used')
  }
  const value = fields.raw('consensus')
  const supplied = typeof value === 'string' ? { strategy: value } : (value ?? {})
  const consensus = openFields(fields.findings, `${fields.at}.consensus`, supplied, {
    known: [
      'strategy',
      'threshold',
      'agreement',
      'n',
      'min_judges_required',
      'confidence_weighting',
      'min_agreement_confidence',
    ],
  })
  const share = { min: 0, max: 1 }
  const weighting = consensus?.map('confidence_weighting', { known: ['agreement_factor', 'self_confidence_factor'] })
  const agreementFactor = weighting?.number('agreement_factor', share) ?? 0.7
  const selfConfidenceFactor = weighting?.number('self_confidence_factor', share) ?? 0.3
  if (Math.abs(agreementFactor + selfConfidenceFactor - 1) > 0.01) {
    consensus?.error('confidence_weighting', 'agreement_factor and self_confidence_factor must add up to 1')
  }
  const strategy = consensus?.choice('strategy', consensusStrategies)
  const n = consensus?.number('n', { integer: true, min: 1, max: 100 }) ?? null
  if (n !== null && strategy !== 'best_of_n') consensus?.warn('n', 'counts with the strategy best_of_n alone')
  const minJudgesRequired = consensus?.number('min_judges_required', { integer: true, min: 1, max: 100 }) ?? 1
  if (minJudgesRequired > voices) {
    consensus?.error('min_judges_required', `is ${minJudgesRequired}, but there are only ${voices}`)
  }
  return {
    strategy: strategy ?? 'weighted_average',
    threshold: consensus?.number('threshold', share) ?? null,
    agreement: consensus?.number('agreement', share) ?? consensus?.number('min_agreement_confidence', share) ?? null,
    n,
    minJudgesRequired,
    confidenceWeighting: { agreementFactor, selfConfidenceFactor },
  }
}
