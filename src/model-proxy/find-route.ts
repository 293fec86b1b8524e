import type { Upstream } from './ports.ts'
import { openai } from './protocols/openai.ts'
import type { Endpoint } from './protocols/protocol.ts'

/** The meaning of an address: `/v1/{provider}/{proxy}/…`, where the proxy may be omitted. */
export type Route = Readonly<{
  upstream: Upstream
  /** Slug or id; undefined if the address has none. */
  proxy: string | undefined
  /** Undefined for an operation that is not forwarded. */
  endpoint: Endpoint | undefined
  /** Without the question mark and without keys; empty if there is none. */
  query: string
  queryKeys: readonly string[]
}>

/** The address for all providers, in OpenAI's format. */
export const MODEL_ROUTER = 'model-router'
const router: Upstream = {
  name: MODEL_ROUTER,
  protocol: openai,
  origin: '',
  basePath: '',
  apiKey: null,
  keyNames: [],
  requiresKey: false,
  isPublic: false,
  configuredPrices: new Map(),
  contextWindows: new Map(),
}

const PREFIX = '/v1/'
const SLUG = /^[A-Za-z0-9][A-Za-z0-9-]{0,127}$/

/** The first path segment below `/v1/`. */
function firstWord(url: string): string | undefined {
  if (!url.startsWith(PREFIX)) return undefined
  const end = url.indexOf('/', PREFIX.length)
  return end === -1 ? undefined : url.slice(PREFIX.length, end)
}

export const isProxyAddress = (url: string, upstreams: ReadonlyMap<string, unknown>): boolean => {
  const word = firstWord(url)
  return word !== undefined && (word === MODEL_ROUTER || upstreams.has(word))
}

/** The address has the name of a provider. The name of an endpoint takes precedence over a proxy of the same name. */
export function findRoute(method: string, url: string, upstreams: ReadonlyMap<string, Upstream>): Route | undefined {
  const word = firstWord(url)
  const upstream = word === MODEL_ROUTER ? router : upstreams.get(word ?? '')
  if (word === undefined || upstream === undefined) return undefined
  const mark = url.indexOf('?')
  const path = url.slice(PREFIX.length + word.length + 1, mark === -1 ? undefined : mark)
  const { query, queryKeys } = mark === -1 ? NO_QUERY : withoutKeys(url.slice(mark + 1))
  const found = upstream.protocol.find(method, path)
  if (found !== undefined) return { upstream, proxy: undefined, endpoint: found, query, queryKeys }
  const slash = path.indexOf('/')
  const proxy = slash === -1 ? path : path.slice(0, slash)
  const endpoint = slash === -1 || !SLUG.test(proxy) ? undefined : upstream.protocol.find(method, path.slice(slash + 1))
  return { upstream, proxy: SLUG.test(proxy) ? proxy : undefined, endpoint, query, queryKeys }
}

const NO_QUERY = { query: '', queryKeys: [] }
/** Query parameters that providers accept as credentials. */
const KEY_PARAMETER = /^(?:key|api[-_]?key|access_token|oauth_token)$/i

/** Names may be escaped, so the query is always parsed; it stays unchanged unless it contains a key. */
function withoutKeys(query: string): Readonly<{ query: string; queryKeys: readonly string[] }> {
  const all = [...new URLSearchParams(query)]
  const keys = all.filter(([name]) => KEY_PARAMETER.test(name))
  if (keys.length === 0) return { query, queryKeys: [] }
  const others = all.filter(([name]) => !KEY_PARAMETER.test(name))
  return { query: new URLSearchParams(others).toString(), queryKeys: keys.map(([, value]) => value) }
}
