import type { Json } from '../../kernel/canonical-json.ts'
import type { EnvValues } from '../manifests/env-values.ts'
import type { OutputHandler } from '../manifests/output-handler.ts'
import type { Moment } from './known-names.ts'
import type { ContainerStep, JudgeRef, State, WorkflowManifest } from './manifest-schema.ts'
import { fieldOf } from './state-texts.ts'

/** A text of a manifest that is rendered or evaluated during a run. */
export type ManifestText = Readonly<{
  field: string
  text: string
  /** Null for a text of the workflow itself. */
  state: string | null
  moment: Moment
  isExpression: boolean
}>

type Own = Readonly<{ field: string; text: string | null; moment: Moment; isExpression?: boolean }>

export function textsOf({ states, outputTemplate }: WorkflowManifest): readonly ManifestText[] {
  const ofStates = [...states].flatMap(([name, state]) =>
    [...ofKind(state), ...ofTransitions(state)].map((own) => ({
      ...own,
      field: fieldOf(name, own.field),
      state: name,
    })),
  )
  const ofOutput = leavesOf('metadata.output_template', outputTemplate as Json, 'end').map((own) => ({
    ...own,
    state: null,
  }))
  return [...ofStates, ...ofOutput].flatMap(({ text, isExpression = false, ...own }) =>
    text !== null && (isExpression || text.includes('{{')) ? [{ ...own, text, isExpression }] : [],
  )
}

const ofTransitions = ({ transitions }: State): readonly Own[] =>
  transitions.flatMap(({ condition, feedback }, index): readonly Own[] => {
    const at = `transitions[${index}]`
    const text: Own = { field: `${at}.feedback`, text: feedback, moment: 'after' }
    if (condition.type !== 'custom') return [text]
    return [{ field: `${at}.expression`, text: condition.expression, moment: 'after', isExpression: true }, text]
  })

function ofKind(state: State): readonly Own[] {
  const before = (field: string, text: string | null): Own => ({ field, text, moment: 'before' })
  switch (state.kind) {
    case 'System':
      return [before('command', state.command), before('workdir', state.workdir), ...mapped('env', state.env, 'before')]
    case 'Human':
      return [before('prompt', state.prompt)]
    case 'Agent':
      return [
        before('agent', state.agent),
        before('input', state.input),
        before('intent', state.intent),
        ...ofJudges('judges', state.judges),
        ...ofHandler(state.outputHandler),
      ]
    case 'ParallelAgents':
      return [
        ...state.agents.flatMap(({ agent, input }, index) => [
          before(`agents[${index}].agent`, agent),
          before(`agents[${index}].input`, input),
        ]),
        ...ofJudges('judges_for_parallel', state.judges),
        ...ofHandler(state.outputHandler),
      ]
    case 'ContainerRun':
      return [...ofStep('', state.step), ...ofHandler(state.outputHandler)]
    case 'ParallelContainerRun':
      return state.steps.flatMap((step, index) => ofStep(`steps[${index}].`, step))
    case 'Subworkflow':
      return [before('workflow_id', state.workflow), before('input', state.input)]
  }
}

const ofStep = (at: string, { image, command, workdir, env }: ContainerStep): readonly Own[] => [
  { field: `${at}image`, text: image, moment: 'before' },
  ...command.map((word): Own => ({ field: `${at}command`, text: word, moment: 'before' })),
  { field: `${at}workdir`, text: workdir, moment: 'before' },
  ...mapped(`${at}env`, env, 'before'),
]

const ofJudges = (at: string, judges: readonly JudgeRef[]): readonly Own[] =>
  judges.map(({ inputTemplate }, index) => ({
    field: `${at}[${index}].input_template`,
    text: inputTemplate,
    moment: 'judge',
  }))

function ofHandler(handler: OutputHandler | null): readonly Own[] {
  const at = (field: string, text: string | null): Own => ({
    field: `output_handler.${field}`,
    text,
    moment: 'handler',
  })
  switch (handler?.type) {
    case 'agent':
      return [at('input_template', handler.inputTemplate)]
    case 'webhook':
      return [at('body_template', handler.bodyTemplate), ...supplied('headers', handler.headers)]
    case 'container':
      return [...handler.command.map((word) => at('command', word)), ...supplied('env', handler.env)]
    case 'mcp_tool':
      return leavesOf('output_handler.arguments', handler.arguments as Json, 'handler')
    default:
      return []
  }
}

const supplied = (key: string, values: EnvValues): readonly Own[] =>
  mapped(
    `output_handler.${key}`,
    Object.fromEntries(
      Object.entries(values).flatMap(([name, { from, value }]) => (from === 'literal' ? [[name, value]] : [])),
    ),
    'handler',
  )

const mapped = (field: string, texts: Readonly<Record<string, string>>, moment: Moment): readonly Own[] =>
  Object.entries(texts).map(([name, text]) => ({ field: `${field}.${name.slice(0, 64)}`, text, moment }))

function leavesOf(field: string, value: Json | undefined, moment: Moment): readonly Own[] {
  if (typeof value === 'string') return [{ field, text: value, moment }]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, member]) =>
    leavesOf(`${field}.${key.slice(0, 64)}`, member as Json, moment),
  )
}
