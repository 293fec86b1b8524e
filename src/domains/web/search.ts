import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { pause } from '../../kernel/pause.ts'
import { withTimeout } from '../../kernel/with-timeout.ts'
import { decodeBody, parseMediaType } from './decode-body.ts'
import { type FetchDeps, webFailed } from './fetch.ts'
import type { SearchResult, WebResponse } from './ports.ts'
import { type EngineRequest, type SearchSettings, searchEngines } from './search-engines.ts'

export type SearchDeps = FetchDeps & Readonly<{ settings: SearchSettings }>
type SearchInput = Readonly<{ query: string; max_results: number }>

const TRIES = 3
const FIRST_PAUSE_MS = 250
const PAUSE_MS_MAX = 5_000

export function createSearch({ client, pages, bytesMax, userAgent, requireHost, settings }: SearchDeps) {
  const name = settings.engine
  const engine = searchEngines[name]

  return async (call: Call, input: SearchInput) => {
    const query = input.query.trim()
    if (query === '') {
      throw new AppError('ERR_INVALID_INPUT', "'query' is empty. Say what to search for.", { field: 'query' })
    }
    const count = Math.min(input.max_results, limits.webResultsMax)
    if (count < input.max_results) call.warn(`At most ${limits.webResultsMax} results are returned.`)
    const base = settings.url ?? engine.usualUrl
    if (base === undefined) throw notConfigured('web.search_url')
    const key = settings.key()
    if (engine.needsKey && key === undefined) throw notConfigured('web.search_key')
    const request = engine.request(base, { query, count, key: key ?? '' })
    requireHost(call, 'web.search', request.url.hostname)
    const results = (await readResults(call, await ask(call, request))).slice(0, count)
    return { result: asText(results), query, engine: name, result_count: results.length, results }
  }

  /** Retries if the engine is busy or fails, with growing pauses. */
  async function ask(call: Call, request: EngineRequest): Promise<WebResponse> {
    const headers = { ...request.headers, 'user-agent': userAgent }
    for (let tried = 1; ; tried++) {
      const signal = withTimeout(call.signal, limits.webSearchMs)
      // The operator's search address may be private; the default address of an engine may not.
      const response = await client
        .send({ ...request, headers, bytesMax, signal, trusted: settings.url !== undefined })
        .catch((error: unknown) => {
          if (call.signal.aborted) throw new AppError('ERR_CANCELLED', 'The call was cancelled.')
          if (tried >= TRIES || !isPassing(error)) throw error
          return undefined
        })
      const isBusy = response === undefined || response.status === 429 || response.status >= 500
      if (!isBusy || tried >= TRIES) return requireGood(response!)
      const retryAfterMs = Number(response?.retryAfter ?? Number.NaN) * 1000
      const pauseMs = Number.isNaN(retryAfterMs)
        ? FIRST_PAUSE_MS * 2 ** (tried - 1)
        : Math.min(retryAfterMs, PAUSE_MS_MAX)
      await pause(pauseMs, call.signal).catch(() => {
        throw new AppError('ERR_CANCELLED', 'The call was cancelled.')
      })
    }
  }

  function requireGood(response: WebResponse): WebResponse {
    const { status } = response
    if (status >= 200 && status < 300) return response
    const hint = status === 401 || status === 403 ? '; check web.search_key' : ''
    throw webFailed(`The search engine ${name} answered with the status ${status}${hint}`, {
      http_status: status,
      engine: name,
    })
  }

  async function readResults(call: Call, { body, contentType }: WebResponse): Promise<readonly SearchResult[]> {
    let results: readonly SearchResult[] | undefined
    try {
      results = await engine.read(decodeBody(body, parseMediaType(contentType)) ?? '', pages, call.signal)
    } catch (error) {
      if (call.signal.aborted) throw new AppError('ERR_CANCELLED', 'The call was cancelled.')
      if (!(error instanceof SyntaxError)) throw error
      throw webFailed(`The search engine ${name} returned an answer that cannot be read`, { engine: name })
    }
    if (results !== undefined) return results
    throw webFailed(
      `The search engine ${name} refuses automated searches. Wait a while, or ask the operator to set another web.search_engine`,
      {
        engine: name,
      },
    )
  }
}

const isPassing = (error: unknown): boolean =>
  error instanceof AppError && (error.code === 'ERR_WEB_FAILED' || error.code === 'ERR_TIMED_OUT')

const notConfigured = (field: string): AppError =>
  new AppError(
    'ERR_FEATURE_DISABLED',
    `The search engine needs ${field} in the configuration. Ask the operator to set it.`,
    {
      field,
    },
  )

const asText = (results: readonly SearchResult[]): string =>
  results.length === 0
    ? 'No results.'
    : results
        .map(({ title, url, snippet }, at) => `${at + 1}. ${title}\n   ${url}\n   ${snippet}`.trimEnd())
        .join('\n\n')
