import type { IncomingMessage, ServerResponse } from 'node:http'
import { AppError } from '../contract/app-error.ts'

/** One request on its way to its route. `params` are the decoded named parts of the path. */
export type Exchange = Readonly<{
  req: IncomingMessage
  res: ServerResponse
  path: string
  url: string
  params: Readonly<Record<string, string>>
}>

/** `/v1/agents/{id}` has a named part; `{path...}` at the end matches the rest. */
export type PatternRoute = Readonly<{
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  serve(exchange: Exchange): void | Promise<void>
}>

export type Route = Readonly<{ methods: readonly string[]; serve(exchange: Exchange): void | Promise<void> }>
export type FoundRoute = Route & Readonly<{ params: Readonly<Record<string, string>> }>

/** Public paths: they reveal no user data and need no key. */
export const publicPaths: ReadonlySet<string> = new Set([
  '/',
  '/health',
  '/health/live',
  '/health/ready',
  '/openapi.json',
])
/** Pages that any site may link to: they need a secret token, or a sign-in. */
const publicPrefixes: readonly string[] = [
  '/secrets/',
  '/invitation/',
  '/sign-in',
  '/consent',
  '/account',
  '/auth/oauth2/authorize',
  '/auth/callback/',
  '/auth/error',
  '/mcp-authorize/',
  '/mcp-callback',
  '/mcp-servers/',
]

export const isPublicPath = (path: string): boolean =>
  publicPaths.has(path) || publicPrefixes.some((prefix) => path.startsWith(prefix))

type Entry = Readonly<{ parts: readonly string[]; byMethod: Map<string, PatternRoute['serve']> }>

/** Finds the route of a path; of several matching patterns, the one with earlier literal parts. */
export function createRouteTable(
  routes: readonly PatternRoute[],
): Readonly<{ find(path: string): FoundRoute | undefined }> {
  const entries = new Map<string, Entry>()
  for (const { method, path, serve } of routes) {
    const entry = entries.get(path) ?? { parts: path.split('/'), byMethod: new Map() }
    if (entry.byMethod.has(method)) throw new Error(`two routes are ${method} ${path}`)
    entry.byMethod.set(method, serve)
    entries.set(path, entry)
  }
  const ordered = [...entries.values()].sort((one, other) => (sortKey(one) < sortKey(other) ? -1 : 1))
  return {
    find(path) {
      const parts = path.split('/')
      for (const entry of ordered) {
        const found = match(entry.parts, parts)
        if (found !== undefined) return { ...routeOf(entry), params: decode(found) }
      }
      return undefined
    },
  }
}

/** Literal parts come before named ones, and those before the rest of a path. */
const sortKey = ({ parts }: Entry): string =>
  parts.map((part) => (part.endsWith('...}') ? '3' : part.startsWith('{') ? '2' : '1')).join('')

function routeOf({ byMethod }: Entry): Route {
  const methods = [...byMethod.keys()]
  return {
    methods: [...methods, ...(byMethod.has('GET') ? ['HEAD'] : []), 'OPTIONS'],
    serve: (exchange) => byMethod.get(exchange.req.method === 'HEAD' ? 'GET' : exchange.req.method!)!(exchange),
  }
}

function match(pattern: readonly string[], parts: readonly string[]): Record<string, string> | undefined {
  const params: Record<string, string> = {}
  for (const [index, part] of pattern.entries()) {
    if (part.endsWith('...}')) {
      params[part.slice(1, -4)] = parts.slice(index).join('/')
      return index < parts.length ? params : undefined
    }
    const input = parts[index]
    if (input === undefined || input === '') {
      if (part !== input) return undefined
    } else if (part.startsWith('{')) params[part.slice(1, -1)] = input
    else if (part !== input) return undefined
  }
  return parts.length === pattern.length ? params : undefined
}

function decode(params: Record<string, string>): Record<string, string> {
  try {
    return Object.fromEntries(Object.entries(params).map(([name, text]) => [name, decodeURIComponent(text)]))
  } catch {
    throw new AppError('ERR_INVALID_INPUT', 'The address is not percent-encoded correctly.', { field: 'address' })
  }
}
