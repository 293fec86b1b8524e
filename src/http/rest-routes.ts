import { AppError } from '../contract/app-error.ts'
import type { Principal } from '../contract/principal.ts'
import { isoTime } from '../kernel/clock.ts'
import type { Catalog } from '../tools/runtime/catalog.ts'
import type { ToolAnswer, ToolCaller, ToolFailure, ToolHost } from '../tools/runtime/tool-host.ts'
import type { Authenticate } from './authenticate.ts'
import {
  lastEventId,
  notOfThisStream,
  type StreamedEvent,
  sequenceOf,
  streamEvents,
  streamHeaders,
} from './event-stream.ts'
import { sendJson } from './exchange/send-text.ts'
import { readJsonBody } from './read-json-body.ts'
import { ReadQuery } from './read-query.ts'
import { flagOf, type RestRequest } from './rest-arguments.ts'
import { type RestRow, restRows, streamRows } from './rest-table.ts'
import type { Exchange, PatternRoute } from './route-table.ts'
import { sendError, sendFile } from './send.ts'
import type { ServeCall } from './serve-call.ts'
import { failureToHttp, type HttpError } from './to-http-error.ts'
import { warningHeader } from './tool-routes.ts'

/** Live events of runs, while the viewer may call. The caller has shown that the run, or the agent, may be seen. */
export type RunFeed = Readonly<{
  open(
    principal: Principal,
    id: string,
    options: Readonly<{ fromSequence: number; follow: boolean; verbose: boolean; signal: AbortSignal }>,
  ): Promise<Readonly<{ subject: RunSubject; events: AsyncIterable<FeedEvent> }> | undefined>
  /** The events of all executions of an agent that the viewer may see; undefined if `from` is not a cursor of such a feed. */
  openAgent(
    viewer: Principal,
    agentId: string,
    options: Readonly<{ from: string | undefined; follow: boolean; verbose: boolean; signal: AbortSignal }>,
  ): Promise<AsyncIterable<AgentFeedEvent> | undefined>
}>
type AgentFeedEvent = Readonly<{ runId: string; cursor: string; event: FeedEvent }>
type RunSubject = Readonly<{ id: string; name: string }>
export type FeedEvent = Readonly<{
  sequence: number
  type: string
  payload: unknown
  state: string | null
  iteration: number | null
  atMs: number
}>

type RestRoutesDeps = Readonly<{
  host: ToolHost
  catalog: Catalog
  serveCall: ServeCall
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
    deps.serveCall(exchange, async (signal, admit) => {
      const { req, res } = exchange
      const principal = await deps.authenticate(req)
      admit(principal)
      const request = await requestOf(deps, row, exchange)
      const tool = typeof row.tool === 'string' ? row.tool : row.tool(request)
      const args = input(row.args(request))
      request.query.requireAllRead()
      const call = (name: string) => deps.host.call(restCaller(principal), name, args, { signal })
      const first = await call(tool)
      const other = first.failure === undefined ? undefined : row.instead?.(first.failure, request)
      const answer = other === undefined ? first : await call(other)
      if (answer.failure !== undefined) sendError(req, res, refusalOf(row, answer.failure))
      else sendAnswer(exchange, row, answer)
    })
}

function refusalOf(row: RestRow, failure: ToolFailure): HttpError {
  const error = failureToHttp(failure)
  return { ...error, status: row.failureStatus?.(failure) ?? error.status }
}

async function requestOf(
  { bodyBytesMax }: RestRoutesDeps,
  { method }: RestRow,
  exchange: Exchange,
): Promise<RestRequest & { query: ReadQuery }> {
  const body = method === 'POST' || method === 'PATCH' ? await readJsonBody(exchange.req, bodyBytesMax) : {}
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new AppError('ERR_INVALID_INPUT', 'The body must be a JSON object.', { field: 'body', constraint: 'object' })
  }
  return { params: exchange.params, query: new ReadQuery(exchange.url), body: body as Record<string, unknown> }
}

/** An omitted value must not look like a present field. */
const input = (args: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(args).filter(([, value]) => value !== undefined))

