import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Random } from '../../kernel/random.ts'
import { createAddressLimit } from '../address-limit.ts'
import { AUTH_PATH } from '../oauth-routes.ts'
import type { AskingClient, OpenInvitation, OwnSession, PeopleGate } from '../people-gate.ts'
import type { RequestClients } from '../request-client.ts'
import type { Exchange, PatternRoute } from '../route-table.ts'
import { signedInBy } from '../signed-in.ts'
import { toHttpError } from '../to-http-error.ts'
import { webHeaders } from '../web-exchange.ts'
import { reachOf, terminalText, visible } from './access-texts.ts'
import { asPage, withoutChallenge } from './as-page.ts'
import { createDeviceRoutes, DEVICE_PAGE } from './device-page.ts'
import { type Html, html } from './html.ts'
import { noticePage, type Page, problemPart, redirect, sendPage } from './page.ts'
import { allowsPasskeys, createPasskeyRoutes, passkeyList, passkeySignIn } from './passkey-routes.ts'
import { readForm } from './read-form.ts'

/**
 * The pages for people: sign in, accept an invitation, allow a client, and the account. Forms from other sites are refused
 * earlier (`host-check.ts`).
 */
export type PeoplePagesDeps = Readonly<{
  people(): Promise<PeopleGate | undefined>
  clients: RequestClients
  clock: Clock
  logger: Logger
  random: Random
}>

