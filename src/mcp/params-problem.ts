import { ProtocolError, specTypeSchemas } from '@modelcontextprotocol/server'

type Issue = Readonly<{ path: readonly PropertyKey[]; message: string }>

/** The problem with the params of an `initialize`, naming the field; undefined if they are valid. The SDK's schema decides. */
export function initializeProblem(params: unknown): string | undefined {
  if (params === undefined) return problemText('initialize', {}, { path: ['params'], message: '' })
  const verdict = specTypeSchemas.InitializeRequestParams['~standard'].validate(params)
  const [issue] = verdict.issues ?? []
  if (issue === undefined) return undefined
  const path = (issue.path ?? []).map((part) => (typeof part === 'object' ? part.key : part))
  return problemText('initialize', { params }, { path: ['params', ...path], message: issue.message })
}

/**
 * The same for a request that the SDK refused by its schema: it throws an error like any other, with what the validator found as its
 * message. Undefined for another error, such as one in which a server behind a gateway says the like of its own requests.
 */
export function refusedParams(request: Readonly<{ method: string }>, error: unknown): string | undefined {
  const isOfSchema = error instanceof Error && !(error instanceof ProtocolError)
  const issue = isOfSchema ? firstIssueIn(error.message) : undefined
  return issue && problemText(request.method, request, issue)
}

function firstIssueIn(text: string): Issue | undefined {
  if (!text.startsWith('[')) return undefined
  try {
    const [issue] = JSON.parse(text) as Partial<Issue>[]
    return issue?.path?.[0] === 'params' && typeof issue.message === 'string' ? (issue as Issue) : undefined
  } catch {
    return undefined
  }
}

function problemText(method: string, request: object, { path, message }: Issue): string {
  const reason = isMissing(request, path) ? 'missing' : message
  return `Invalid params of ${method}: ${path.join('.')}: ${reason}`
}

function isMissing(request: object, path: readonly PropertyKey[]): boolean {
  let value: unknown = request
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return false
    value = (value as Record<PropertyKey, unknown>)[part]
  }
  return value === undefined
}