/** An answer that reports a conflict, such as a taken name, is a conflict to HTTP. */
function sendAnswer({ res }: Exchange, row: RestRow, answer: ToolAnswer): void {
  const headers = warningHeader(answer)
  if (row.file !== undefined) {
    sendFile(res, row.file(answer.output as Record<string, unknown>))
    return
  }
  if (row.shape === undefined && row.isConflict === undefined) {
    sendJson(res, row.status ?? 200, answer.json, headers)
    return
  }
  const value = answer.output as Record<string, unknown>
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
  await deps.serveCall(
    exchange,
    async (signal, admit) => {
      const principal = await deps.authenticate(req)
      admit(principal)
      const query = new ReadQuery(url)
      const request = {
        last: lastEventId(req, query),
        follow: flagOf(query, 'follow', true),
        verbose: flagOf(query, 'verbose', false),
        signal,
      }
      query.requireAllRead()
      const args = { [row.rows === 'agent' ? 'agent_id' : 'execution_id']: params['id']!, limit: 1 }
      const answer = await deps.host.call(restCaller(principal), row.tool, args, { signal })
      if (answer.failure !== undefined) {
        sendError(req, res, failureToHttp(answer.failure))
        return
      }
      if (req.method === 'HEAD') {
        res.writeHead(200, streamHeaders).end()
        return
      }
      const feed = await deps.runs()
      if (feed === undefined) throw notFound()
      const events = await openEvents(feed, row, principal, answer.output as StreamSubject, request)
      await streamEvents(res, events, { signal, isStillWelcome: async () => void (await deps.authenticate(req)) })
    },
    undefined,
    'stream',
  )
}

type StreamSubject = Readonly<{ agent_id: string; execution_id: string }>
type StreamRequest = Readonly<{ last: string | undefined; follow: boolean; verbose: boolean; signal: AbortSignal }>

async function openEvents(
  feed: RunFeed,
  { rows }: StreamRow,
  principal: Principal,
  { agent_id: agentId, execution_id: runId }: StreamSubject,
  { last, ...request }: StreamRequest,
): Promise<AsyncIterable<StreamedEvent>> {
  if (rows === 'agent') {
    const events = await feed.openAgent(principal, agentId, { ...request, from: last })
    if (events === undefined) throw notOfThisStream('the id of an event')
    return agentRows(agentId, events)
  }
  const opened = await feed.open(principal, runId, { ...request, fromSequence: sequenceOf(last) })
  if (opened === undefined) throw notFound()
  return runRows(rows === 'execution' ? executionRow : workflowRow, runId, opened)
}

const notFound = (): AppError => new AppError('ERR_NOT_FOUND', 'This run no longer exists.')

async function* runRows(
  row: typeof executionRow | typeof workflowRow,
  runId: string,
  { subject, events }: Readonly<{ subject: RunSubject; events: AsyncIterable<FeedEvent> }>,
): AsyncGenerator<StreamedEvent> {
  for await (const event of events) yield { id: event.sequence, data: row(runId, subject, event) }
}

async function* agentRows(agentId: string, events: AsyncIterable<AgentFeedEvent>): AsyncGenerator<StreamedEvent> {
  for await (const { runId, cursor, event } of events) {
    yield { id: cursor, data: executionRow(runId, { id: agentId }, event) }
  }
}

const executionRow = (runId: string, subject: Pick<RunSubject, 'id'>, event: FeedEvent) => ({
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

/** `iteration_started` in the second attempt is "Iteration started (iteration 2)"; earlier events have none. */
function messageOf({ type, state, iteration }: FeedEvent): string {
  const words = type.replaceAll('_', ' ')
  const cursor = [state, iteration === null || iteration === 0 ? null : `iteration ${iteration}`].filter(
    (part) => part !== null,
  )
  return `${words[0]!.toUpperCase()}${words.slice(1)}${cursor.length === 0 ? '' : ` (${cursor.join(', ')})`}`
}

const restCaller = (principal: Principal): ToolCaller => ({
  principal,
  transport: 'rest',
  exposure: 'full',
  safeNames: false,
})