export function createPeoplePages(deps: PeoplePagesDeps): readonly PatternRoute[] {
  const { clients } = deps
  const admit = createAddressLimit(deps.clock)

  async function gate(): Promise<PeopleGate> {
    const people = await deps.people()
    if (people !== undefined) return people
    throw new AppError('ERR_ROUTE_NOT_FOUND', 'Accounts do not work in mode MINIMAL, which has no store.')
  }

  const fromOf = ({ req }: Exchange) => {
    const address = clients.addressOf(req)
    return { address, headers: webHeaders(req, address) }
  }

  const signedIn = async ({ req }: Exchange): Promise<Principal | undefined> => signedInBy(deps, await gate(), req)

  async function showSignIn(exchange: Exchange): Promise<void> {
    const { providers } = await gate()
    sendPage(exchange.res, 200, signInPage(clients.originOf(exchange.req), queryOf(exchange), providers))
  }

  async function startProvider(exchange: Exchange): Promise<void> {
    const { req, res, params } = exchange
    admit(clients.addressOf(req))
    const input = { provider: params['provider']!, returnTo: afterSignIn(queryOf(exchange)) }
    const accounts = await (await gate()).accounts()
    const { url, cookies } = await accounts.startProviderSignIn(clients.originOf(req), input, fromOf(exchange).headers)
    res.setHeader('set-cookie', [...cookies])
    redirect(exchange, url)
  }

  async function finishProvider(exchange: Exchange): Promise<void> {
    const { req, res, url, params } = exchange
    const { address, headers } = fromOf(exchange)
    const origin = clients.originOf(req)
    const input = { provider: params['provider']!, request: new Request(`${origin}${url}`, { headers }), address }
    const people = await gate()
    try {
      const { location, cookies } = await people.finishProviderSignIn(origin, input)
      res.setHeader('set-cookie', [...cookies])
      redirect(exchange, location)
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      const { status, headers: answered } = toHttpError(error, deps)
      const page = signInPage(origin, '', people.providers, { email: '', problem: error.message })
      sendPage(res, status, page, withoutChallenge(answered))
    }
  }

  async function signIn(exchange: Exchange): Promise<void> {
    const { req, res } = exchange
    const form = await readForm(req)
    const query = form.get('query') ?? ''
    const input = { email: form.get('email') ?? '', password: form.get('password') ?? '' }
    const people = await gate()
    const origin = clients.originOf(req)
    try {
      const cookies = await people.signIn(origin, input, fromOf(exchange))
      res.setHeader('set-cookie', [...cookies])
      redirect(exchange, afterSignIn(query))
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      const { status, headers } = toHttpError(error, deps)
      sendPage(
        res,
        status,
        signInPage(origin, query, people.providers, { email: input.email, problem: error.message }),
        withoutChallenge(headers),
      )
    }
  }

  async function showAccount(exchange: Exchange): Promise<void> {
    const principal = await signedIn(exchange)
    if (principal === undefined) redirect(exchange, '/sign-in')
    else {
      const origin = clients.originOf(exchange.req)
      const { passkeys } = await (await gate()).accounts()
      const known = await passkeys.list(origin, fromOf(exchange).headers)
      // A rule may refuse the list as it may refuse any call. A person can sign out all the same.
      const sessions = await (await gate()).listSessions(principal).catch((error: unknown) => {
        if (error instanceof AppError) return error
        throw error
      })
      sendPage(exchange.res, 200, accountPage(origin, principal, known, sessions))
    }
  }

  async function removePasskey(exchange: Exchange): Promise<void> {
    const form = await readForm(exchange.req)
    await (await gate()).removePasskey(clients.originOf(exchange.req), form.get('id') ?? '', fromOf(exchange))
    redirect(exchange, '/account')
  }

  async function endSession(exchange: Exchange): Promise<void> {
    const form = await readForm(exchange.req)
    const principal = await signedIn(exchange)
    if (principal !== undefined) await (await gate()).endSession(principal, form.get('id') ?? '')
    redirect(exchange, principal === undefined ? '/sign-in' : '/account')
  }

  async function signOut(exchange: Exchange): Promise<void> {
    const { req, res } = exchange
    const people = await gate()
    const cookies = await (await people.accounts()).signOut(clients.originOf(req), fromOf(exchange).headers)
    people.principals.forget()
    res.setHeader('set-cookie', [...cookies])
    redirect(exchange, '/sign-in')
  }

  async function showInvitation({ res, params }: Exchange): Promise<void> {
    const invitation = await (await gate()).findInvitation(params['token']!)
    if (invitation === undefined) sendPage(res, 404, expiredLink)
    else sendPage(res, 200, invitationPage(invitation))
  }

  async function acceptInvitation({ req, res, params }: Exchange): Promise<void> {
    const people = await gate()
    const token = params['token']!
    const invitation = await people.findInvitation(token)
    if (invitation === undefined) {
      sendPage(res, 404, expiredLink)
      return
    }
    const form = await readForm(req)
    const password = form.get('password') ?? ''
    const name = (form.get('name') ?? '').trim().slice(0, limits.personNameCharsMax)
    try {
      if (password !== form.get('again')) throw new AppError('ERR_INVALID_INPUT', 'The two passwords are not the same.')
      const email = await people.acceptInvitation(token, { name, password })
      sendPage(res, 200, {
        title: 'You are all set',
        body: html`<p>You can now sign in as ${email}.</p><p><a href="/sign-in">Sign in</a></p>`,
      })
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      sendPage(res, toHttpError(error, deps).status, invitationPage(invitation, error.message))
    }
  }

  async function showConsent(exchange: Exchange): Promise<void> {
    const query = queryOf(exchange)
    const principal = await signedIn(exchange)
    if (principal === undefined) {
      redirect(exchange, `/sign-in?${query}`)
      return
    }
    const origin = clients.originOf(exchange.req)
    const params = new URLSearchParams(query)
    requireOnce(params)
    const client = await (await (await gate()).accounts()).findClient(origin, params.get('client_id') ?? '')
    if (client === undefined)
      throw new AppError('ERR_NOT_FOUND', 'There is no such client. Start again in the program.')
    const redirectUri = params.get('redirect_uri') ?? ''
    sendPage(exchange.res, 200, consentPage({ client, principal, query, redirectUri }))
  }

  async function consent(exchange: Exchange): Promise<void> {
    const form = await readForm(exchange.req)
    if ((await signedIn(exchange)) === undefined) {
      throw new AppError(
        'ERR_UNAUTHENTICATED',
        'You are not signed in. Start again in the program that asked for access.',
      )
    }
    const origin = clients.originOf(exchange.req)
    const input = { accept: form.get('decision') === 'allow', query: form.get('query') ?? '' }
    const accounts = await (await gate()).accounts()
    redirect(exchange, await accounts.consent(origin, input, fromOf(exchange).headers))
  }

  /** Where the library sends a browser with an access request that cannot be returned to the client. */
  async function showError(exchange: Exchange): Promise<void> {
    await gate()
    const error = new URLSearchParams(queryOf(exchange)).get('error') ?? ''
    const code = /^[a-z_]{1,64}$/.test(error) ? ` (${error})` : ''
    const message = `The program that sent you here sent an invalid authorization request${code}. No access was granted. Start again in the program.`
    sendPage(exchange.res, 400, noticePage('This did not work', message))
  }

  const page = (path: string, show: (exchange: Exchange) => Promise<void>, submit?: typeof show): PatternRoute[] => [
    { method: 'GET', path, serve: asPage(deps, show) },
    ...(submit === undefined ? [] : [{ method: 'POST', path, serve: asPage(deps, submit) } as const]),
  ]
  return [
    ...page('/sign-in', showSignIn, signIn),
    ...page('/sign-in/provider/{provider}', startProvider),
    ...page(`${AUTH_PATH}/callback/{provider}`, finishProvider),
    ...page(`${AUTH_PATH}/error`, showError),
    ...page('/account', showAccount),
    { method: 'POST', path: '/account/passkeys', serve: asPage(deps, removePasskey) },
    { method: 'POST', path: '/account/sessions', serve: asPage(deps, endSession) },
    { method: 'POST', path: '/sign-out', serve: asPage(deps, signOut) },
    ...createPasskeyRoutes(deps, gate, afterSignIn),
    ...page('/invitation/{token}', showInvitation, acceptInvitation),
    ...page('/consent', showConsent, consent),
    ...createDeviceRoutes(deps, gate),
  ]
}

