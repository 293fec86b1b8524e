import { AppError } from '../../contract/app-error.ts'
import type { Principal } from '../../contract/principal.ts'
import type { AskingClient, PeopleGate } from '../people-gate.ts'
import type { Exchange, PatternRoute } from '../route-table.ts'
import { signedInBy } from '../signed-in.ts'
import { toHttpError } from '../to-http-error.ts'
import { reachOf, terminalText, visible } from './access-texts.ts'
import { asPage, withoutChallenge } from './as-page.ts'
import { html } from './html.ts'
import { noticePage, type Page, problemPart, redirect, sendPage } from './page.ts'
import type { PeoplePagesDeps } from './people-pages.ts'
import { readForm } from './read-form.ts'

/** The page for the code of a terminal (RFC 8628), and the name by which the sign-in page leads back to it. */
export const DEVICE_PAGE = 'device'
const PATH = `/${DEVICE_PAGE}`

/**
 * A person types the code that a terminal shows, sees who asks and from where, and decides. No address carries the code: a person
 * who only follows a link has not compared it.
 */
export function createDeviceRoutes(deps: PeoplePagesDeps, gate: () => Promise<PeopleGate>): readonly PatternRoute[] {
  const { clients } = deps

  async function signedIn({ req }: Exchange): Promise<Principal | undefined> {
    return await signedInBy(deps, await gate(), req)
  }

  async function show(exchange: Exchange): Promise<void> {
    if ((await signedIn(exchange)) === undefined) redirect(exchange, `/sign-in?next=${DEVICE_PAGE}`)
    else sendPage(exchange.res, 200, codePage())
  }

  async function submit(exchange: Exchange): Promise<void> {
    const { req, res } = exchange
    const form = await readForm(req)
    const principal = await signedIn(exchange)
    if (principal === undefined) {
      redirect(exchange, `/sign-in?next=${DEVICE_PAGE}`)
      return
    }
    const { accounts, devices } = await gate()
    const who = { principal, address: clients.addressOf(req) }
    const code = (form.get('code') ?? '').slice(0, 64)
    const decision = form.get('decision')
    try {
      if (decision !== undefined) {
        const isAllowed = decision === 'allow'
        await devices.answer(code, isAllowed, who)
        sendPage(res, 200, isAllowed ? allowedPage : deniedPage)
        return
      }
      const device = await devices.find(code, who)
      const client = await (await accounts()).findClient(clients.originOf(req), device.clientId)
      if (client === undefined) throw new AppError('ERR_NOT_FOUND', 'There is no such client. Start again there.')
      sendPage(res, 200, decisionPage({ ...device, client, principal }))
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      const { status, headers } = toHttpError(error, deps)
      sendPage(res, status, codePage(error.message), withoutChallenge(headers))
    }
  }

  return [
    { method: 'GET', path: PATH, serve: asPage(deps, show) },
    { method: 'POST', path: PATH, serve: asPage(deps, submit) },
  ]
}

const allowedPage = noticePage('Signed in', 'The terminal is signed in within a few seconds. You can close this page.')
const deniedPage = noticePage('Not signed in', 'The terminal gets no access. You can close this page.')

const codePage = (problem?: string): Page => ({
  title: 'Sign in a terminal',
  body: html`<p>Type the code that the terminal shows.</p>${problemPart(problem)}<form method="post" action="${PATH}">
<label>Code<input name="code" required maxlength="64" placeholder="BCDF-GHJK" autocomplete="one-time-code" autocapitalize="characters" autocorrect="off" spellcheck="false"></label>
<button>Continue</button></form>`,
})

type Decision = Awaited<ReturnType<PeopleGate['devices']['find']>> &
  Readonly<{ client: AskingClient; principal: Principal }>

const decisionPage = ({ client, principal, userCode, address, scopes, resources }: Decision): Page => ({
  title: 'Allow access?',
  body: html`<p>A program that calls itself <strong>${visible(client.name)}</strong>, at the network address
<strong>${address}</strong>, asks to use Castellan as <strong>${principal.actor}</strong>. ${reachOf(resources)}${terminalText(scopes)}${
    scopes.includes('offline_access') ? ' It keeps this access until you or an administrator end it.' : ''
  }</p>
<p class="hint">Its code is ${userCode}. Allow it only if you started this yourself, and your own terminal shows this code. Anyone who sent you the code would get your access.</p>
<form method="post" action="${PATH}"><input type="hidden" name="code" value="${userCode}">
<button name="decision" value="allow">Allow</button>
<button name="decision" value="deny" class="plain">Do not allow</button></form>`,
})
