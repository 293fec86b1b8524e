import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { loosely, type Notes } from '../manifests/present-spelling.ts'
import { isFields, type YamlFields } from '../manifests/read-yaml.ts'
import { filled, filledTemplate, group, oneOf, rule, template } from '../manifests/schema-keywords.ts'
import { agentState, parallelAgentsState } from './agent-schemas.ts'
import { containerRunState, parallelContainerRunState } from './container-schemas.ts'
import { hidesState, issue, reservedKeys, TEXT_MAX, templates } from './schema-words.ts'
import { commonOf, oldStateFields, stateShape } from './state-fields.ts'

export const UPDATE_BLACKBOARD = 'update_blackboard'
const undone = /^\s*(?:repository_diff|repository_commit|repository_land)\s*$/

const systemState = loosely(
  group(
    stateShape('System', {
      command: loosely(
        filledTemplate(
          TEXT_MAX,
          'Template of a line for the shell in the workspace of the run, or update_blackboard. Write {{shell x}} for a value that must stay one word, or give it through env.',
        ).superRefine((line, context) => {
          if (undone.test(line)) context.addIssue(`${line.trim()} is not supported here; use a git command`)
        }),
        {
          read(value, { warn }) {
            if (!Array.isArray(value)) return value
            warn('is a list and is joined into one line; write a string')
            return value.map(String).join(' ')
          },
        },
      ),
      env: templates(
        'Variables, or what update_blackboard writes; values are templates, and no shell reads them.',
      ).default({}),
      workdir: filledTemplate(4_096, 'Directory to run in.').optional(),
    }),
    'A command runs in the workspace of the run, or something is written on the blackboard.',
  ).superRefine(({ command, env }, context) => {
    if (command.trim() !== UPDATE_BLACKBOARD) return
    for (const key of Object.keys(env).filter((one) => reservedKeys.includes(one))) {
      context.addIssue({ ...issue('cannot be written: it is the run’s own'), path: ['env', key] })
    }
  }),
  {
    renamed: {
      ...oldStateFields,
      working_dir: 'workdir',
      cwd: 'workdir',
      environment: 'env',
      env_additions: 'env',
    },
    complete({ command, env }, { warn }) {
      if (String(command).trim() !== UPDATE_BLACKBOARD || !isFields(env)) return
      for (const key of Object.keys(env)) warnOfHidden(key, (problem) => warn(problem, `env.${key}`))
    },
  },
).transform(({ command, env, workdir, ...state }) => ({
  kind: 'System' as const,
  ...commonOf(state),
  command,
  env,
  workdir: workdir ?? null,
}))

const humanState = loosely(
  group(
    stateShape('Human', {
      prompt: filledTemplate(TEXT_MAX, 'Template of the question.'),
      default_response: z
        .string(rule('must be a string'))
        .max(TEXT_MAX)
        .optional()
        .describe('The answer when the time runs out.'),
    }),
    'A person is asked.',
  ),
  {
    renamed: { ...oldStateFields, message: 'prompt', question: 'prompt', default: 'default_response' },
  },
).transform(({ prompt, default_response, ...state }) => ({
  kind: 'Human' as const,
  ...commonOf(state),
  prompt,
  defaultResponse: default_response ?? null,
}))

const subworkflowState = loosely(
  group(
    stateShape('Subworkflow', {
      workflow_id: filledTemplate(256, 'Name or id of a workflow.'),
      mode: oneOf(['blocking', 'fire_and_forget'], 'Whether the run waits for it.'),
      result_key: filled(64, 'Where its result is stored. Required in the mode blocking, not allowed otherwise.')
        .refine(
          (key) => !reservedKeys.includes(key) && key !== '__proto__',
          rule('is one of the run’s own names; choose another'),
        )
        .optional(),
      input: loosely(template(TEXT_MAX, 'Template; JSON if it parses, else {"input": …}.').optional(), {
        /** A map becomes its JSON. */
        read: (value) => (typeof value === 'object' && value !== null ? JSON.stringify(value) : value),
      }),
    }),
    'Another workflow runs.',
  ).superRefine(({ mode, result_key: key }, context) => {
    if (mode === 'blocking' && key === undefined) {
      context.addIssue({ ...issue('is required when the mode is blocking'), path: ['result_key'] })
    }
    if (mode === 'fire_and_forget' && key !== undefined) {
      const problem = 'must not be set in the mode fire_and_forget, which has no result'
      context.addIssue({ ...issue(problem), path: ['result_key'] })
    }
  }),
  {
    renamed: { ...oldStateFields, workflow: 'workflow_id', workflow_name: 'workflow_id' },
    complete(fields, { warn }) {
      const { mode, result_key: key } = fields
      if (key !== undefined) warnOfHidden(String(key), (problem) => warn(problem, 'result_key'))
      if (mode !== undefined || key === undefined) return
      warn('is absent; blocking is used because there is a result_key', 'mode')
      fields['mode'] = 'blocking'
    },
  },
).transform(({ workflow_id, mode, result_key, input, ...state }) => ({
  kind: 'Subworkflow' as const,
  ...commonOf(state),
  workflow: workflow_id,
  mode,
  resultKey: result_key ?? null,
  input: input ?? null,
}))

