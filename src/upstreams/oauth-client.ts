import {
  type AuthorizationServerMetadata,
  assertSecureTokenEndpoint,
  discoverAuthorizationServerMetadata,
  discoverOAuthProtectedResourceMetadata,
  exchangeAuthorization,
  extractWWWAuthenticateParams,
  OAuthError,
  type OAuthProtectedResourceMetadata,
  parseErrorResponse,
  refreshAuthorization,
  registerClient,
  resolveClientMetadata,
  selectResourceURL,
  startAuthorization,
} from '@modelcontextprotocol/client'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { SubjectToken } from '../contract/upstream-tools.ts'
import type {
  AuthorizationServer,
  GrantRequest,
  GrantTerms,
  OauthClient,
  OauthRegistration,
  OauthTokens,
} from '../domains/mcp-servers/oauth.ts'
import type { ExchangeConfig } from '../domains/mcp-servers/rules.ts'
import type { Fetch } from '../web-client/checked-fetch.ts'
import { boundedFetch } from './bounded-fetch.ts'

/** OAuth with the SDK's helpers, over a `fetch` that checks addresses. */
export function createOauthClient(checked: Fetch): OauthClient {
  return {
    begin: (request, signal) => named(async () => await begin(request, boundedFetch(checked, signal))),
    redeem: (pending, { code, iss }, signal) =>
      named(async () =>
        tokensOf(
          await exchangeAuthorization(pending.server.issuer, {
            ...sharedTerms(pending),
            authorizationCode: code,
            ...(iss === undefined ? {} : { iss }),
            codeVerifier: pending.verifier,
            redirectUri: pending.registration.redirectUri,
            fetchFn: boundedFetch(checked, signal),
          }),
        ),
      ),
    exchange: (config, subject, signal) =>
      named(async () => await exchange(config, subject, boundedFetch(checked, signal))),
    refresh: (grant, signal) =>
      named(async () =>
        tokensOf(
          await refreshAuthorization(grant.server.issuer, {
            ...sharedTerms(grant),
            refreshToken: grant.refreshToken!,
            fetchFn: boundedFetch(checked, signal),
          }),
        ),
      ),
  }
}

const TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:'

async function exchange(config: ExchangeConfig, subject: SubjectToken, fetchFn: Fetch): Promise<OauthTokens> {
  const { client_id, client_secret, resource, audience, scopes, requested_token_type } = config
  const body = new URLSearchParams({
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: subject.token,
    subject_token_type: subject.type,
    requested_token_type: requested_token_type ?? `${TOKEN_TYPE}access_token`,
    ...(resource === undefined ? {} : { resource }),
    ...(audience === undefined ? {} : { audience }),
    ...(scopes === undefined ? {} : { scope: scopes.join(' ') }),
    ...(client_id === undefined || client_secret !== undefined ? {} : { client_id }),
  })
  const basic = `${encodeURIComponent(client_id ?? '')}:${encodeURIComponent(client_secret ?? '')}`
  const response = await fetchFn(assertSecureTokenEndpoint(config.token_endpoint), {
    method: 'POST',
    headers: {
      'content-type': 'application/x-www-form-urlencoded',
      accept: 'application/json',
      ...(client_secret === undefined ? {} : { authorization: `Basic ${Buffer.from(basic).toString('base64')}` }),
    },
    body: body.toString(),
  })
  if (!response.ok) throw await parseErrorResponse(response)
  const { access_token, expires_in } = (await response.json()) as { access_token?: unknown; expires_in?: unknown }
  if (typeof access_token !== 'string' || access_token === '') throw new Error('the answer has no access_token')
  return {
    accessToken: access_token,
    refreshToken: undefined,
    expiresInSecs: typeof expires_in === 'number' ? expires_in : undefined,
  }
}

async function begin(request: GrantRequest, fetchFn: Fetch) {
  const { serverUrl, config, redirectUri, state } = request
  const challenge = await challengeOf(serverUrl, fetchFn)
  const protectedBy =
    config?.supports_resource_metadata === false ? undefined : await resourceOf(serverUrl, challenge, fetchFn)
  const metadata = await authorizationServerOf(request, protectedBy, fetchFn)
  const scope = config?.scopes?.join(' ') ?? challenge.scope ?? protectedBy?.scopes_supported?.join(' ')
  const server = serverOf(metadata)
  const registration = await registrationAt(request, metadata, scope, fetchFn)
  if (protectedBy !== undefined) await selectResourceURL(serverUrl, {} as never, protectedBy)
  const resource = protectedBy?.resource
  const { authorizationUrl, codeVerifier } = await startAuthorization(server.issuer, {
    metadata,
    clientInformation: informationOf(registration),
    redirectUrl: redirectUri,
    state,
    ...(scope === undefined ? {} : { scope }),
    ...(resource === undefined ? {} : { resource }),
  })
  // It becomes a link on one of our pages, and a link can be a script.
  if (!['http:', 'https:'].includes(authorizationUrl.protocol)) {
    throw new AppError(
      'ERR_UPSTREAM_UNAUTHORIZED',
      'The address of the authorization server must begin with http:// or https://.',
    )
  }
  return { serverUrl, server, registration, resource, scope, url: authorizationUrl.href, verifier: codeVerifier }
}

/** The server's challenge to an unknown caller. */
async function challengeOf(serverUrl: string, fetchFn: Fetch) {
  const response = await fetchFn(serverUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
  })
  return extractWWWAuthenticateParams(response)
}

