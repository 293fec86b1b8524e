import type { IncomingMessage, ServerResponse } from 'node:http'
import { AppError } from '../contract/app-error.ts'
import type { ErrorCode } from '../contract/error-codes.ts'
import type { Logger } from '../kernel/logger.ts'
import { nearestName } from '../kernel/nearest-name.ts'
import type { Random } from '../kernel/random.ts'
import type { Catalog } from '../tools/runtime/catalog.ts'
import { type Authenticate, isOurCredential } from './authenticate.ts'
import { answerOptions } from './cors.ts'
import { sendJson, sendText } from './exchange/send-text.ts'
import { parseAuthority } from './host-check.ts'
import { isForBrowser, sendRefusal } from './pages/refusal-page.ts'
import { relayExposure, relayRequiresKeys } from './peer-address.ts'
import type { PeopleGate } from './people-gate.ts'
import type { RequestClients } from './request-client.ts'
import type { ViewOfUrl } from './request-view.ts'
import { createRouteTable, type Exchange, type FoundRoute, type PatternRoute, type Route } from './route-table.ts'
import { sendError } from './send.ts'
import { toHttpError } from './to-http-error.ts'
import type { ToolRoutes } from './tool-routes.ts'
import { WELCOME_POLICY, welcomeHtml, welcomeText } from './welcome-page.ts'

/** Everything besides `/mcp`: few enough to be a table. */
export type HealthFacts = Readonly<{ status: 'ok' | 'degraded'; mode: string; db: Readonly<{ open: boolean }> }>

/** What is below `/v1/`, besides our own addresses. */
export type ModelProviders = Readonly<{
  /** The names that come with the program, and all. */
  public: readonly string[]
  all: readonly string[]
  /** A refusal in the form that most programs for models read. */
  refusalText(
    refusal: Readonly<{ status: number; code: ErrorCode; message: string; details: AppError['details'] }>,
  ): string
}>

type RoutesDeps = Readonly<{
  tools: ToolRoutes
  /** Routes with named parts. */
  patterns: readonly PatternRoute[]
  catalog: Catalog
  health(): Promise<HealthFacts>
  authenticate: Authenticate
  viewOfUrl: ViewOfUrl
  clients: RequestClients
  people(): Promise<PeopleGate | undefined>
  providers: ModelProviders | undefined
  requireKeys: boolean
  version: string
  logger: Logger
  random: Random
}>

const TOOL_PREFIX = '/v1/tools/'
const READ = ['GET', 'HEAD', 'OPTIONS']
const noParams = {}

export function createRoutes(deps: RoutesDeps): Readonly<{
  /** Throws or answers; later failures are answered too. */
  handle(req: IncomingMessage, res: ServerResponse, url: string): void
}> {
  const { tools } = deps
  const table = createRouteTable(deps.patterns)
  const ownWords = new Set(['tools', ...deps.patterns.flatMap(({ path }) => /^\/v1\/([^/]+)/.exec(path)?.[1] ?? [])])
  let openApi: string | undefined

  const asCaller = async ({ req, res, url }: Exchange) => ({
    req,
    res,
    principal: await deps.authenticate(req),
    view: deps.viewOfUrl(url, relayExposure(req.socket)),
    origin: deps.clients.originOf(req),
  })

  // All but the last need no key: they reveal no user data.
  const exact: ReadonlyMap<string, Route> = new Map<string, Route>([
    ['/', { methods: READ, serve: (exchange) => welcome(exchange, deps) }],
    ['/health', { methods: READ, serve: ({ res }) => health(res, deps) }],
    ['/health/live', { methods: READ, serve: ({ res }) => live(res, deps) }],
    ['/health/ready', { methods: READ, serve: ({ res }) => ready(res, deps) }],
    [
      '/openapi.json',
      {
        methods: READ,
        async serve({ res }) {
          // Rarely requested, so a start does not wait for it.
          const { buildOpenApi } = await import('./openapi.ts')
          openApi ??= JSON.stringify(buildOpenApi(deps.catalog, deps.version))
          sendJson(res, 200, openApi)
        },
      },
    ],
    ['/v1/tools', { methods: READ, serve: async (exchange) => tools.list(await asCaller(exchange)) }],
  ])
  const callTool: Route = {
    methods: ['POST', 'OPTIONS'],
    serve: async (exchange) => tools.call(await asCaller(exchange), exchange.path.slice(TOOL_PREFIX.length)),
  }

  function routeOf(path: string): FoundRoute | undefined {
    const route = exact.get(path)
    if (route !== undefined) return { ...route, params: noParams }
    const isCall = path.length > TOOL_PREFIX.length && path.startsWith(TOOL_PREFIX)
    if (isCall && !path.includes('/', TOOL_PREFIX.length)) return { ...callTool, params: noParams }
    return table.find(path)
  }

  /** The names of configured providers are told only to callers who are known. */
  async function nothingBelow(req: IncomingMessage, word: string, { public: usual, all }: ModelProviders) {
    const isKnown = await (async () => deps.authenticate(req, showsOurKey(req) ? undefined : null))().then(
      () => true,
      () => false,
    )
    const providers = [...(isKnown ? all : usual)].sort()
    const others = isKnown ? '' : ' or a name in models.providers'
    const near = nearestName(word, providers)
    const hint = near === undefined ? '' : ` Did you mean /v1/${near}/…?`
    const where = ` Models of providers are at /v1/PROVIDER/…: ${providers.join(', ')}${others}.${hint}`
    return nothingHere(where, { providers })
  }

  function sendNothing(req: IncomingMessage, res: ServerResponse, nothing: AppError, { refusalText }: ModelProviders) {
    if (isForBrowser(req)) return sendRefusal(req, res, nothing, deps)
    const refusal = toHttpError(nothing, deps)
    const { code, message, details } = nothing
    sendError(req, res, { ...refusal, json: refusalText({ status: refusal.status, code, message, details }) })
  }

  /** Such an address is probably meant for a model. */
  const wordOfProvider = (path: string): string | undefined => {
    const word = /^\/v1\/([^/]+)\/./.exec(path)?.[1]
    return word !== undefined && !ownWords.has(word) ? word : undefined
  }

  return {
    handle(req, res, url) {
      const query = url.indexOf('?')
      const path = query === -1 ? url : url.slice(0, query)
      const route = routeOf(path)
      if (route === undefined) {
        const { providers } = deps
        const word = wordOfProvider(path)
        if (providers === undefined || word === undefined) throw nothingHere()
        nothingBelow(req, word, providers)
          .then((nothing) => sendNothing(req, res, nothing, providers))
          .catch((error: unknown) => sendRefusal(req, res, error, deps))
        return
      }
      const { method = 'GET' } = req
      if (!route.methods.includes(method)) {
        const allow = route.methods.join(', ')
        res.setHeader('allow', allow)
        throw new AppError('ERR_METHOD_NOT_ALLOWED', `This address does not accept ${method}; use ${allow}.`)
      }
      if (method === 'OPTIONS') {
        answerOptions(req, res, route.methods)
        return
      }
      const pending = route.serve({ req, res, path, url, params: route.params })
      pending?.catch((error: unknown) => sendRefusal(req, res, error, deps))
    },
  }
}

