import { AppError } from '../../../contract/app-error.ts'

export type ToolSearchRequest = Readonly<{
  query: string
  limit?: number | undefined
  mode?: 'keyword' | 'regex' | undefined
  /** The query as a vector of the index's model: with it, meaning precedes words. */
  queryVector?: Float32Array | undefined
  /** The caller's visible set; every tool when absent. */
  isVisible?: ((key: string, toolName: string) => boolean) | undefined
}>

export const searchLimits = {
  queryCharactersMax: 200,
  limitMax: 20,
  limitDefault: 8,
  serversInHintMax: 10,
  /** How many matches are ranked for callers that page through them. */
  rankedMax: 500,
} as const

export function checkRequest(request: ToolSearchRequest): { query: string; limit: number; mode: 'keyword' | 'regex' } {
  const query = request.query.trim()
  const { queryCharactersMax, limitMax, limitDefault } = searchLimits
  if (query.length < 1 || query.length > queryCharactersMax) {
    const rule = `must have 1 to ${queryCharactersMax} characters after trimming`
    throw new AppError('ERR_INVALID_INPUT', `query: ${rule}. Name the capability in a few words.`, {
      field: 'query',
      rule,
    })
  }
  const limit = request.limit ?? limitDefault
  if (!Number.isInteger(limit) || limit < 1 || limit > limitMax) {
    const rule = `must be an integer from 1 to ${limitMax}`
    throw new AppError('ERR_INVALID_INPUT', `limit: ${rule}. Leave it out for ${limitDefault}.`, {
      field: 'limit',
      rule,
    })
  }
  const mode = request.mode ?? 'keyword'
  if (mode !== 'keyword' && mode !== 'regex') {
    const rule = 'must be "keyword" or "regex"'
    throw new AppError('ERR_INVALID_INPUT', `mode: ${rule}. Leave it out for "keyword".`, { field: 'mode', rule })
  }
  return { query, limit, mode }
}
