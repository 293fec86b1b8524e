import { AppError } from '../../contract/app-error.ts'
import type { HttpClient } from './http-client.ts'
import type { ServerAddress } from './server-address.ts'
import { askJson } from './token-endpoint.ts'

/** The authorisation server of a Castellan server, which is that server itself. */
export type AuthorizationServer = Readonly<{
  issuer: string
  authorizationEndpoint: string
  tokenEndpoint: string
  registrationEndpoint: string
  revocationEndpoint: string
  /** Undefined at a server that does not sign in terminals by a code. */
  deviceEndpoint: string | undefined
}>

const DEVICE_ENDPOINT = 'device_authorization_endpoint'

/** Reads the metadata of RFC 9728 and RFC 8414. None of it may lead to another host than the named one. */
export async function discover(http: HttpClient, { origin, resource }: ServerAddress): Promise<AuthorizationServer> {
  const path = new URL(resource).pathname
  const protectedResource = await askJson(http, `${origin}/.well-known/oauth-protected-resource${path}`)
  const { resource: named, authorization_servers: servers } = protectedResource.body
  const issuer: unknown = Array.isArray(servers) ? servers[0] : undefined
  if (protectedResource.status !== 200 || typeof named !== 'string' || typeof issuer !== 'string') {
    const message = `${origin} offers no sign-in. Check the address, or use an API key: --key or CASTELLAN_API_KEY.`
    throw new AppError('ERR_WEB_FAILED', message, { origin, status: protectedResource.status })
  }
  if (named !== resource) {
    const message = `url: the server at ${origin} has another public address. Ask its operator for it, and use that one.`
    throw new AppError('ERR_INVALID_INPUT', message, { field: 'url', resource: named })
  }
  const issuerUrl = URL.parse(issuer)
  if (issuerUrl?.origin !== origin) throw untrustworthy(origin, 'authorization_servers')
  const metadata = await askJson(http, `${origin}/.well-known/oauth-authorization-server${issuerUrl.pathname}`)
  const endpointOf = (field: string): string => {
    const url = metadata.body[field]
    if (typeof url === 'string' && URL.parse(url)?.origin === origin) return url
    throw untrustworthy(origin, field)
  }
  if (metadata.body['issuer'] !== issuer) throw untrustworthy(origin, 'issuer')
  return {
    issuer,
    authorizationEndpoint: endpointOf('authorization_endpoint'),
    tokenEndpoint: endpointOf('token_endpoint'),
    registrationEndpoint: endpointOf('registration_endpoint'),
    revocationEndpoint: endpointOf('revocation_endpoint'),
    deviceEndpoint: metadata.body[DEVICE_ENDPOINT] === undefined ? undefined : endpointOf(DEVICE_ENDPOINT),
  }
}

const untrustworthy = (origin: string, field: string): AppError =>
  new AppError(
    'ERR_WEB_FAILED',
    `${origin} has sign-in metadata that cannot be trusted: ${field} is missing or names another host. Report this to its operator.`,
    { origin, field },
  )
