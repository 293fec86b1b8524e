import type { ServerResponse } from 'node:http'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { Clock } from '../kernel/clock.ts'
import { createAddressLimit } from './address-limit.ts'
import { sendJson } from './exchange/send-text.ts'
import { isLoopbackHost } from './peer-address.ts'
import type { PeopleGate } from './people-gate.ts'
import { readBytes } from './read-json-body.ts'
import type { RequestClients } from './request-client.ts'
import type { Exchange, PatternRoute } from './route-table.ts'
import { signedInBy } from './signed-in.ts'
import { readWebBody, sendWebResponse, webHeaders } from './web-exchange.ts'

/**
 * The OAuth 2.1 authorisation server for clients: metadata of RFC 8414 and 9728, and the endpoints below `/auth/oauth2/`. Before
 * the library sees a request, we add what a client may omit: the resource, the scope, and that a loopback client is native.
 */
type OauthRoutesDeps = Readonly<{
  people(): Promise<PeopleGate | undefined>
  clients: RequestClients
  clock: Clock
}>

export const AUTH_PATH = '/auth'
const CLIENT_CREDENTIALS = 'client_credentials'
/**
 * The scope of a client that names none, and the only one in the metadata, because some clients request every scope that they find
 * there. The library's default is every scope that a client may ask for, and no program but the command line may have the other one.
 */
const DEFAULT_SCOPE = 'offline_access'
const RESOURCE_METADATA = '/.well-known/oauth-protected-resource'
const SERVER_METADATA = '/.well-known/oauth-authorization-server'
/** The endpoints that clients use; the library's others are unreachable. */
const ENDPOINTS = ['revoke', 'introspect'] as const

/** The number of resources in one request for which tokens are made possible. */
const RESOURCES_MAX = 4

/** The resource (RFC 8707) of a request: `/mcp`, or one gateway below it. */
export function resourceOf(origin: string, url: string): string {
  const path = url.split('?', 1)[0]!
  const gateway = /^\/mcp\/([^/]+)\/?$/.exec(path)?.[1]
  return `${origin}/mcp${gateway === undefined ? '' : `/${gateway}`}`
}

/** Where a client learns how to get a token for its request. */
export const resourceMetadataUrl = (origin: string, url: string): string =>
  `${origin}${RESOURCE_METADATA}${new URL(resourceOf(origin, url)).pathname}`

