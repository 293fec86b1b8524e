import { AppError } from '../contract/app-error.ts'
import type { Principal } from '../contract/principal.ts'
import { isoTime } from '../kernel/clock.ts'
import type { Catalog } from '../tools/runtime/catalog.ts'
import type { ToolAnswer, ToolCaller, ToolHost } from '../tools/runtime/tool-host.ts'
import type { Authenticate } from './authenticate.ts'
import type { CallsUnderWay } from './calls-under-way.ts'
import { lastEventId, type StreamedEvent, streamEvents } from './event-stream.ts'
import { readJsonBody } from './read-json-body.ts'
import { type RestRequest, type RestRow, restRows, streamRows } from './rest-table.ts'
import type { Exchange, PatternRoute } from './route-table.ts'
import { sendError, sendJson } from './send.ts'
import { failureToHttp } from './to-http-error.ts'
import { warningHeader } from './tool-routes.ts'

/** What becomes of runs, as it happens, for as long as the viewer may call. Whoever asks has shown that the run may be seen. */
export type RunFeed = Readonly<{
  open(
    principal: Principal,
    id: string,
    options: Readonly<{ fromSequence: number; follow: boolean; signal: AbortSignal }>,
  ): Promise<Readonly<{ subject: RunSubject; events: AsyncIterable<FeedEvent> }> | undefined>
}>
export type RunSubject = Readonly<{ id: string; name: string }>
export type FeedEvent = Readonly<{
  sequence: number
  type: string
  payload: unknown
  state: string | null
  iteration: number | null
  atMs: number
}>

export type RestRoutesDeps = Readonly<{
  host: ToolHost
  catalog: Catalog
  calls: CallsUnderWay
  authenticate: Authenticate
  runs(): Promise<RunFeed | undefined>
  bodyBytesMax: number
}>

export function createRestRoutes(deps: RestRoutesDeps): readonly PatternRoute[] {
  const isThere = (tool: string): boolean => deps.catalog.find(tool) !== undefined
  const rows = restRows.filter(({ tool, tools }) => (tools ?? [tool as string]).every(isThere))
  const streams = streamRows.filter(({ tool }) => isThere(tool))
  return [
    ...rows.map((row): PatternRoute => ({ method: row.method, path: row.path, serve: createServe(deps, row) })),
    ...streams.map(
      (row): PatternRoute => ({
        method: 'GET',
        path: row.path,
        serve: (exchange) => serveStream(deps, row, exchange),
      }),
    ),
  ]
}

function createServe(deps: RestRoutesDeps, row: RestRow): PatternRoute['serve'] {
  return (exchange) =>
    deps.calls.serve(exchange, async (signal, admit) => {
      const { req, res } = exchange
      const principal = await deps.authenticate(req)
      admit(principal)
      const request = await requestOf(deps, row, exchange)
      const tool = typeof row.tool === 'string' ? row.tool : row.tool(request)
      const answer = await deps.host.call(restCaller(principal), tool, given(row.args(request)), { signal })
      if (answer.failure !== undefined) sendError(req, res, failureToHttp(answer.failure))
      else sendAnswer(exchange, row, answer)
    })
}

async function requestOf(
  { bodyBytesMax }: RestRoutesDeps,
  { method }: RestRow,
  exchange: Exchange,
): Promise<RestRequest> {
  const body = method === 'POST' || method === 'PATCH' ? await readJsonBody(exchange.req, bodyBytesMax) : {}
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new AppError('ERR_INVALID_INPUT', 'The body must be an object.', { field: 'body', constraint: 'object' })
  }
  return { params: exchange.params, query: queryOf(exchange.url), body: body as Record<string, unknown> }
}

/** What was left out must not look like a field that is there. */
const given = (args: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(args).filter(([, value]) => value !== undefined))