const queryOf = ({ url }: Exchange): string => {
  const start = url.indexOf('?')
  return start === -1 ? '' : url.slice(start + 1)
}

/** The parameters of an authorisation request; what better-auth adds to a page's address is dropped. */
const AUTHORIZATION_PARAMETERS = [
  ...['response_type', 'client_id', 'redirect_uri', 'scope', 'state', 'code_challenge', 'code_challenge_method'],
  ...['resource', 'nonce'],
]

/** The page shows the first of two values, and the request may be for the other. */
function requireOnce(params: URLSearchParams): void {
  const isTwice = (name: string): boolean => name !== 'resource' && params.getAll(name).length > 1
  if (!AUTHORIZATION_PARAMETERS.some(isTwice)) return
  throw new AppError('ERR_INVALID_INPUT', 'The request has a parameter twice. Start again in the program.')
}

/** Back to the authorisation or the page that sent the person here, or to the account page. Never to another server. */
function afterSignIn(query: string): string {
  const params = new URLSearchParams(query)
  if (params.get('next') === DEVICE_PAGE) return `/${DEVICE_PAGE}`
  if (!params.has('client_id')) return '/account'
  const passedOn = new URLSearchParams()
  for (const [name, value] of params) if (AUTHORIZATION_PARAMETERS.includes(name)) passedOn.append(name, value)
  return `${AUTH_PATH}/oauth2/authorize?${passedOn}`
}

/** Browsers check the redirect after a form against the page's policy, so the policy must name the client's address. */
function formTargets(query: string): string[] {
  const uri = URL.parse(new URLSearchParams(query).get('redirect_uri') ?? '')
  if (uri === null) return []
  return [/^https?:$/.test(uri.protocol) ? uri.origin : uri.protocol]
}

const signInPage = (
  origin: string,
  query: string,
  providers: PeopleGate['providers'],
  tried?: Readonly<{ email: string; problem: string }>,
): Page => ({
  title: 'Sign in',
  hasPasskeys: allowsPasskeys(origin),
  formTargets: formTargets(query),
  body: html`${problemPart(tried?.problem)}<form method="post" action="/sign-in">
<input type="hidden" name="query" value="${query}">
<label>E-mail address<input name="email" type="email" autocomplete="username" required maxlength="320" value="${tried?.email ?? ''}"></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required maxlength="${limits.passwordCharsMax}"></label>
<button>Sign in</button></form>${passkeySignIn(origin, query)}${providers.map(
    ({ id, name }) =>
      html`<a class="button plain" href="/sign-in/provider/${id}${query === '' ? '' : `?${query}`}">Sign in with ${name}</a>`,
  )}`,
})

