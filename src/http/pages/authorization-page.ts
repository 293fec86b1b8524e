import type { IncomingMessage } from 'node:http'
import { AppError } from '../../contract/app-error.ts'
import { identityOf, type Principal } from '../../contract/principal.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Random } from '../../kernel/random.ts'
import type { InFlightCalls } from '../../tools/runtime/in-flight-calls.ts'
import type { ToolHost } from '../../tools/runtime/tool-host.ts'
import type { Authenticate } from '../authenticate.ts'
import type { Exchange, PatternRoute } from '../route-table.ts'
import { asPage } from './as-page.ts'
import { html } from './html.ts'
import { noticePage, type Page, sendPage } from './page.ts'
import { whileInFlight } from './while-in-flight.ts'

/** Finds what a link asks a person to allow, through the domain. */
export type AuthorizationGate = Readonly<{
  open(
    token: string,
    nowMs: number,
  ): Promise<Readonly<{ title: string; principal: Principal; url: string }> | undefined>
}>

export type AuthorizationPageDeps = Readonly<{
  authorizations(): Promise<AuthorizationGate | undefined>
  host: Pick<ToolHost, 'call'>
  inFlight: Pick<InFlightCalls, 'begin'>
  /** Absent if nobody can sign in. */
  authenticate?: Authenticate
  originOf?: (req: IncomingMessage) => string
  clock: Clock
  logger: Logger
  random: Random
}>

const TOKEN = /^[\w-]{20,100}$/
const COOKIE = 'castellan.mcp_authorization'
const COOKIE_SCOPE = 'Path=/mcp-callback; HttpOnly; SameSite=Lax'
const PARAMETER_CHARS_MAX = 8_192

/**
 * Where a person starts the authorisation of an MCP server, and where the authorisation server sends the person back.
 *
 * 1. The answer counts only in the browser that opened the page of the link: a cookie of that page has the state. So a caller
 *    that sends a person straight to an authorisation server gains nothing.
 * 2. A link that a user requested works only for that user, signed in here.
 */
export function createAuthorizationPages(deps: AuthorizationPageDeps): readonly PatternRoute[] {
  const find = async (token: string) =>
    TOKEN.test(token) ? await (await deps.authorizations())?.open(token, deps.clock.nowMs()) : undefined

  async function show({ req, res, params }: Exchange): Promise<void> {
    const token = params['token']!
    const found = await find(token)
    if (found === undefined) return sendPage(res, 404, expiredLink)
    const { principal, title, url } = found
    if (principal.kind === 'user') {
      const person = await signedIn(deps, req)
      if (person === undefined || identityOf(person) !== identityOf(principal)) {
        return sendPage(res, 403, signInFirst(principal.actor))
      }
    }
    const secure = deps.originOf?.(req).startsWith('https:') ? '; Secure' : ''
    const cookie = `${COOKIE}=${token}; ${COOKIE_SCOPE}; Max-Age=3600${secure}`
    sendPage(res, 200, askPage(title, principal.actor, url), { 'set-cookie': cookie })
  }

  async function finish({ req, res, url }: Exchange): Promise<void> {
    const query = new URL(url, 'http://localhost').searchParams
    const state = query.get('state') ?? ''
    const found = await find(state)
    if (found === undefined || !cookiesOf(req).includes(`${COOKIE}=${state}`)) return sendPage(res, 404, expiredLink)
    const args: Record<string, string> = { state }
    for (const name of ['code', 'error', 'iss']) {
      const value = query.get(name)
      if (value !== null && value !== '') args[name] = value.slice(0, PARAMETER_CHARS_MAX)
    }
    const caller = { principal: found.principal, transport: 'http', exposure: 'full', safeNames: false } as const
    const answer = await whileInFlight(deps.inFlight, found.principal, (signal) =>
      deps.host.call(caller, 'finish_mcp_authorization', args, { signal }),
    )
    const cleared = { 'set-cookie': `${COOKIE}=; ${COOKIE_SCOPE}; Max-Age=0` }
    if (answer.failure !== undefined) {
      return sendPage(res, 400, noticePage('This did not work', answer.failure.message), cleared)
    }
    const { message } = answer.output as { message: string }
    sendPage(res, 200, noticePage('Allowed', `${message} You can close this page.`), cleared)
  }

  return [
    { method: 'GET', path: '/mcp-authorize/{token}', serve: asPage(deps, show) },
    { method: 'GET', path: '/mcp-callback', serve: asPage(deps, finish) },
  ]
}