/** What a tool tells as an answer, such as that there is one of that name already, is a conflict to HTTP. */
function sendAnswer({ res }: Exchange, row: RestRow, answer: ToolAnswer): void {
  const headers = warningHeader(answer)
  if (row.shape === undefined && row.isConflict === undefined) {
    sendJson(res, row.status ?? 200, answer.json, headers)
    return
  }
  const value = JSON.parse(answer.json) as Record<string, unknown>
  if (row.isConflict?.(value) === true) {
    sendJson(res, 409, answer.json, headers)
    return
  }
  const total = typeof value['total'] === 'number' ? { 'x-total-count': String(value['total']) } : {}
  const json = row.shape === undefined ? answer.json : JSON.stringify(row.shape(value) ?? null)
  sendJson(res, row.status ?? 200, json, { ...headers, ...total })
}

type StreamRow = (typeof streamRows)[number]

async function serveStream(deps: RestRoutesDeps, row: StreamRow, exchange: Exchange): Promise<void> {
  const { req, res, params, url } = exchange
  await deps.calls.serve(
    exchange,
    async (signal, admit) => {
      const principal = await deps.authenticate(req)
      admit(principal)
      const query = queryOf(url)
      const fromSequence = lastEventId(req, query)
      const id = params['id']!
      const answer = await deps.host.call(restCaller(principal), row.tool, { execution_id: id, limit: 1 }, { signal })
      if (answer.failure !== undefined) {
        sendError(req, res, failureToHttp(answer.failure))
        return
      }
      const follow = query.get('follow') !== 'false'
      const opened = await (await deps.runs())?.open(principal, id, { fromSequence, follow, signal })
      if (opened === undefined) throw new AppError('ERR_NOT_FOUND', 'There is no such run any more.')
      await streamEvents(res, rowsOf(row, id, opened.subject, opened.events), {
        signal,
        isStillWelcome: async () => void (await deps.authenticate(req)),
      })
    },
    undefined,
    'stream',
  )
}

async function* rowsOf(
  { rows }: StreamRow,
  runId: string,
  subject: RunSubject,
  events: AsyncIterable<FeedEvent>,
): AsyncGenerator<StreamedEvent> {
  const row = rows === 'execution' ? executionRow : workflowRow
  for await (const event of events) yield { id: event.sequence, data: row(runId, subject, event) }
}

const executionRow = (runId: string, subject: RunSubject, event: FeedEvent) => ({
  sequence: event.sequence,
  event_type: event.type,
  category: categoryOf(event.type),
  timestamp: isoTime(event.atMs),
  execution_id: runId,
  agent_id: subject.id,
  iteration: event.iteration,
  message: messageOf(event),
  details: event.payload,
})

const workflowRow = (runId: string, subject: RunSubject, event: FeedEvent) => ({
  sequence: event.sequence,
  execution_id: runId,
  workflow_id: subject.id,
  workflow_name: subject.name,
  event_type: event.type,
  message: messageOf(event),
  state_name: event.state,
  iteration_number: event.iteration,
  timestamp: isoTime(event.atMs),
  details: event.payload,
})

function categoryOf(type: string): string {
  if (/^(workflow|subworkflow|intent)_/.test(type)) return 'workflow'
  if (/^tool_/.test(type)) return 'mcp'
  return /^(file|directory|path|filesystem|volume)_/.test(type) ? 'storage' : 'execution'
}

/** `iteration_started` in the second try is "Iteration started (iteration 2)". */
function messageOf({ type, state, iteration }: FeedEvent): string {
  const words = type.replaceAll('_', ' ')
  const place = [state, iteration === null ? null : `iteration ${iteration}`].filter((part) => part !== null)
  return `${words[0]!.toUpperCase()}${words.slice(1)}${place.length === 0 ? '' : ` (${place.join(', ')})`}`
}

const restCaller = (principal: Principal): ToolCaller => ({
  principal,
  door: 'rest',
  exposure: 'full',
  safeNames: false,
})

const queryOf = (url: string): URLSearchParams => {
  const start = url.indexOf('?')
  return new URLSearchParams(start === -1 ? '' : url.slice(start + 1))
}
