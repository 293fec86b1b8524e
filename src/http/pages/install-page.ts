import type { Principal } from '../../contract/principal.ts'
import type { Exchange, PatternRoute } from '../route-table.ts'
import { asPage } from './as-page.ts'
import { type SigningInDeps, signedIn, signInFirst } from './authorization-page.ts'
import { html } from './html.ts'
import { noticePage, type Page, sendPage } from './page.ts'
import { whileInFlight } from './while-in-flight.ts'

type Item = Readonly<{ id: string; name: string }>
type Installed = Readonly<{ status: string; message: string; link?: Readonly<{ url: string }> }>

/**
 * Where a person installs an MCP server for themselves, signed in here. The address is no right: it may be sent around. What the
 * person sees and does are calls of theirs, so permissions and rates decide as for every call. The page leads on to the link where
 * values are entered or the sign-in at the server begins, which works once and expires.
 */
export function createInstallPage(deps: SigningInDeps): readonly PatternRoute[] {
  const asPerson = async <Output>(
    { req }: Exchange,
    principal: Principal,
    tool: string,
    args: Readonly<Record<string, string>>,
  ): Promise<Readonly<{ output: Output } | { failure: string }>> => {
    const origin = deps.originOf(req)
    const caller = { principal, transport: 'http', exposure: 'full', safeNames: false, origin } as const
    const answer = await whileInFlight(deps.inFlight, principal, (signal) =>
      deps.host.call(caller, tool, args, { signal }),
    )
    return answer.failure === undefined ? { output: answer.output as Output } : { failure: answer.failure.message }
  }

  async function callerOf({ req, res }: Exchange): Promise<Principal | undefined> {
    const principal = await signedIn(deps, req)
    if (principal === undefined) sendPage(res, 401, signInFirst(undefined))
    return principal
  }

  async function show(exchange: Exchange): Promise<void> {
    const { res, params } = exchange
    const principal = await callerOf(exchange)
    if (principal === undefined) return
    const seen = await asPerson<Readonly<{ items: readonly Item[] }>>(exchange, principal, 'get_mcp_servers', {})
    if ('failure' in seen) return sendPage(res, 403, noticePage('This did not work', seen.failure))
    const item = seen.output.items.find(({ id }) => id === params['id'])
    if (item === undefined) sendPage(res, 404, unknownServer)
    else sendPage(res, 200, formPage(item.name, principal.actor))
  }

  async function submit(exchange: Exchange): Promise<void> {
    const { req, res, params } = exchange
    const principal = await callerOf(exchange)
    if (principal === undefined) return
    req.resume()
    const catalogId = params['id']!.slice(0, 200)
    const installed = await asPerson<Installed>(exchange, principal, 'install_mcp_server', { catalogId })
    if ('failure' in installed) return sendPage(res, 400, noticePage('This did not work', installed.failure))
    const { status, link, message } = installed.output
    if (link === undefined && status === 'error') return sendPage(res, 400, noticePage('This did not work', message))
    if (link === undefined) return sendPage(res, 200, noticePage('Installed', `${message} You can close this page.`))
    res.writeHead(303, { location: link.url, 'cache-control': 'no-store' }).end()
  }

  const path = '/mcp-servers/{id}/install'
  return [
    { method: 'GET', path, serve: asPage(deps, show) },
    { method: 'POST', path, serve: asPage(deps, submit) },
  ]
}

const unknownServer = noticePage(
  'There is no such MCP server',
  'It does not exist, or you cannot see it. Ask the person who gave you this address.',
)

const formPage = (server: string, actor: string): Page => ({
  title: `Install ${server}`,
  body: html`<p>You are about to install the MCP server <strong>${server}</strong> for <strong>${actor}</strong> alone. If it needs values or a
sign-in of yours, you are asked for them next.</p>
<form method="post"><button>Install</button></form>`,
})
