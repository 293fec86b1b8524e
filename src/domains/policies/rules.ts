import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { type Operator, operators } from '../../contract/policy-conditions.ts'
import type { PolicyTool } from '../../contract/tool-policies.ts'

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

/** What a condition can ask of the caller, and with which operators; the two of the document have those that it gives them. */
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

export const policyNotFound = (tool: string): AppError =>
  new AppError('ERR_NOT_FOUND', `id: there is no such policy; ${tool} lists those that there are.`, { field: 'id' })

const AGENT = 'agent:'

/** The tool that hands tasks on to an agent. Policies name the agent: two of them can have tools of one name. */
export const delegationPolicyTool = (agentId: string, name: string): PolicyTool & Readonly<{ id: string }> => ({
  id: `${AGENT}${agentId}`,
  name,
  origin: 'platform',
})
export const isDelegation = (toolId: string): boolean => toolId.startsWith(AGENT)

/** The id or the name of the agent that a policy means by `agent:ID` or `agent__NAME`; undefined for a tool of another kind. */
export const readDelegation = (toolId: string): string | undefined =>
  [AGENT, 'agent__'].flatMap((prefix) => (toolId.startsWith(prefix) ? toolId.slice(prefix.length) : []))[0]

const CLIENT = 'client:'

/** A tool that a program brought along and runs itself. Policies name it by the name that the model sees. */
export const clientTool = (name: string): PolicyTool & Readonly<{ id: string }> => ({
  id: `${CLIENT}${name}`,
  name,
  origin: 'unknown',
})

/** The tool of a program that an id stands for; undefined for an id of another kind. */
export function readClientTool(toolId: string): (PolicyTool & Readonly<{ id: string }>) | undefined {
  if (!toolId.startsWith(CLIENT)) return undefined
  const name = toolId.slice(CLIENT.length)
  return name !== '' && name.length <= limits.judgedToolCharsMax ? clientTool(name) : undefined
}
