import { nearestName } from '../../kernel/nearest-name.ts'
import { checkTemplate, checkTemplates, warnOfShellLine } from './check-texts.ts'
import {
  type HumanState,
  type State,
  type StateKind,
  type SubworkflowState,
  type SystemState,
  stateKinds,
} from './manifest-types.ts'
import { agentFields, parallelAgentFields, readAgent, readParallelAgents } from './read-agents.ts'
import { containerFields, readContainerRun, readParallelContainers } from './read-containers.ts'
import { type Fields, type Findings, openFields, quoted } from './read-fields.ts'
import { readTransitions } from './read-transitions.ts'
import { readCommandTime, readDuration } from './read-values.ts'

/** Names on the blackboard that are the run's own; neither a state nor update_blackboard may take them. */
export const reservedKeys: readonly string[] = ['input', 'intent', 'tenant_id', 'attachments', 'workflow', 'blackboard']

/** `state` is a name of the texts; who takes it for something else loses the feedback, but may. */
export function warnOfHidden(findings: Findings, at: string, key: string): void {
  if (key === 'state')
    findings.warn(
      at,
      'hides the state of the run: {{state.feedback}} and {{state.visit}} are empty then; choose another name',
    )
}

const STATE_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/
const commonFields = ['kind', 'transitions', 'timeout', 'max_state_visits', 'description']
const kindFields: Readonly<Record<StateKind, readonly string[]>> = {
  Agent: agentFields,
  System: ['command', 'env', 'workdir'],
  Human: ['prompt', 'default_response'],
  ParallelAgents: parallelAgentFields,
  ContainerRun: containerFields,
  ParallelContainerRun: ['steps', 'completion'],
  Subworkflow: ['workflow_id', 'mode', 'result_key', 'input'],
}
const renamed: Readonly<Record<StateKind, Readonly<Record<string, string>>>> = {
  Agent: { agent_id: 'agent', agent_name: 'agent', prompt: 'input', input_template: 'input' },
  System: { working_dir: 'workdir', cwd: 'workdir', environment: 'env', env_additions: 'env' },
  Human: { message: 'prompt', question: 'prompt', default: 'default_response' },
  ParallelAgents: { judges: 'judges_for_parallel' },
  ContainerRun: {
    working_dir: 'workdir',
    environment: 'env',
    env_additions: 'env',
    read_only_root: 'read_only_root_filesystem',
    user: 'run_as_user',
  },
  ParallelContainerRun: { containers: 'steps', completion_strategy: 'completion' },
  Subworkflow: { workflow: 'workflow_id', workflow_name: 'workflow_id' },
}

const runsCommands: ReadonlySet<StateKind> = new Set(['System', 'ContainerRun', 'ParallelContainerRun'])

export function readState(findings: Findings, name: string, value: unknown): State | undefined {
  const at = `spec.states.${name.slice(0, 64)}`
  if (!STATE_NAME.test(name) || name === '__proto__' || name === 'constructor' || reservedKeys.includes(name)) {
    findings.error(
      at,
      `is not a name for a state: use letters, digits, "_" and "-", and none of ${reservedKeys.join(', ')}`,
    )
    return undefined
  }
  warnOfHidden(findings, at, name)
  const kind = readKind(findings, at, value)
  if (kind === undefined) return undefined
  const fields = openFields(findings, at, value, {
    known: [...commonFields, ...kindFields[kind]],
    renamed: { max_visits: 'max_state_visits', timeout_seconds: 'timeout', ...renamed[kind] },
  })
  if (fields === undefined) return undefined
  const common = {
    transitions: readTransitions(findings, `${at}.transitions`, fields.raw('transitions')),
    timeoutMs: runsCommands.has(kind) ? readCommandTime(fields, 'timeout') : readDuration(fields, 'timeout'),
    maxVisits: fields.number('max_state_visits', { integer: true, min: 1, max: 20 }) ?? 5,
  }
  switch (kind) {
    case 'Agent':
      return readAgent(fields, common)
    case 'ParallelAgents':
      return readParallelAgents(fields, common)
    case 'ContainerRun':
      return readContainerRun(fields, name, common)
    case 'ParallelContainerRun':
      return readParallelContainers(fields, common)
    case 'System':
      return readSystem(fields, common)
    case 'Human':
      return readHuman(fields, common)
    case 'Subworkflow':
      return readSubworkflow(fields, common)
  }
}

