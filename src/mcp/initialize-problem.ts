import { specTypeSchemas } from '@modelcontextprotocol/server'

/** The problem with the params of an `initialize`, naming the field; undefined if they are valid. The SDK's schema decides. */
export function initializeProblem(params: unknown): string | undefined {
  if (params === undefined) return 'Invalid params of initialize: params: missing'
  const verdict = specTypeSchemas.InitializeRequestParams['~standard'].validate(params)
  const [issue] = verdict.issues ?? []
  if (issue === undefined) return undefined
  const path = (issue.path ?? []).map((part) => String(typeof part === 'object' ? part.key : part))
  const reason = isMissing(params, path) ? 'missing' : issue.message
  return `Invalid params of initialize: ${['params', ...path].join('.')}: ${reason}`
}

function isMissing(params: unknown, path: readonly string[]): boolean {
  let value = params
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return false
    value = (value as Record<string, unknown>)[part]
  }
  return value === undefined
}
