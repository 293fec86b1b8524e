import { isIP } from 'node:net'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { createAddressLimit } from '../address-limit.ts'
import { sendJson } from '../exchange/send-text.ts'
import { isLoopbackHost } from '../peer-address.ts'
import type { PeopleGate } from '../people-gate.ts'
import { readJsonBody } from '../read-json-body.ts'
import type { Exchange, PatternRoute } from '../route-table.ts'
import { webHeaders } from '../web-exchange.ts'
import { type Html, html } from './html.ts'
import type { PeoplePagesDeps } from './people-pages.ts'

/** The requests of the pages' script (`passkey-script.ts`): two to sign in, two to add a passkey. */
export function createPasskeyRoutes(
  deps: PeoplePagesDeps,
  gate: () => Promise<PeopleGate>,
  afterSignIn: (query: string) => string,
): readonly PatternRoute[] {
  const { clients } = deps
  const admit = createAddressLimit(deps.clock)

  function fromOf({ req }: Exchange) {
    const address = clients.addressOf(req)
    admit(address)
    return { address, headers: webHeaders(req, address), origin: clients.originOf(req) }
  }

  const options = (ceremony: 'register' | 'sign-in') => async (exchange: Exchange) => {
    const { origin, headers } = fromOf(exchange)
    const { passkeys } = await (await gate()).accounts()
    const ceremonyOptions = await passkeys.options(origin, ceremony, headers)
    exchange.res.setHeader('set-cookie', [...ceremonyOptions.cookies])
    sendJson(exchange.res, 200, JSON.stringify(ceremonyOptions.options))
  }

  async function signIn(exchange: Exchange): Promise<void> {
    const { origin, ...from } = fromOf(exchange)
    const { response, query } = await bodyOf(exchange)
    const cookies = await (await gate()).signInWithPasskey(origin, response, from)
    exchange.res.setHeader('set-cookie', [...cookies])
    sendJson(exchange.res, 200, JSON.stringify({ location: afterSignIn(query) }))
  }

  async function register(exchange: Exchange): Promise<void> {
    const { origin, ...from } = fromOf(exchange)
    const { response, name } = await bodyOf(exchange)
    await (await gate()).addPasskey(origin, { response, name }, from)
    sendJson(exchange.res, 200, JSON.stringify({ location: '/account' }))
  }

  return [
    { method: 'POST', path: '/passkey/sign-in/options', serve: options('sign-in') },
    { method: 'POST', path: '/passkey/sign-in', serve: signIn },
    { method: 'POST', path: '/passkey/register/options', serve: options('register') },
    { method: 'POST', path: '/passkey/register', serve: register },
  ]
}

async function bodyOf({ req }: Exchange) {
  const body = (await readJsonBody(req, limits.oauthBodyBytesMax)) as Record<string, unknown> | null
  const text = (key: string): string => (typeof body?.[key] === 'string' ? body[key] : '')
  const response = body?.['response']
  if (typeof response !== 'object' || response === null) {
    throw new AppError('ERR_INVALID_INPUT', 'response: must be the answer of the browser.', { field: 'response' })
  }
  return { response, query: text('query'), name: text('name').trim().slice(0, limits.personNameCharsMax) }
}

const alert = html`<p class="problem" role="alert" hidden></p>`

/** A passkey is for a host name: browsers refuse to make or use one at an IP address. */
export const allowsPasskeys = (origin: string): boolean => isIP(bareHost(origin)) === 0

const bareHost = (origin: string): string => (URL.parse(origin)?.hostname ?? '').replace(/^\[(.*)\]$/, '$1')

function hintAt(origin: string, path: string): Html {
  if (!isLoopbackHost(bareHost(origin))) {
    return html`<p class="hint">Passkeys work only at a host name, not at an IP address.</p>`
  }
  const url = new URL(path, origin)
  url.hostname = 'localhost'
  // The query of a sign-in for a program is long, and says nothing to a person.
  const address = `${url.origin}${url.pathname}`
  return html`<p class="hint">Passkeys do not work at an IP address. To use them, open <a href="${url.href}">${address}</a>.</p>`
}

export const passkeySignIn = (origin: string, query: string): Html =>
  allowsPasskeys(origin) ? signInForm(query) : hintAt(origin, `/sign-in${query === '' ? '' : `?${query}`}`)

const signInForm = (query: string): Html =>
  html`<form method="post" action="/passkey/sign-in" data-passkey="sign-in" hidden>
<input type="hidden" name="query" value="${query}"><button class="plain">Sign in with a passkey</button>${alert}</form>`

type ListedPasskeys = readonly Readonly<{ id: string; name: string; createdAt: string }>[]

export const passkeyList = (origin: string, passkeys: ListedPasskeys): Html =>
  html`<h2>Passkeys</h2>${passkeys.map(
    ({ id, name, createdAt }) =>
      html`<form method="post" action="/account/passkeys"><input type="hidden" name="id" value="${id}">
<p class="field">${name}<span class="hint">added ${createdAt.slice(0, 10)}</span></p><button class="plain">Remove ${name}</button></form>`,
  )}${allowsPasskeys(origin) ? registerForm : hintAt(origin, '/account')}`

const registerForm = html`<form method="post" action="/passkey/register" data-passkey="register" hidden>
<label>Name of a new passkey<input name="name" required maxlength="${limits.personNameCharsMax}" placeholder="My laptop"></label>
<button>Add a passkey</button>${alert}</form>
<noscript><p class="hint">Passkeys need JavaScript.</p></noscript>`
