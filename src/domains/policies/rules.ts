import { AppError } from '../../contract/app-error.ts'
import { type Operator, operators } from '../../contract/policy-conditions.ts'

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