/** At the address of a model any other key is one for the provider, and does not say who the caller is. */
const showsOurKey = ({ headers }: IncomingMessage): boolean =>
  [
    headers.authorization?.replace(/^Bearer +/i, ''),
    headers['x-api-key'],
    headers['x-goog-api-key'],
    headers['api-key'],
    headers['x-castellan-key'],
  ]
    .flatMap((value) => value ?? [])
    .some(isOurCredential)

const nothingHere = (more = '', details: Readonly<Record<string, unknown>> = {}): AppError =>
  new AppError('ERR_ROUTE_NOT_FOUND', `There is nothing at this address. GET / lists the addresses.${more}`, details)

/** 503 only if no call that needs the state can succeed: a degraded server must not be taken out of service. */
async function health(res: ServerResponse, deps: RoutesDeps): Promise<void> {
  const { status, mode, isUsable } = await readHealth(deps)
  sendJson(res, isUsable ? 200 : 503, JSON.stringify({ status, version: deps.version, mode }))
}

/** Liveness probe: checks nothing that a restart would not fix. */
const live = (res: ServerResponse, { version }: RoutesDeps): void =>
  sendJson(res, 200, JSON.stringify({ status: 'ok', version }))

/** Readiness probe. */
async function ready(res: ServerResponse, deps: RoutesDeps): Promise<void> {
  const { status, mode, isUsable } = await readHealth(deps)
  const word = isUsable ? (status === 'ok' ? 'ready' : status) : 'unavailable'
  sendJson(res, isUsable ? 200 : 503, JSON.stringify({ status: word, version: deps.version, mode }))
}

async function readHealth({ health, logger }: RoutesDeps) {
  const facts = await health().catch((error: unknown): HealthFacts => {
    logger.warn('the health of the server could not be determined', { error: String(error) })
    return { status: 'degraded', mode: 'unknown', db: { open: false } }
  })
  return { ...facts, isUsable: facts.db.open || facts.mode === 'MINIMAL' }
}

async function welcome({ req, res }: Exchange, { version, requireKeys, clients, people }: RoutesDeps): Promise<void> {
  const isNamed = parseAuthority(req.headers.host ?? '') !== undefined
  const origin = isNamed ? clients.originOf(req).toLowerCase() : ''
  // A store that does not open is told elsewhere.
  const hasPeople =
    (await people()
      .then((gate) => gate?.hasPeople())
      .catch(() => false)) ?? false
  const facts = { origin, version, needsKey: requireKeys || relayRequiresKeys(req.socket), hasPeople }
  if (isForBrowser(req)) {
    const headers = { 'content-security-policy': WELCOME_POLICY, vary: 'Accept, Origin' }
    sendText(res, 200, 'text/html; charset=utf-8', welcomeHtml(facts), headers)
  } else sendText(res, 200, 'text/plain; charset=utf-8', welcomeText(facts), { vary: 'Accept, Origin' })
}
