import { createHash, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

type Code = { challenge: string; redirectUri: string; clientId: string; resource: string | null }

/**
 * A third-party authorisation server with one person, who allows everything: RFC 8414 metadata, RFC 7591 registration, codes with
 * PKCE that work once, refresh tokens that rotate, and RFC 8693 exchange.
 */
export type OauthPeer = AsyncDisposable &
  Readonly<{
    issuer: string
    /** The parameters of every request for tokens, oldest first. */
    tokenRequests: readonly Readonly<Record<string, string>>[]
    registrations: readonly Readonly<Record<string, unknown>>[]
    isValid(token: string): boolean
    /** Access tokens end at once; refresh tokens too, if asked for. */
    expire(what?: 'access' | 'all'): void
    /** What a 401 of a protected server says. */
    challenge(metadataUrl: string): string
    /** Answers requests for tokens with this status from now on; undefined is back to normal. */
    failWith(status: number | undefined): void
    /** What an exchange is answered with, for a subject token that is known. */
    subjects: Map<string, string>
    /** The same for tokens that are not known before: asked first. */
    onSubject(answer: (token: string) => Promise<string | undefined>): void
  }>

export async function startOauthPeer(lifetimeSecs = 3_600): Promise<OauthPeer> {
  const codes = new Map<string, Code>()
  const access = new Set<string>()
  const refresh = new Set<string>()
  const subjects = new Map<string, string>()
  const tokenRequests: Record<string, string>[] = []
  const registrations: Record<string, unknown>[] = []
  let failure: number | undefined
  let issuer = ''
  const fresh = (): string => randomBytes(16).toString('hex')
  const send = (res: ServerResponse, status: number, body: object): void =>
    void res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))

  function tokens() {
    const [access_token, refresh_token] = [`at-${fresh()}`, `rt-${fresh()}`]
    access.add(access_token)
    refresh.add(refresh_token)
    return { access_token, refresh_token, token_type: 'Bearer', expires_in: lifetimeSecs }
  }

  let ask = async (token: string): Promise<string | undefined> => subjects.get(token)
  async function redeem(given: Record<string, string>): Promise<object | undefined> {
    if (given['grant_type'] === 'refresh_token') return refresh.delete(given['refresh_token']!) ? tokens() : undefined
    if (given['grant_type'] === 'urn:ietf:params:oauth:grant-type:token-exchange') {
      const access_token = await ask(given['subject_token']!)
      if (access_token === undefined) return undefined
      const issued_token_type = given['requested_token_type'] ?? 'urn:ietf:params:oauth:token-type:access_token'
      return { access_token, issued_token_type, token_type: 'Bearer', expires_in: lifetimeSecs }
    }
    const code = codes.get(given['code']!)
    codes.delete(given['code']!)
    const proof = createHash('sha256')
      .update(given['code_verifier'] ?? '')
      .digest('base64url')
    const isGood = code?.challenge === proof && code.redirectUri === given['redirect_uri']
    return isGood ? tokens() : undefined
  }

  async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url!, issuer)
    if (url.pathname === '/.well-known/oauth-authorization-server') {
      return send(res, 200, {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        registration_endpoint: `${issuer}/register`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none', 'client_secret_post', 'client_secret_basic'],
        authorization_response_iss_parameter_supported: true,
      })
    }
    if (url.pathname === '/register') {
      const wanted = JSON.parse(await text(req)) as Record<string, unknown>
      registrations.push(wanted)
      return send(res, 201, { ...wanted, client_id: `client-${registrations.length}` })
    }
    if (url.pathname === '/authorize') {
      const asked = url.searchParams
      const code = fresh()
      const redirectUri = asked.get('redirect_uri')!
      const [challenge, clientId] = [asked.get('code_challenge')!, asked.get('client_id')!]
      codes.set(code, { challenge, redirectUri, clientId, resource: asked.get('resource') })
      const back = new URL(redirectUri)
      back.search = new URLSearchParams({ code, state: asked.get('state')!, iss: issuer }).toString()
      return void res.writeHead(302, { location: back.href }).end()
    }
    if (url.pathname === '/token') {
      const given = Object.fromEntries(new URLSearchParams(await text(req)))
      const basic = /^Basic (.*)$/.exec(req.headers.authorization ?? '')?.[1]
      const client = basic === undefined ? {} : { basic: Buffer.from(basic, 'base64').toString() }
      tokenRequests.push({ ...given, ...client })
      if (failure !== undefined) return send(res, failure, { error: 'server_error' })
      const made = await redeem(given)
      return made === undefined ? send(res, 400, { error: 'invalid_grant' }) : send(res, 200, made)
    }
    send(res, 404, {})
  }

  const http = createServer(
    (req, res) => void handle(req, res).catch((error: unknown) => send(res, 500, { error: String(error) })),
  )
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  issuer = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  return {
    issuer,
    tokenRequests,
    registrations,
    subjects,
    onSubject(answer) {
      ask = async (token) => (await answer(token)) ?? subjects.get(token)
    },
    isValid: (token) => access.has(token),
    expire(what = 'access') {
      access.clear()
      if (what === 'all') refresh.clear()
    },
    challenge: (metadataUrl) => `Bearer error="invalid_token", resource_metadata="${metadataUrl}"`,
    failWith(status) {
      failure = status
    },
    async [Symbol.asyncDispose]() {
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
}