async function resourceOf(
  serverUrl: string,
  { resourceMetadataUrl }: ReturnType<typeof extractWWWAuthenticateParams>,
  fetchFn: Fetch,
): Promise<OAuthProtectedResourceMetadata | undefined> {
  try {
    const options = resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl }
    return await discoverOAuthProtectedResourceMetadata(serverUrl, options, fetchFn)
  } catch (error) {
    if (error instanceof AppError || resourceMetadataUrl !== undefined) throw error
    // A server from before RFC 9728 is its own authorisation server.
    return undefined
  }
}

async function authorizationServerOf(
  { serverUrl, config }: GrantRequest,
  protectedBy: OAuthProtectedResourceMetadata | undefined,
  fetchFn: Fetch,
): Promise<AuthorizationServerMetadata> {
  const issuer = config?.server_url ?? protectedBy?.authorization_servers?.[0] ?? new URL('/', serverUrl).href
  if (config?.authorization_endpoint !== undefined && config.token_endpoint !== undefined) {
    return {
      issuer,
      authorization_endpoint: config.authorization_endpoint,
      token_endpoint: config.token_endpoint,
      response_types_supported: ['code'],
      code_challenge_methods_supported: ['S256'],
    }
  }
  const found =
    config?.well_known_url === undefined
      ? await discoverAuthorizationServerMetadata(issuer, { fetchFn })
      : await metadataAt(config.well_known_url, fetchFn)
  if (found !== undefined) return found
  throw new AppError(
    'ERR_UPSTREAM_UNAUTHORIZED',
    'No authorization server was found for the MCP server. Set authorization_endpoint and token_endpoint in oauthConfig, or enter other credentials with deploy_mcp_server.',
    {},
  )
}

async function metadataAt(url: string, fetchFn: Fetch): Promise<AuthorizationServerMetadata> {
  const metadata = (await (await fetchFn(url)).json()) as AuthorizationServerMetadata
  for (const endpoint of [metadata?.issuer, metadata?.authorization_endpoint, metadata?.token_endpoint]) {
    if (typeof endpoint === 'string' && URL.canParse(endpoint)) continue
    throw new AppError(
      'ERR_UPSTREAM_UNAUTHORIZED',
      'oauthConfig.well_known_url: no metadata (RFC 8414) was found at this address. Correct the address.',
      {},
    )
  }
  return metadata
}

async function registrationAt(
  { config, clientSecret, redirectUri, clientName, known }: GrantRequest,
  metadata: AuthorizationServerMetadata,
  scope: string | undefined,
  fetchFn: Fetch,
): Promise<OauthRegistration> {
  if (config?.client_id !== undefined) return { clientId: config.client_id, clientSecret, redirectUri }
  if (known?.server.issuer === metadata.issuer && known.registration.redirectUri === redirectUri)
    return known.registration
  if (metadata.registration_endpoint === undefined) {
    throw new AppError(
      'ERR_UPSTREAM_UNAUTHORIZED',
      `The authorization server does not support dynamic client registration. Register a client there with the redirect URI ${redirectUri}, then set its client_id in oauthConfig with edit_mcp_config.`,
      { redirect_uri: redirectUri },
    )
  }
  const clientMetadata = resolveClientMetadata({
    redirectUrl: redirectUri,
    clientMetadata: { client_name: clientName, redirect_uris: [redirectUri] },
  })
  const made = await registerClient(metadata.issuer, {
    metadata,
    clientMetadata,
    fetchFn,
    ...(scope === undefined ? {} : { scope }),
  })
  return { clientId: made.client_id, clientSecret: made.client_secret, redirectUri }
}

const serverOf = (metadata: AuthorizationServerMetadata): AuthorizationServer => ({
  issuer: metadata.issuer,
  authorizationEndpoint: metadata.authorization_endpoint,
  tokenEndpoint: metadata.token_endpoint,
  authMethods: metadata.token_endpoint_auth_methods_supported,
  namesIssuer: metadata.authorization_response_iss_parameter_supported === true,
})

/** Common parameters of every token request. */
const sharedTerms = ({ server, registration, resource }: GrantTerms) => ({
  metadata: {
    issuer: server.issuer,
    authorization_endpoint: server.authorizationEndpoint,
    token_endpoint: server.tokenEndpoint,
    response_types_supported: ['code'],
    ...(server.authMethods === undefined ? {} : { token_endpoint_auth_methods_supported: [...server.authMethods] }),
    ...(server.namesIssuer ? { authorization_response_iss_parameter_supported: true } : {}),
  },
  clientInformation: informationOf(registration),
  ...(resource === undefined ? {} : { resource }),
})

const informationOf = ({ clientId, clientSecret }: OauthRegistration) => ({
  client_id: clientId,
  ...(clientSecret === undefined ? {} : { client_secret: clientSecret }),
})

const tokensOf = (tokens: Awaited<ReturnType<typeof exchangeAuthorization>>): OauthTokens => ({
  accessToken: tokens.access_token,
  refreshToken: tokens.refresh_token,
  expiresInSecs: tokens.expires_in,
})

/** The other side's text goes into the details, marked as such. */
async function named<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof AppError) throw error
    const said = String((error as Error)?.message ?? error).slice(0, limits.mcpErrorCharsMax)
    if (error instanceof OAuthError) {
      throw new AppError(
        'ERR_UPSTREAM_UNAUTHORIZED',
        'The authorization server of the MCP server rejected the request.',
        { oauth_error: String(error.code), server_said: said },
        { cause: error, quotes: ['oauth_error', 'server_said'] },
      )
    }
    throw new AppError(
      'ERR_UPSTREAM_UNAVAILABLE',
      'The authorization server of the MCP server cannot be reached, or does not follow OAuth 2.1.',
      { server_said: said },
      { cause: error, quotes: ['server_said'] },
    )
  }
}