const stateKinds = [
  'Agent',
  'System',
  'Human',
  'ParallelAgents',
  'ContainerRun',
  'ParallelContainerRun',
  'Subworkflow',
] as const
export type StateKind = (typeof stateKinds)[number]

function warnOfHidden(key: string, warn: (problem: string) => void): void {
  const problem = hidesState(key)
  if (problem !== undefined) warn(problem)
}

const state = loosely(
  z.discriminatedUnion(
    'kind',
    [
      agentState,
      systemState,
      humanState,
      parallelAgentsState,
      containerRunState,
      parallelContainerRunState,
      subworkflowState,
    ],
    rule(`must have a kind: one of ${stateKinds.join(', ')}`),
  ),
  { read: readKind },
)

/** Strings named `input`, `intent`, `command`, `prompt`, values of `env` and the like are templates. */
export type State = Readonly<z.output<typeof state>>
type StateOf<Kind extends StateKind> = Extract<State, { kind: Kind }>
export type AgentState = StateOf<'Agent'>
export type SystemState = StateOf<'System'>
export type HumanState = StateOf<'Human'>
export type ParallelAgentsState = StateOf<'ParallelAgents'>
export type ContainerRunState = StateOf<'ContainerRun'>
export type ParallelContainerRunState = StateOf<'ParallelContainerRun'>
export type SubworkflowState = StateOf<'Subworkflow'>

function readKind(value: unknown, { path, warn, error }: Notes): unknown {
  warnOfHidden(String(path.at(-1)), warn)
  if (!isFields(value)) return value
  const { type, ...rest } = value
  const fields: YamlFields = value['kind'] === undefined && type !== undefined ? { ...rest, kind: type } : value
  const { kind } = fields
  if (kind === undefined || stateKinds.some((one) => one === kind)) return fields
  const squashed = String(kind).toLowerCase().replaceAll(/[-_ ]/g, '')
  const found = stateKinds.find((one) => one.toLowerCase() === squashed)
  if (found !== undefined) {
    warn(`is an old spelling; write ${found}`, 'kind')
    return { ...fields, kind: found }
  }
  if (squashed === 'containerstep') error('must be a kind of state; did you mean ContainerRun?', 'kind')
  return fields
}

const STATES_MAX = limits.workflowStatesMax
const stateName = z
  .string()
  .refine(
    (name) =>
      /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/.test(name) && !['__proto__', 'constructor', ...reservedKeys].includes(name),
    rule(`is not a name for a state: use letters, digits, "_" and "-", and none of ${reservedKeys.join(', ')}`),
  )

export const states = loosely(
  z
    .record(stateName, state, {
      error: ({ input }) =>
        input === undefined ? 'is required; it maps names to states' : 'must be a map from names to states',
    })
    .refine((all) => Object.keys(all).length > 0, rule('must have at least one state'))
    .refine((all) => Object.keys(all).length <= STATES_MAX, rule(`must be at most ${STATES_MAX} states`))
    .meta({ minProperties: 1, maxProperties: STATES_MAX }),
  {
    read(value, { warn }) {
      if (!Array.isArray(value)) return value
      warn('is a list; write a map from the name of each state to its fields')
      return Object.fromEntries(
        value.map((item, index) => {
          const { name, ...rest } = isFields(item) ? item : {}
          return [typeof name === 'string' ? name : `state_${index + 1}`, rest] as const
        }),
      )
    },
  },
).transform((all): ReadonlyMap<string, State> => new Map(Object.entries(all)))
