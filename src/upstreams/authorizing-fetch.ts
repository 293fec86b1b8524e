import type { RemoteSpec, UpstreamAuthorization } from '../domains/mcp-servers/runtime.ts'
import type { Fetch } from '../web-client/checked-fetch.ts'

/** Many requests may be refused with the same token; the first of them renews it for all. */
export function authorizing({ authorization }: RemoteSpec, send: Fetch) {
  if (authorization === undefined) return {}
  if (authorization.header !== undefined) return { fetch: sendingIn(authorization.header, authorization, send) }
  const refused = new WeakMap<Response, string>()
  return {
    async fetch(input: string | URL, init: RequestInit = {}) {
      const response = await send(input, init)
      const token = /^Bearer (.*)$/.exec(new Headers(init.headers).get('authorization') ?? '')?.[1]
      if (response.status === 401 && token !== undefined) refused.set(response, token)
      return response
    },
    authProvider: {
      token: authorization.token,
      onUnauthorized: ({ response }: Readonly<{ response: Response }>) => authorization.renew(refused.get(response)),
    },
  }
}

/** The SDK supports bearer tokens; another header is set here, and renewed once if the server refuses it. */
const sendingIn =
  (header: string, authorization: UpstreamAuthorization, send: Fetch): Fetch =>
  async (input, init = {}) => {
    const attempt = async (token: string): Promise<Response> => {
      const headers = new Headers(init.headers)
      headers.set(header, token)
      return await send(input, { ...init, headers })
    }
    const token = await authorization.token()
    const response = await attempt(token)
    if (response.status !== 401) return response
    await response.body?.cancel()
    await authorization.renew(token)
    return await attempt(await authorization.token())
  }