const accountPage = (
  origin: string,
  { actor, tenant, role }: Principal,
  passkeys: Parameters<typeof passkeyList>[1],
  sessions: readonly OwnSession[] | AppError,
): Page => ({
  title: 'Your account',
  hasPasskeys: allowsPasskeys(origin),
  body: html`<p>You are signed in as <strong>${actor}</strong>, ${role} of ${tenant}.</p>
${passkeyList(origin, passkeys)}
${sessionList(sessions)}
<form method="post" action="/sign-out"><button class="plain">Sign out</button></form>`,
})

const sessionList = (sessions: readonly OwnSession[] | AppError): Html =>
  html`<h2>Where you are signed in</h2>${
    sessions instanceof AppError
      ? problemPart(sessions.message)
      : sessions.map(
          ({ id, name, address, created_at }) =>
            html`<form method="post" action="/account/sessions"><input type="hidden" name="id" value="${id}">
<p class="field">${visible(name)}<span class="hint">${address === null ? '' : `from ${address}, `}since ${created_at.slice(0, 10)}</span></p><button class="plain">End this session</button></form>`,
        )
  }`

const expiredLink: Page = {
  title: 'This link does not work',
  body: html`<p>It was used, was cancelled or has expired. If you have chosen a password, <a href="/sign-in">sign in</a>. Otherwise ask the sender for a new link.</p>`,
}

/** A password manager stores a new password for this name. The person cannot change it, and the server ignores it. */
const usernameField = (email: string): Html =>
  html`<label>E-mail address<input type="email" autocomplete="username" readonly value="${email}"></label>
`

const invitationPage = ({ email, isNew, inviter, tenant }: OpenInvitation, problem?: string): Page => ({
  title: isNew ? 'Join Castellan' : 'Choose a password',
  body: html`<p>${visible(inviter)} ${isNew ? `invites you to the organisation ${tenant}` : 'made this link for you'}. It is for
<strong>${email}</strong> and works once.</p>${problemPart(problem)}<form method="post">
${isNew ? html`<label>Your name<input name="name" autocomplete="name" maxlength="${limits.personNameCharsMax}"></label>` : html``}
${usernameField(email)}<label>Password<span class="hint">At least ${limits.passwordCharsMin} characters.</span>
<input name="password" type="password" autocomplete="new-password" required minlength="${limits.passwordCharsMin}" maxlength="${limits.passwordCharsMax}"></label>
<label>The same password again<input name="again" type="password" autocomplete="new-password" required maxlength="${limits.passwordCharsMax}"></label>
<button>${isNew ? 'Join' : 'Save'}</button></form>`,
})

type ConsentRequest = Readonly<{
  client: AskingClient
  principal: Principal
  query: string
  redirectUri: string
}>

/** A token is good at the addresses that the client asks for (RFC 8707), and nowhere else. */
const resourcesIn = (query: string): readonly string[] => new URLSearchParams(query).getAll('resource')
const scopesIn = (query: string): readonly string[] => (new URLSearchParams(query).get('scope') ?? '').split(' ')

/** The host of a web page; of a program, the whole address, because its host names nobody. */
const reachedAt = (redirectUri: string): string =>
  visible(/^https?:/i.test(redirectUri) ? (URL.parse(redirectUri)?.host ?? redirectUri) : redirectUri)

const consentPage = ({ client, principal, query, redirectUri }: ConsentRequest): Page => ({
  title: 'Allow access?',
  formTargets: formTargets(query),
  body: html`<p>A program that calls itself <strong>${visible(client.name)}</strong> asks to use Castellan as
<strong>${principal.actor}</strong>. ${reachOf(resourcesIn(query))}${terminalText(scopesIn(query))}</p>
<p class="hint">${client.publisher === undefined ? '' : `It is described by ${client.publisher.slice(0, 128)}. `}It is reached at ${reachedAt(redirectUri)}. Allow it only if you started this yourself.</p>
<form method="post" action="/consent"><input type="hidden" name="query" value="${query}">
<button name="decision" value="allow">Allow</button>
<button name="decision" value="deny" class="plain">Do not allow</button></form>`,
})
