import type { Principal } from '../../contract/principal.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Random } from '../../kernel/random.ts'
import type { InFlightCalls } from '../../tools/runtime/in-flight-calls.ts'
import type { ToolHost } from '../../tools/runtime/tool-host.ts'
import type { Exchange, PatternRoute } from '../route-table.ts'
import { asPage } from './as-page.ts'
import { html } from './html.ts'
import { noticePage, type Page, sendPage } from './page.ts'
import { readForm } from './read-form.ts'
import { whileInFlight } from './while-in-flight.ts'

/** Finds what a link asks for, through the domain. */
export type SecretLinkGate = Readonly<{
  open(token: string, nowMs: number): Promise<OpenLink | undefined>
}>
/** `readers` says who sees what is entered, for a link that does not take secrets. */
type OpenLink = Readonly<{
  title: string
  fields: readonly LinkField[]
  principal: Principal
  readers?: string | undefined
}>
type LinkField = Readonly<{ name: string; label: string; description: string; secret: boolean; required: boolean }>

export type SecretLinkDeps = Readonly<{
  secretLinks(): Promise<SecretLinkGate | undefined>
  host: Pick<ToolHost, 'call'>
  inFlight: Pick<InFlightCalls, 'begin'>
  clock: Clock
  logger: Logger
  random: Random
}>

const SECRET_LINK_PATH = '/secrets/'
const TOKEN = /^[\w-]{20,100}$/

/**
 * The page of a one-time link. Anyone with the address may enter the values, once, and sees no saved value. The submission passes
 * the pipeline like every call, on behalf of the caller that requested the link.
 */
export function createSecretLinkRoutes(deps: SecretLinkDeps): readonly PatternRoute[] {
  async function find(token: string): Promise<OpenLink | undefined> {
    if (!TOKEN.test(token)) return undefined
    return await (await deps.secretLinks())?.open(token, deps.clock.nowMs())
  }

  async function show({ res, params }: Exchange): Promise<void> {
    const link = await find(params['token']!)
    if (link === undefined) sendPage(res, 404, expiredLink)
    else sendPage(res, 200, formPage(link))
  }

  async function submit({ req, res, params }: Exchange): Promise<void> {
    const token = params['token']!
    const link = await find(token)
    if (link === undefined) {
      sendPage(res, 404, expiredLink)
      return
    }
    const fields = await readForm(req)
    const values = Object.fromEntries(link.fields.map(({ name }) => [name, fields.get(name) ?? '']))
    const caller = { principal: link.principal, transport: 'http', exposure: 'full', safeNames: false } as const
    const answer = await whileInFlight(deps.inFlight, link.principal, (signal) =>
      deps.host.call(caller, 'secret_link_submit', { token, values }, { signal }),
    )
    if (answer.failure?.code === 'ERR_NOT_FOUND') sendPage(res, 404, expiredLink)
    else if (answer.failure !== undefined) sendPage(res, 400, formPage(link, answer.failure.message))
    else {
      const { message } = answer.output as { message: string }
      sendPage(res, 200, noticePage('Saved', `${message} You can close this page.`))
    }
  }

  const path = `${SECRET_LINK_PATH}{token}`
  return [
    { method: 'GET', path, serve: asPage(deps, show) },
    { method: 'POST', path, serve: asPage(deps, submit) },
  ]
}

const expiredLink = noticePage(
  'This link cannot be used',
  'It was used, has expired, or does not exist. Ask for a new one where you got it.',
)

const ENCRYPTED = 'What you enter is encrypted on this server. No model and no log sees it.'

function formPage({ title, fields, readers = ENCRYPTED }: OpenLink, problem?: string): Page {
  const inputs = fields.map(({ name, label, description, secret, required }) => {
    const type = secret ? 'password' : 'text'
    const hint = description === '' ? html`` : html`<span class="hint">${description}</span>`
    const input = required
      ? html`<input type="${type}" name="${name}" autocomplete="off" spellcheck="false" required>`
      : html`<input type="${type}" name="${name}" autocomplete="off" spellcheck="false">`
    return html`<label>${label}${required ? html`` : html` (optional)`}${hint}${input}</label>`
  })
  const told = problem === undefined ? html`` : html`<p class="problem" role="alert">${problem}</p>`
  return {
    title,
    body: html`<p>${readers} This page works once.</p>
${told}<form method="post">${inputs}<button>Save</button></form>`,
  }
}
