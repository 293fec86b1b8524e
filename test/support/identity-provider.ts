import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'

/** Whom the provider knows; the subject is what the login form asks for. */
export type Account = Readonly<{ email: string; email_verified: boolean; name?: string }>

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
      clients: [{ client_id: CLIENT_ID, client_secret: CLIENT_SECRET, redirect_uris: [redirectUri] }],
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