export function createOauthRoutes(deps: OauthRoutesDeps): readonly PatternRoute[] {
  const { clients } = deps
  const admit = createAddressLimit(deps.clock)

  async function gate(): Promise<PeopleGate> {
    const people = await deps.people()
    if (people !== undefined) return people
    throw new AppError('ERR_ROUTE_NOT_FOUND', 'There is nothing at this address. GET / lists the addresses.')
  }

  async function serverMetadata({ req, res }: Exchange): Promise<void> {
    admit(clients.addressOf(req))
    const metadata = await (await (await gate()).accounts()).metadata(clients.originOf(req))
    const grants = [...((metadata['grant_types_supported'] as string[] | undefined) ?? []), CLIENT_CREDENTIALS]
    const scopes_supported = [DEFAULT_SCOPE]
    sendJson(res, 200, JSON.stringify({ ...metadata, grant_types_supported: [...new Set(grants)], scopes_supported }))
  }

  async function resourceMetadata({ req, res, params }: Exchange): Promise<void> {
    await gate()
    const origin = clients.originOf(req)
    const path = `/${params['path'] ?? 'mcp'}`
    if (path !== '/mcp' && !/^\/mcp\/[^/]+$/.test(path)) {
      throw new AppError('ERR_ROUTE_NOT_FOUND', 'There is no protected resource at this address.')
    }
    const metadata = {
      resource: `${origin}${path}`,
      authorization_servers: [`${origin}${AUTH_PATH}`],
      bearer_methods_supported: ['header'],
      resource_name: 'Castellan',
    }
    sendJson(res, 200, JSON.stringify(metadata))
  }

  /** Clients have no session. A person has one only where they sign in or consent. */
  async function forward(
    exchange: Exchange,
    change?: (request: Request) => Promise<Request>,
    withSession = false,
    changeAnswer?: (response: Response) => Promise<Response>,
  ): Promise<void> {
    const { req, res, url } = exchange
    const people = await gate()
    const address = clients.addressOf(req)
    admit(address)
    const origin = clients.originOf(req)
    const body = await readWebBody(req, limits.oauthBodyBytesMax)
    const headers = webHeaders(req, address)
    if (!withSession || (await signedInBy(deps, people, req)) === undefined) headers.delete('cookie')
    const webRequest = new Request(`${origin}${url}`, {
      method: req.method!,
      headers,
      ...(body === undefined ? {} : { body: new Uint8Array(body) }),
    })
    const request = change === undefined ? webRequest : await change(webRequest)
    await answer(people, origin, request, res, changeAnswer)
  }

  async function answer(
    people: PeopleGate,
    origin: string,
    request: Request,
    res: ServerResponse,
    change?: (response: Response) => Promise<Response>,
  ): Promise<void> {
    const response = await (await people.accounts()).handle(origin, request)
    if (request.method === 'POST') people.principals.forget()
    await sendWebResponse(res, change === undefined ? response : await change(response))
  }

  /** Client credentials are ours; everything else is the library's. */
  async function token(exchange: Exchange): Promise<void> {
    const { req, res, url } = exchange
    const people = await gate()
    const origin = clients.originOf(req)
    const address = clients.addressOf(req)
    admit(address)
    const body = await readBytes(req, limits.oauthBodyBytesMax)
    const form = new URLSearchParams(body.toString('utf8'))
    if (form.get('grant_type') !== CLIENT_CREDENTIALS) {
      const headers = webHeaders(req, address)
      headers.delete('cookie')
      const init = { method: 'POST', headers, body: new Uint8Array(body) }
      await answer(people, origin, new Request(`${origin}${url}`, init), res)
      return
    }
    const { clientId, secret } = clientCredentials(req.headers.authorization, form)
    const credentials = { clientId, secret, resources: form.getAll('resource'), origin, nowMs: deps.clock.nowMs() }
    const issued = await people.issueClientToken(credentials)
    if ('error' in issued) {
      const status = issued.error === 'invalid_client' ? 401 : 400
      const refused = JSON.stringify({ error: issued.error, error_description: issued.description })
      sendJson(res, status, refused, status === 401 ? { 'www-authenticate': 'Basic realm="castellan"' } : {})
    } else {
      const { access_token, expires_in } = issued
      sendJson(res, 200, JSON.stringify({ access_token, token_type: 'Bearer', expires_in }))
    }
  }

  /** A terminal asks for its codes (RFC 8628). */
  async function deviceAuthorization(exchange: Exchange): Promise<void> {
    const { req, res, url } = exchange
    const people = await gate()
    const origin = clients.originOf(req)
    const address = clients.addressOf(req)
    admit(address)
    const form = new URLSearchParams((await readBytes(req, limits.oauthBodyBytesMax)).toString('utf8'))
    const resources = form.getAll('resource')
    const resource = resources.length === 0 ? [`${origin}/mcp`] : resources.slice(0, RESOURCES_MAX)
    if (resources.length > RESOURCES_MAX || !resource.every((named) => isOwnResource(origin, named))) {
      const error_description = `resource: name up to ${RESOURCES_MAX} addresses of this server, such as ${origin}/mcp.`
      sendJson(res, 400, JSON.stringify({ error: 'invalid_target', error_description }))
      return
    }
    const fields: Record<string, unknown> = { resource, scope: (form.get('scope') ?? '').trim() || DEFAULT_SCOPE }
    for (const name of ['client_id', 'client_secret']) if (form.has(name)) fields[name] = form.get(name)
    if (form.get('client_id')?.startsWith('https:')) await people.requireClientCapacity()
    for (const named of resource) await people.ensureResource(named)
    const headers = webHeaders(req, address)
    headers.delete('cookie')
    headers.set('content-type', 'application/json')
    const init = { method: 'POST', headers, body: JSON.stringify(fields) }
    await answer(people, origin, new Request(`${origin}${url}`, init), res)
  }

  async function authorize(exchange: Exchange): Promise<void> {
    const people = await gate()
    const origin = clients.originOf(exchange.req)
    const withResource = async (request: Request): Promise<Request> => {
      const url = new URL(request.url)
      // A client whose id is the address of a document is registered when it is first named.
      if (url.searchParams.get('client_id')?.startsWith('https:')) await people.requireClientCapacity()
      askAgainOnOwnMachine(url.searchParams)
      if ((url.searchParams.get('scope') ?? '').trim() === '') url.searchParams.set('scope', DEFAULT_SCOPE)
      if (!url.searchParams.has('resource')) url.searchParams.set('resource', `${origin}/mcp`)
      for (const resource of url.searchParams.getAll('resource').slice(0, RESOURCES_MAX)) {
        if (isOwnResource(origin, resource)) await people.ensureResource(resource)
      }
      return new Request(url, { headers: request.headers })
    }
    await forward(exchange, withResource, true)
  }

  async function register(exchange: Exchange): Promise<void> {
    let scope = DEFAULT_SCOPE
    const completed = async (request: Request): Promise<Request> => {
      const registration = withDefaults(await request.text())
      scope = registration.scope
      await (await gate()).requireClientCapacity()
      return new Request(request.url, { method: 'POST', headers: request.headers, body: registration.text })
    }
    // The library answers with every scope that a client could ask for, and clients then ask for all of them.
    const withScope = async (response: Response): Promise<Response> => {
      if (!response.ok) return response
      const { status, headers } = response
      return new Response(JSON.stringify({ ...((await response.json()) as object), scope }), { status, headers })
    }
    await forward(exchange, completed, false, withScope)
  }

  const wellKnown = (path: string): PatternRoute[] => [
    { method: 'GET', path, serve: serverMetadata },
    { method: 'GET', path: `${path}${AUTH_PATH}`, serve: serverMetadata },
    { method: 'GET', path: `${AUTH_PATH}${path}`, serve: serverMetadata },
  ]
  return [
    ...wellKnown(SERVER_METADATA),
    { method: 'GET', path: RESOURCE_METADATA, serve: resourceMetadata },
    { method: 'GET', path: `${RESOURCE_METADATA}/{path...}`, serve: resourceMetadata },
    { method: 'GET', path: `${AUTH_PATH}/oauth2/authorize`, serve: authorize },
    { method: 'POST', path: `${AUTH_PATH}/oauth2/register`, serve: register },
    { method: 'POST', path: `${AUTH_PATH}/oauth2/token`, serve: token },
    { method: 'POST', path: `${AUTH_PATH}/oauth2/device_authorization`, serve: deviceAuthorization },
    ...ENDPOINTS.flatMap((name): PatternRoute[] => [
      { method: 'POST', path: `${AUTH_PATH}/oauth2/${name}`, serve: (exchange) => forward(exchange) },
    ]),
  ]
}

