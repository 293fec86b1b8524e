import type { PageReader, SearchResult } from './ports.ts'

export type SearchSettings = Readonly<{
  engine: EngineName
  url: string | undefined
  key(): string | undefined
}>
type EngineName = 'duckduckgo' | 'brave' | 'searxng' | 'tavily'

type SearchQuery = Readonly<{ query: string; count: number; key: string }>
export type EngineRequest = Readonly<{
  url: URL
  method: 'GET' | 'POST'
  headers: Readonly<Record<string, string>>
  body?: string
}>

/** One search engine: its request, and the parser of its answer. Undefined: it requires a person. */
type SearchEngine = Readonly<{
  usualUrl: string | undefined
  needsKey: boolean
  request(base: string, query: SearchQuery): EngineRequest
  read(text: string, pages: PageReader, signal: AbortSignal): Promise<readonly SearchResult[] | undefined>
}>

const withQuery = (base: string, query: Readonly<Record<string, string>>): URL => {
  const url = new URL(base)
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
  return url
}

/** Results in JSON: a list at some path, with the snippet under another name. */
function readJson(
  text: string,
  listOf: (answer: Json) => unknown,
  snippetName: string,
  read: (text: string) => string = (same) => same,
): readonly SearchResult[] {
  const answer: unknown = JSON.parse(text)
  const list = answer === null ? undefined : listOf(fieldsOf(answer))
  if (!Array.isArray(list)) throw new SyntaxError('the answer has no list of results')
  return list.map(fieldsOf).flatMap((entry) => {
    const { title, url } = entry
    if (typeof title !== 'string' || typeof url !== 'string' || !/^https?:/.test(url)) return []
    const snippet = entry[snippetName]
    return [{ title: plain(read(title)), url, snippet: typeof snippet === 'string' ? plain(read(snippet)) : '' }]
  })
}
type Json = Record<string, unknown>
const fieldsOf = (value: unknown): Json => (typeof value === 'object' && value !== null ? (value as Json) : {})
const plain = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ' }

/** HTML as text: matches are marked with tags, and some characters are entities. */
const fromHtml = (html: string): string =>
  html
    .replaceAll(/<\/?(?:strong|b|em)>/g, '')
    .replaceAll(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,6}));/gi, (whole, decimal, hex, name) => {
      if (name !== undefined) return entities[name] ?? whole
      const point = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal)
      return point > 0x10ffff ? whole : String.fromCodePoint(point).toWellFormed()
    })

export const searchEngines: Readonly<Record<EngineName, SearchEngine>> = {
  duckduckgo: {
    usualUrl: 'https://html.duckduckgo.com/html/',
    needsKey: false,
    request: (base, { query }) => ({
      url: withQuery(base, { q: query }),
      method: 'GET',
      headers: { accept: 'text/html' },
    }),
    read: (text, pages, signal) => pages.searchResults(text, signal),
  },
  brave: {
    usualUrl: 'https://api.search.brave.com/res/v1/web/search',
    needsKey: true,
    request: (base, { query, count, key }) => ({
      url: withQuery(base, { q: query, count: String(count) }),
      method: 'GET',
      headers: { accept: 'application/json', 'x-subscription-token': key },
    }),
    read: async (text) =>
      readJson(text, ({ web }) => (web === undefined ? [] : fieldsOf(web)['results']), 'description', fromHtml),
  },
  searxng: {
    usualUrl: undefined,
    needsKey: false,
    request: (base, { query }) => ({
      url: withQuery(new URL('search', base.endsWith('/') ? base : `${base}/`).href, { q: query, format: 'json' }),
      method: 'GET',
      headers: { accept: 'application/json' },
    }),
    read: async (text) => readJson(text, ({ results }) => results, 'content'),
  },
  tavily: {
    usualUrl: 'https://api.tavily.com/search',
    needsKey: true,
    request: (base, { query, count, key }) => ({
      url: new URL(base),
      method: 'POST',
      headers: { accept: 'application/json', 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({ query, max_results: count }),
    }),
    read: async (text) => readJson(text, ({ results }) => results, 'content'),
  },
}