/** Undefined for an unknown caller. */
export async function signedIn(
  { authenticate }: Pick<AuthorizationPageDeps, 'authenticate'>,
  req: IncomingMessage,
): Promise<Principal | undefined> {
  try {
    return await authenticate?.(req)
  } catch (error) {
    if (error instanceof AppError && error.code === 'ERR_UNAUTHENTICATED') return undefined
    throw error
  }
}

/** For pages of people who sign in here. */
export type SigningInDeps = Omit<AuthorizationPageDeps, 'authorizations'> &
  Required<Pick<AuthorizationPageDeps, 'authenticate' | 'originOf'>>

/** The permanent address that lists give for a deployment; it requests a link when a person presses its button. */
export function createAuthorizeForm(deps: SigningInDeps): readonly PatternRoute[] {
  async function callerOf({ req, res }: Exchange): Promise<Principal | undefined> {
    const principal = await signedIn(deps, req)
    if (principal === undefined) sendPage(res, 401, signInFirst(undefined))
    return principal
  }

  async function show(exchange: Exchange): Promise<void> {
    if ((await callerOf(exchange)) !== undefined) sendPage(exchange.res, 200, formPage)
  }

  async function submit(exchange: Exchange): Promise<void> {
    const { req, res, params } = exchange
    const principal = await callerOf(exchange)
    if (principal === undefined) return
    req.resume()
    const origin = deps.originOf(req)
    const caller = { principal, transport: 'http', exposure: 'full', safeNames: false, origin } as const
    const args = { serverId: params['id']!.slice(0, 200) }
    const answer = await whileInFlight(deps.inFlight, principal, (signal) =>
      deps.host.call(caller, 'authorize_mcp_server', args, { signal }),
    )
    if (answer.failure !== undefined) {
      return sendPage(res, 400, noticePage('This did not work', answer.failure.message))
    }
    const { link } = answer.output as { link: { url: string } }
    res.writeHead(303, { location: link.url, 'cache-control': 'no-store' }).end()
  }

  const path = '/mcp-servers/{id}/authorize'
  return [
    { method: 'GET', path, serve: asPage(deps, show) },
    { method: 'POST', path, serve: asPage(deps, submit) },
  ]
}

const cookiesOf = (req: IncomingMessage): readonly string[] =>
  (req.headers.cookie ?? '').split(';').map((one) => one.trim())

const expiredLink = noticePage(
  'This link cannot be used',
  'It was used, has expired, does not exist, or was opened in another browser. Ask for a new one where you got it.',
)

export const signInFirst = (actor: string | undefined): Page => ({
  title: 'Sign in first',
  body: html`<p>${
    actor === undefined ? 'You are not signed in.' : `This link is for ${actor}.`
  } <a href="/sign-in">Sign in</a>, and open this address again.</p>`,
})

const askPage = (server: string, actor: string, url: string): Page => ({
  title: `Connect ${server}`,
  body: html`<p>You are about to sign in at <strong>${new URL(url).host}</strong>, and to let <strong>${actor}</strong> use ${server} there on your
behalf, through this server.</p>
<p>Continue only if you or your agent asked for this.</p>
<p><a class="button" href="${url}" rel="noreferrer">Continue to ${new URL(url).host}</a></p>`,
})

const formPage: Page = {
  title: 'Connect an MCP server',
  body: html`<p>You will be sent to the server's own page to sign in and allow its use.</p><form method="post"><button>Continue</button></form>`,
}