function readKind(findings: Findings, at: string, value: unknown): StateKind | undefined {
  const supplied =
    typeof value === 'object' && value !== null
      ? ((value as { kind?: unknown }).kind ?? (value as { type?: unknown }).type)
      : undefined
  if (supplied === undefined) {
    findings.error(`${at}.kind`, `is required; use one of ${stateKinds.join(', ')}`)
    return undefined
  }
  const exact = stateKinds.find((kind) => kind === supplied)
  if (exact !== undefined) return exact
  const squashed = String(supplied).toLowerCase().replaceAll(/[-_ ]/g, '')
  const found = stateKinds.find((kind) => kind.toLowerCase() === squashed)
  if (found !== undefined) {
    findings.warn(`${at}.kind`, `is an old spelling; write ${found}`)
    return found
  }
  const near = squashed === 'containerstep' ? 'ContainerRun' : nearestName(String(supplied), stateKinds)
  findings.error(
    `${at}.kind`,
    `${quoted(supplied)} is not one of ${stateKinds.join(', ')}${near ? `; did you mean ${near}?` : ''}`,
  )
  return undefined
}

type Common = Pick<SystemState, 'transitions' | 'timeoutMs' | 'maxVisits'>

function readSystem(fields: Fields, common: Common): SystemState | undefined {
  const command = readLine(fields)
  const env = fields.texts('env') ?? {}
  checkTemplates(fields, 'env', env)
  const workdir = fields.text('workdir', { max: 4096 }) ?? null
  checkTemplate(fields, 'workdir', workdir)
  if (command === undefined) return undefined
  if (['repository_diff', 'repository_commit', 'repository_land'].includes(command.trim())) {
    fields.error('command', `${command.trim()} is not done here; use a command with git`)
  }
  if (command.trim() === 'update_blackboard') {
    for (const key of Object.keys(env)) {
      if (reservedKeys.includes(key) || key === '__proto__')
        fields.error(`env.${key}`, 'cannot be written: it is the run’s own')
      warnOfHidden(fields.findings, `${fields.at}.env.${key}`, key)
    }
  } else warnOfShellLine(fields, 'command', command)
  return { kind: 'System', ...common, command, env, workdir }
}

function readLine(fields: Fields): string | undefined {
  const supplied = fields.raw('command')
  if (!Array.isArray(supplied)) {
    const command = fields.text('command', { required: true })
    checkTemplate(fields, 'command', command)
    return command
  }
  fields.warn('command', 'is a list and is joined to one line; write text')
  const line = supplied.map((word) => String(word)).join(' ')
  if (line.trim() === '') return void fields.error('command', 'must not be blank')
  checkTemplate(fields, 'command', line)
  return line
}

function readHuman(fields: Fields, common: Common): HumanState | undefined {
  const prompt = fields.text('prompt', { required: true })
  checkTemplate(fields, 'prompt', prompt)
  const defaultResponse = fields.text('default_response', { blank: true }) ?? null
  return prompt === undefined ? undefined : { kind: 'Human', ...common, prompt, defaultResponse }
}

function readSubworkflow(fields: Fields, common: Common): SubworkflowState | undefined {
  const workflow = fields.text('workflow_id', { required: true, max: 256 })
  checkTemplate(fields, 'workflow_id', workflow)
  const resultKey = fields.text('result_key', { max: 64 }) ?? null
  const input = readInput(fields)
  checkTemplate(fields, 'input', input)
  let mode = fields.choice('mode', ['blocking', 'fire_and_forget'])
  if (mode === undefined && fields.raw('mode') === undefined && resultKey !== null) {
    fields.warn('mode', 'is absent; blocking is used because there is a result_key')
    mode = 'blocking'
  } else if (fields.raw('mode') === undefined) fields.error('mode', 'is required; use blocking or fire_and_forget')
  if (mode === 'blocking' && resultKey === null) fields.error('result_key', 'is required when the mode is blocking')
  if (mode === 'fire_and_forget' && resultKey !== null) {
    fields.error('result_key', 'cannot be given when the mode is fire_and_forget: there is no result to keep')
  }
  if (resultKey !== null && (reservedKeys.includes(resultKey) || resultKey === '__proto__')) {
    fields.error('result_key', 'is one of the run’s own names; choose another')
  }
  if (resultKey !== null) warnOfHidden(fields.findings, `${fields.at}.result_key`, resultKey)
  if (workflow === undefined || mode === undefined) return undefined
  return { kind: 'Subworkflow', ...common, workflow, mode, resultKey, input }
}

/** A map is as good as its JSON. */
function readInput(fields: Fields): string | null {
  const supplied = fields.raw('input')
  if (typeof supplied === 'object' && supplied !== null) return JSON.stringify(supplied)
  return fields.text('input', { blank: true }) ?? null
}
