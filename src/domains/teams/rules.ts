import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { checkEnv } from '../workspaces/rules.ts'
import type { TaskAssignment } from './ports.ts'

/** The message type whose content is run as a command. */
export const TASK_ASSIGNMENT = 'task_assignment'
/** To everybody but the sender. */
export const EVERYBODY = '*'
/** The team's owner, as a sender and with an inbox. No member has this name. */
export const OWNER_AGENT = 'owner'
/** The owner too, in a team that has no member of this name. */
export const COORDINATOR = 'coordinator'

const NAME = /^[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?$/
/** Of a workspace, whose name is made of the team's and the member's. */
const WORKSPACE_NAME_CHARS_MAX = 128

export const invalid = (field: string, message: string, details: Record<string, unknown> = {}): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${message}`, { field, ...details })

export function checkTeamName(field: string, name: string): string {
  if (!NAME.test(name)) {
    throw invalid(
      field,
      `use 1 to ${limits.teamNameCharsMax} letters, digits or "-", with a letter or a digit at both ends`,
    )
  }
  return name
}

export type RoleInput = Readonly<{
  name: string
  role: string
  skills?: readonly string[] | undefined
  description?: string | undefined
}>

export const workspaceNameOf = (team: string, member: string): string => `${team}-${member}`

/** Names of members become names of workspaces and of files, so names that differ only in case are refused. */
export function checkRoles(team: string, roles: readonly RoleInput[]): void {
  const seen = new Set<string>()
  for (const { name } of roles) {
    checkTeamName('roles.name', name)
    const folded = name.toLowerCase()
    if (folded === OWNER_AGENT) {
      throw invalid('roles.name', `'${OWNER_AGENT}' stands for the team's owner; choose another name`, { name })
    }
    if (seen.has(folded)) throw invalid('roles.name', `'${name}' occurs twice; give each member its own name`, { name })
    seen.add(folded)
    if (workspaceNameOf(team, name).length > WORKSPACE_NAME_CHARS_MAX) {
      throw invalid('roles.name', `with the team's name it makes a workspace name that is too long; shorten one`, {
        name,
      })
    }
  }
}

/** The meaning of `base_snapshot` and `golden_workspace` together; undefined for a new workspace. */
export function chooseSource(
  goldenWorkspace: string | undefined,
  baseSnapshot: string | undefined,
): Readonly<{ workspace: string; snapshot: string }> | undefined {
  if (goldenWorkspace !== undefined) return { workspace: goldenWorkspace, snapshot: baseSnapshot ?? 'golden' }
  if (baseSnapshot === undefined) return undefined
  const [workspace, snapshot, ...more] = baseSnapshot.split(':')
  if (!workspace || !snapshot || more.length > 0) {
    throw invalid('base_snapshot', 'write WORKSPACE:SNAPSHOT, or name the workspace in golden_workspace')
  }
  return { workspace, snapshot }
}

const assignmentFields = ['task_id', 'command', 'workdir', 'env', 'timeout_secs'] as const
const EXAMPLE = '{"task_id":"t1","command":"make test"}'

/** The command in a message. What cannot be run is refused here, not later. */
export function readAssignment(content: string): TaskAssignment {
  const input = parseObject(content)
  const wrong = (field: string, rule: string): AppError =>
    invalid(`content.${field}`, rule, { message_type: TASK_ASSIGNMENT })
  for (const field of Object.keys(input)) {
    if (!(assignmentFields as readonly string[]).includes(field)) {
      throw wrong(
        field.slice(0, 64).toWellFormed(),
        `is not a field of a task; it takes ${assignmentFields.join(', ')}`,
      )
    }
  }
  const text = (field: 'task_id' | 'command' | 'workdir', charsMax: number): string => {
    const value = input[field]
    if (typeof value !== 'string' || value === '' || value.length > charsMax) {
      throw wrong(field, `must be a string of 1 to ${charsMax} characters`)
    }
    if (value.includes('\u0000') || !value.isWellFormed())
      throw wrong(field, 'must not contain U+0000 or lone surrogates')
    return value
  }
  const task_id = text('task_id', limits.teamTaskIdCharsMax)
  const command = text('command', limits.execCommandCharsMax)
  const workdir = input['workdir'] == null ? null : text('workdir', 4096)
  if (workdir !== null && !workdir.startsWith('/')) throw wrong('workdir', 'must be absolute, such as /workspace')
  const timeout_secs = input['timeout_secs'] ?? limits.teamTaskTimeoutDefaultSecs
  if (
    typeof timeout_secs !== 'number' ||
    !Number.isInteger(timeout_secs) ||
    timeout_secs < 1 ||
    timeout_secs > limits.execTimeoutSecsMax
  ) {
    throw wrong('timeout_secs', `must be a whole number from 1 to ${limits.execTimeoutSecsMax}`)
  }
  return { task_id, command, workdir, env: readEnv(input['env'], wrong), timeout_secs }
}

function parseObject(content: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = JSON.parse(content)
  } catch {
    value = undefined
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw invalid('content', `must be a JSON object such as ${EXAMPLE} for a ${TASK_ASSIGNMENT}`, {
    message_type: TASK_ASSIGNMENT,
  })
}

function readEnv(input: unknown, wrong: (field: string, rule: string) => AppError): Readonly<Record<string, string>> {
  if (input == null) return {}
  if (typeof input !== 'object' || Array.isArray(input)) throw wrong('env', 'must be an object of strings')
  const entries = Object.entries(input)
  for (const [, value] of entries) {
    if (typeof value !== 'string' || value.includes('\u0000') || !value.isWellFormed()) {
      throw wrong('env', 'must have strings as values, without U+0000 or lone surrogates')
    }
  }
  const env = Object.fromEntries(entries) as Record<string, string>
  checkEnv('content.env', env)
  return env
}
