import { AppError } from '../../contract/app-error.ts'
import type { Transport } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { type Condition, type Operator, operators } from '../../contract/policy-conditions.ts'
import type { PolicyTool } from '../../contract/tool-policies.ts'
import { foldedName } from '../../contract/tool-spellings.ts'

export const operatorLabels: Readonly<Record<Operator, string>> = {
  equal: 'Equal',
  notEqual: 'Not Equal',
  contains: 'Contains',
  notContains: 'Not Contains',
  startsWith: 'Starts With',
  endsWith: 'Ends With',
  regex: 'Matches Regex',
}

const CONTEXT = 'context.'
export const isContextKey = (key: string): boolean => key.startsWith(CONTEXT)

/**
 * The properties of the caller that a condition can test, with their operators; the two documented ones have the documented
 * operators.
 */
export const contextKeys: Readonly<Record<string, readonly Operator[]>> = {
  'context.teamIds': ['contains', 'notContains'],
  'context.externalAgentId': ['equal', 'notEqual'],
  'context.userId': operators,
  'context.agentId': operators,
  'context.gatewayId': operators,
  'context.origin': operators,
}

export const invalid = (field: string, rule: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${rule}`, { field, constraint: rule })

const origins = ['stdio', 'http', 'cli', 'rest', 'seal', 'agent', 'engine', 'proxy'] as const satisfies readonly (
  | Transport
  | 'proxy'
)[]

/** Refuses a condition that names an origin which no call has; it would never match, or always. */
export function requireOrigins(conditions: readonly Condition[]): void {
  const known: readonly string[] = origins
  for (const [index, { key, operator, value }] of conditions.entries()) {
    const isWhole = operator === 'equal' || operator === 'notEqual'
    if (key !== 'context.origin' || !isWhole || known.includes(value)) continue
    throw invalid(
      `conditions[${index}].value`,
      `must be one of ${origins.join(', ')}; calls over MCP are http or stdio`,
    )
  }
}

export const policyNotFound = (tool: string, field = 'id'): AppError =>
  new AppError('ERR_NOT_FOUND', `${field}: there is no such policy; ${tool} lists the existing ones.`, { field })

const AGENT = 'agent:'

/** The tool that delegates tasks to an agent. Policies name the agent, because two agents can have tools of one name. */
export const delegationPolicyTool = (agentId: string, name: string): PolicyTool & Readonly<{ id: string }> => ({
  id: `${AGENT}${agentId}`,
  name,
  origin: 'platform',
})
export const isDelegation = (toolId: string): boolean => toolId.startsWith(AGENT)

/** The id or name of the agent in `agent:ID` or `agent__NAME`; undefined for another kind of tool. */
export const readDelegation = (toolId: string): string | undefined =>
  [AGENT, 'agent__'].flatMap((prefix) => (toolId.startsWith(prefix) ? toolId.slice(prefix.length) : []))[0]

const CLIENT = 'client:'

/** A program's own tool. Policies use the name that the model sees. */
export const clientTool = (name: string): PolicyTool & Readonly<{ id: string }> => ({
  id: `${CLIENT}${name}`,
  alike: alikeOf(`${CLIENT}${name}`)!,
  name,
  origin: 'unknown',
})

/** See `PolicyTool`. */
export const alikeOf = (toolId: string): string | undefined =>
  toolId.startsWith(CLIENT) ? `${ALIKE}${foldedName(toolId.slice(CLIENT.length))}` : undefined
/** No id of a tool begins like this. */
const ALIKE = 'alike '

/** The program's tool of an id; undefined for another kind of id. */
export function readClientTool(toolId: string): (PolicyTool & Readonly<{ id: string }>) | undefined {
  if (!toolId.startsWith(CLIENT)) return undefined
  const name = toolId.slice(CLIENT.length)
  return name !== '' && name.length <= limits.judgedToolCharsMax ? clientTool(name) : undefined
}