/** By Basic authentication, percent-encoded as in a form (RFC 6749 2.3.1), or as fields of the form. */
function clientCredentials(
  authorization: string | undefined,
  form: URLSearchParams,
): Readonly<{ clientId: string; secret: string }> {
  const basic = /^Basic ([A-Za-z0-9+/=]+)$/i.exec(authorization ?? '')?.[1]
  if (basic === undefined) return { clientId: form.get('client_id') ?? '', secret: form.get('client_secret') ?? '' }
  const [clientId = '', secret = ''] = Buffer.from(basic, 'base64').toString('utf8').split(':').map(formDecoded)
  return { clientId, secret }
}

const formDecoded = (text: string): string => new URLSearchParams(`x=${text}`).get('x') ?? ''

const isOwnResource = (origin: string, resource: string): boolean =>
  resource === `${origin}/mcp` ||
  (resource.startsWith(`${origin}/mcp/`) && /^\/mcp\/[\w.~-]{1,128}$/.test(URL.parse(resource)?.pathname ?? ''))

/**
 * A registration with what a client may omit. A client with a redirect on its own machine is native (RFC 8252), even if it also has
 * a web page: editors register both. What is no object is left to the library.
 */
function withDefaults(text: string): Readonly<{ text: string; scope: string }> {
  let client: unknown
  try {
    client = JSON.parse(text)
  } catch {
    client = undefined
  }
  if (typeof client !== 'object' || client === null || Array.isArray(client)) return { text, scope: DEFAULT_SCOPE }
  const { application_type, redirect_uris, scope } = client as Readonly<Record<string, unknown>>
  const isNative = Array.isArray(redirect_uris) && redirect_uris.some(isOnOwnMachine)
  const registered = {
    ...client,
    ...(application_type === undefined && isNative && { application_type: 'native' }),
    ...((scope ?? '') === '' && { scope: DEFAULT_SCOPE }),
  }
  return { text: JSON.stringify(registered), scope: typeof scope === 'string' && scope !== '' ? scope : DEFAULT_SCOPE }
}

function isOnOwnMachine(uri: unknown): boolean {
  const parsed = typeof uri === 'string' ? URL.parse(uri) : null
  if (parsed === null) return false
  return parsed.protocol === 'http:' ? isLoopbackHost(parsed.hostname) : parsed.protocol !== 'https:'
}

/**
 * Any program on the person's machine can listen at a loopback address or claim a scheme, and name a client that the person allowed
 * before, so the person is asked each time (RFC 8252, 8.6).
 */
function askAgainOnOwnMachine(query: URLSearchParams): void {
  if (!isOnOwnMachine(query.get('redirect_uri'))) return
  const prompts = new Set((query.get('prompt') ?? '').split(' ').filter((prompt) => prompt !== '' && prompt !== 'none'))
  query.set('prompt', [...prompts.add('consent')].join(' '))
}
