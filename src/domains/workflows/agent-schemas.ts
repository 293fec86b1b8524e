import { z } from 'zod'
import { outputHandlerSchema } from '../manifests/output-handler.ts'
import { loosely, type Notes } from '../manifests/present-spelling.ts'
import { isFields, type YamlFields } from '../manifests/read-yaml.ts'
import {
  filled,
  filledTemplate,
  group,
  listOf,
  number,
  oneOf,
  rule,
  template,
  templateProblem,
  whole,
} from '../manifests/schema-keywords.ts'
import { commandTime, containerCpu, containerSize, issue, readWords, TEXT_MAX, textsOfMap } from './schema-words.ts'
import { commonOf, oldStateFields, stateShape } from './state-fields.ts'

const JUDGES_MAX = 20

const weight = z
  .number(rule('must be a number above 0'))
  .positive(rule('must be above 0'))
  .max(1_000, rule('must be at most 1000'))
  .default(1)

const judge = loosely(
  group(
    {
      agent_id: filled(256, 'Name or id of the judging agent.'),
      input_template: template(TEXT_MAX, 'Template of the input of the judge.').optional(),
      weight,
    },
    'A judge.',
  ),
  {
    renamed: { agent: 'agent_id', name: 'agent_id', input: 'input_template' },
    read: (value) => (typeof value === 'string' ? { agent_id: value } : value),
  },
).transform(({ agent_id, input_template, weight }) => ({
  agent: agent_id,
  inputTemplate: input_template ?? null,
  weight,
}))
export type JudgeRef = Readonly<z.output<typeof judge>>

const judges = (description: string) =>
  loosely(listOf(judge, JUDGES_MAX, description).default([]), {
    read(value, { warn }) {
      if (!Array.isArray(value) || value.length <= JUDGES_MAX) return value
      warn(`only the first ${JUDGES_MAX} are used`)
      return value.slice(0, JUDGES_MAX)
    },
  })

const handlerFields: Readonly<Record<string, readonly string[]>> = {
  agent: ['agent_id', 'input_template'],
  webhook: ['url', 'method', 'headers', 'body_template', 'retry'],
  container: ['image', 'command', 'env', 'resources'],
  mcp_tool: ['tool_name', 'arguments'],
}
const oldHandlerFields = { agent: 'agent_id', tool: 'tool_name', retries: 'retry', body: 'body_template' } as const

