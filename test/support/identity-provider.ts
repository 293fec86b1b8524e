import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'

/** Whom the provider knows; the subject is what the login form asks for. */
export type Account = Readonly<{ email: string; email_verified?: boolean; name?: string }>

export const CLIENT_ID = 'castellan'
export const CLIENT_SECRET = 'a secret of some length, for tests'

/** A real OpenID Connect provider on this machine, with its own pages for login and consent. */
export async function startIdentityProvider(
  accounts: Readonly<Record<string, Account>>,
): Promise<AsyncDisposable & Readonly<{ issuer: string; allow(redirectUri: string): void }>> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const allow = (redirectUri: string): void => {
    const provider = new Provider(issuer, {
      clients: [
        {
          ...{ client_id: CLIENT_ID, client_secret: CLIENT_SECRET, redirect_uris: [redirectUri] },
          grant_types: ['authorization_code', 'refresh_token'],
        },
      ],
      claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
      async findAccount(_, id) {
        const account = accounts[id]
        return account && { accountId: id, claims: async () => ({ sub: id, ...account }) }
      },
    })
    server.removeAllListeners('request').on('request', provider.callback())
  }
  return {
    issuer,
    allow,
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** Answers the questions of the provider as a browser would, from where it was asked to the address to which it sends back. */
export async function answerProvider(startUrl: string, login: string, isBack: (url: URL) => boolean): Promise<URL> {
  const cookies = new Map<string, string>()
  async function visit(url: URL, form?: Record<string, string>): Promise<Response> {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const body = form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }
    const response = await fetch(url, { redirect: 'manual', headers: { cookie }, ...body })
    for (const set of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? []
      cookies.set(name, value)
    }
    return response
  }
  let url = new URL(startUrl)
  let response = await visit(url)
  for (let steps = 0; steps < 20; steps++) {
    const location = response.headers.get('location')
    if (location !== null) {
      url = new URL(location, url)
      if (isBack(url)) return url
      response = await visit(url)
      continue
    }
    const page = await response.text()
    const [, action = ''] = /<form[^>]* action="([^"]+)"/.exec(page) ?? []
    const prompt = /name="prompt" value="([a-z]+)"/.exec(page)?.[1] ?? ''
    url = new URL(action, url)
    response = await visit(url, { prompt, ...(prompt === 'login' && { login, password: 'anything' }) })
  }
  throw new Error('the provider asked too much')
}