/** The output handler of a state. The manifest decides where output goes, never the output itself. */
export const outputHandler = loosely(
  outputHandlerSchema({ cpu: containerCpu, size: containerSize, time: commandTime })
    .superRefine((handler, context) => {
      const refuse = (path: readonly string[], problem: string): void =>
        context.addIssue({ ...issue(problem), path: [...path] })
      if (handler.type === 'webhook') {
        if (handler.url.includes('{{')) {
          refuse(['url'], 'cannot be a template; write the address, and put values into the body')
        } else if (URL.parse(handler.url) === null) {
          refuse(['url'], 'must be an address that begins with https:// or http://')
        }
        for (const name of Object.keys(handler.headers)) {
          if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) refuse(['headers', name], 'is not the name of a header')
        }
      }
      const [key, supplied] =
        handler.type === 'webhook'
          ? ['headers', handler.headers]
          : ['env', handler.type === 'container' ? handler.env : {}]
      for (const [name, { from, value }] of Object.entries(supplied)) {
        if (from !== 'literal') continue
        const reference = /\{\{\s*(secret|config):/.exec(value)?.[1]
        const problem =
          reference === undefined ? templateProblem(value) : `must be ${reference}:NAME alone, without text around it`
        if (problem !== undefined) refuse([key, name], problem)
      }
    })
    .meta({ id: 'output_handler' }),
  { read: readHandler },
)

/** Fields of another type of handler have no effect. They are reported here, where all types are known. */
function readHandler(value: unknown, notes: Notes): unknown {
  if (!isFields(value)) return value
  const fields: YamlFields = { ...value }
  for (const [old, now] of Object.entries(oldHandlerFields)) {
    if (fields[old] === undefined || fields[now] !== undefined) continue
    fields[now] = fields[old]
    delete fields[old]
    notes.warn(`is an old spelling; write ${now}`, old)
  }
  const type = String(fields['type'])
  if (!Object.hasOwn(handlerFields, type)) return fields
  for (const key of Object.keys(fields)) {
    const isOther = Object.entries(handlerFields).some(([other, keys]) => other !== type && keys.includes(key))
    if (!isOther || handlerFields[type]!.includes(key)) continue
    notes.warn(`is not a field of the type ${type} and is ignored`, key)
    delete fields[key]
  }
  for (const key of ['headers', 'env']) if (fields[key] !== undefined) fields[key] = textsOfMap(fields[key])
  if (type === 'container') {
    fields['command'] = readWords(fields['command'], { ...notes, warn: (problem) => notes.warn(problem, 'command') })
  }
  return fields
}

export const agentState = loosely(
  group(
    stateShape('Agent', {
      agent: filledTemplate(256, 'Name or id of an agent; may be a template.'),
      input: loosely(
        template(TEXT_MAX, 'Template of the input of the agent. Default: the input of the run.').optional(),
        {
          read(value, { warn }) {
            if (value === undefined) warn('is absent; the agent gets the input of the run')
            return value
          },
        },
      ),
      intent: template(TEXT_MAX, 'Template of the intent in plain words.').optional(),
      isolation: loosely(
        oneOf(['inherit', 'firecracker'], 'firecracker only for agents that run nothing.').optional(),
        { read: readIsolation },
      ),
      pre_execution_validator: filled(
        256,
        'Name or id of an agent that judges each tool call before it is made, beside those that the agent names itself.',
      )
        // The text under judgement must not choose its judge.
        .refine((text) => !text.includes('{{'), rule('cannot be a template; name an agent'))
        .optional(),
      judges: judges('The state is repeated with their reasons until they accept it.'),
      max_iterations: whole(1, 20, 'How often the judges may send the state back.').default(10),
      output_handler: outputHandler.optional(),
    }),
    'An agent does something.',
  ),
  {
    renamed: {
      ...oldStateFields,
      agent_id: 'agent',
      agent_name: 'agent',
      prompt: 'input',
      input_template: 'input',
    },
    read(value, { warn }) {
      if (!isFields(value) || value['volumes'] === undefined) return value
      warn(
        'is ignored: an Agent state works in the workspace of the run; give volumes in the manifest of the agent',
        'volumes',
      )
      const { volumes: _ignored, ...rest } = value
      return rest
    },
  },
).transform(({ agent, input, intent, isolation, judges, ...state }) => ({
  kind: 'Agent' as const,
  ...commonOf(state),
  agent,
  /** Null means the input of the run. */
  input: input ?? null,
  intent: intent ?? null,
  /** Requests a virtual machine, which is possible only for an agent that runs nothing. */
  isVirtualMachine: isolation === 'firecracker',
  /** An agent that judges each tool call before it is made, in addition to the judges of the worker's manifest. */
  toolCallJudge: state.pre_execution_validator ?? null,
  judges,
  maxIterations: state.max_iterations,
  outputHandler: state.output_handler ?? null,
}))

function readIsolation(value: unknown, { warn }: Notes): unknown {
  if (value === 'firecracker') warn('this server has no virtual machines, so the agent must not run commands')
  if (value !== 'docker' && value !== 'process') return value
  warn('agents run in a workspace; write inherit')
  return 'inherit'
}

const parallelAgent = loosely(
  group(
    {
      agent: filledTemplate(256, 'Name or id of an agent.'),
      input: template(TEXT_MAX, 'Template of its input.'),
      weight,
      timeout_seconds: number(1, 86_400, 'Time limit.').default(60),
      poll_interval_ms: z
        .number(rule('must be a number of at least 1'))
        .min(1, rule('must be a number of at least 1'))
        .optional()
        .describe('Has no effect: nothing is polled.'),
    },
    'One of the agents.',
  ),
  { renamed: { agent_id: 'agent', name: 'agent' } },
).transform(({ agent, input, weight, timeout_seconds }) => ({
  agent,
  input,
  weight,
  timeoutMs: timeout_seconds * 1_000,
}))
export type ParallelAgent = Readonly<z.output<typeof parallelAgent>>

const consensus = loosely(
  group(
    {
      strategy: oneOf(['weighted_average', 'majority', 'unanimous', 'best_of_n'], 'How the votes become one.'),
      threshold: number(0, 1, 'What a vote needs to count as passed.').optional(),
      agreement: number(0, 1, 'Confidence that the consensus needs.').optional(),
      n: whole(1, 100, 'For best_of_n.').optional(),
      min_judges_required: whole(1, 100, 'Minimum number of votes.').default(1),
      confidence_weighting: group(
        {
          agreement_factor: number(0, 1, 'Weight of the agreement between the votes.').default(0.7),
          self_confidence_factor: number(0, 1, 'Weight of the confidence that the judges state themselves.').default(
            0.3,
          ),
        },
        'How the confidence is computed.',
      )
        .refine(
          ({ agreement_factor: agreed, self_confidence_factor: own }) => Math.abs(agreed + own - 1) <= 0.01,
          rule('agreement_factor and self_confidence_factor must add up to 1'),
        )
        .prefault({}),
    },
    'How the answers become one.',
  ),
  {
    read(value, { warn }) {
      if (value === undefined) warn('is absent; the strategy weighted_average is used')
      const input = typeof value === 'string' ? { strategy: value } : (value ?? {})
      if (!isFields(input)) return input
      const { min_agreement_confidence: agreement, ...rest } = input
      return { strategy: 'weighted_average', ...(agreement !== undefined && { agreement }), ...rest }
    },
    complete({ strategy, n }, { warn }) {
      if (n !== undefined && strategy !== 'best_of_n') warn('applies only to the strategy best_of_n', 'n')
    },
  },
).transform(({ confidence_weighting: weighting, ...rest }) => ({
  strategy: rest.strategy,
  threshold: rest.threshold ?? null,
  agreement: rest.agreement ?? null,
  n: rest.n ?? null,
  minJudgesRequired: rest.min_judges_required,
  confidenceWeighting: {
    agreementFactor: weighting.agreement_factor,
    selfConfidenceFactor: weighting.self_confidence_factor,
  },
}))

const someAgents = rule('must be a list of 1 to 20 agents')

export const parallelAgentsState = loosely(
  group(
    stateShape('ParallelAgents', {
      agents: z.array(parallelAgent, someAgents).min(1, someAgents).max(20, someAgents),
      consensus,
      judges_for_parallel: judges('Judges that score each answer. Without them the answers are the votes.'),
      output_handler: outputHandler.optional(),
    }),
    'Several agents answer, and a consensus is found.',
  ).superRefine(({ agents, consensus, judges_for_parallel: judges }, context) => {
    const voices = judges.length > 0 ? judges.length : agents.length
    if (consensus.minJudgesRequired <= voices) return
    context.addIssue({
      ...issue(`is ${consensus.minJudgesRequired}, but there are only ${voices}`),
      path: ['consensus', 'min_judges_required'],
    })
  }),
  { renamed: { ...oldStateFields, judges: 'judges_for_parallel' } },
).transform(({ agents, consensus, judges_for_parallel, output_handler, ...state }) => ({
  kind: 'ParallelAgents' as const,
  ...commonOf(state),
  agents,
  judges: judges_for_parallel,
  consensus,
  outputHandler: output_handler ?? null,
}))
