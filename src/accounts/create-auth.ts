import { type OAuthOptions, oauthProvider, type Scope } from '@better-auth/oauth-provider'
import { type BetterAuthPlugin, betterAuth } from 'better-auth'
import { limits } from '../contract/limits.ts'
import type { Passwords } from '../domains/people/ports.ts'
import { ACCESS_TOKEN_PREFIX, hashOfToken, TERMINAL_SCOPE } from '../domains/people/rules.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import { type Random, randomId } from '../kernel/random.ts'
import { createClientDiscovery, type JudgedFetch } from './client-metadata.ts'
import { type DeviceGrants, deviceGrant, deviceRequests } from './device-grant.ts'
import { editorRegistrations, storingEditorRedirects } from './editor-redirects.ts'
import { passkeyPlugin } from './passkeys.ts'

export type AuthDeps = Readonly<{
  /** Our store, as an instance of Kysely for the library. */
  db: object
  secret: string
  passwords: Passwords
  random: Random
  logger: Logger
  /** Fetches a client's document (`client-metadata.ts`). */
  fetchDocument: JudgedFetch
  clock: Pick<Clock, 'nowMs'>
  devices: DeviceGrants
}>

/** The header with a client's address; one that a client sends is dropped before. */
const CLIENT_ADDRESS_HEADER = 'x-castellan-client'
export const AUTH_PATH = '/auth'
/** A client acts as the person; the only choice is whether it may do so while the person is away. */
const SCOPES = ['offline_access', TERMINAL_SCOPE] as const

/**
 * better-auth for one address of this server: passwords, sessions and their cookies, and the OAuth authorisation server. Its
 * tables are in our store (`people-migrations.ts`). Access tokens are opaque and looked up, so that a revocation takes effect at
 * once.
 */
export function createAuth(
  { db, secret, passwords, random, logger, fetchDocument, clock, devices }: AuthDeps,
  origin: string,
  more: readonly BetterAuthPlugin[] = [],
) {
  return betterAuth({
    appName: 'Castellan',
    baseURL: origin,
    basePath: AUTH_PATH,
    trustedOrigins: [origin],
    secret,
    database: { db: db as never, type: 'sqlite', transaction: false },
    telemetry: { enabled: false },
    logger: {
      level: 'warn',
      log: (level, message) => logger[level === 'error' ? 'warn' : 'debug'](`accounts: ${message}`),
    },
    emailAndPassword: {
      enabled: true,
      disableSignUp: true,
      minPasswordLength: limits.passwordCharsMin,
      maxPasswordLength: limits.passwordCharsMax,
      password: { hash: passwords.hash, verify: ({ hash, password }) => passwords.verify(hash, password) },
    },
    user: {
      modelName: 'users',
      fields: { emailVerified: 'email_verified', createdAt: 'created_at', updatedAt: 'updated_at' },
      additionalFields: {
        tenant: { type: 'string', required: true, input: false },
        role: { type: 'string', required: true, input: false },
        tier: { type: 'string', required: true, input: false },
        created_by: { type: 'string', required: true, input: false },
      },
    },
    session: {
      modelName: 'user_sessions',
      fields: {
        expiresAt: 'expires_at',
        createdAt: 'created_at',
        updatedAt: 'updated_at',
        ipAddress: 'ip_address',
        userAgent: 'user_agent',
        userId: 'user_id',
      },
      expiresIn: seconds(limits.userSessionMs),
      updateAge: seconds(limits.userSessionTouchMs),
    },
    account: {
      modelName: 'user_accounts',
      // Administrators and the rules of a provider create users: the person with the verified address is that user.
      accountLinking: { enabled: true, requireLocalEmailVerified: false, updateUserInfoOnLink: false },
    },
    databaseHooks: { account: { create: { before: withoutTokens }, update: { before: withoutTokens } } },
    verification: { modelName: 'user_verifications' },
    rateLimit: { enabled: false },
    advanced: {
      cookiePrefix: 'castellan',
      useSecureCookies: origin.startsWith('https:'),
      ipAddress: { ipAddressHeaders: [CLIENT_ADDRESS_HEADER] },
      database: { generateId: ({ model }) => randomId(random, model.toLowerCase().slice(0, 16)) },
    },
    plugins: [
      storingEditorRedirects(authorisationServer({ fetchDocument, clock, devices })),
      editorRegistrations(),
      deviceRequests(devices, CLIENT_ADDRESS_HEADER),
      passkeyPlugin(),
      ...more,
    ],
  })
}

/** A provider's tokens are used once, to identify the person, and not stored. */
const withoutTokens = async <T extends object>(account: T) => ({
  data: { ...account, accessToken: null, refreshToken: null, idToken: null },
})

const seconds = (ms: number): number => ms / 1000

/** OAuth 2.1 for people's clients. The library's types and ours differ in absent fields. */
function authorisationServer(deps: Pick<AuthDeps, 'fetchDocument' | 'clock' | 'devices'>): BetterAuthPlugin {
  const provider: Readonly<{ options?: unknown }> = oauthProvider({
    loginPage: '/sign-in',
    consentPage: '/consent',
    scopes: [...SCOPES],
    disableJwtPlugin: true,
    storeTokens: { hash: async (token) => hashOfToken(token) },
    prefix: { opaqueAccessToken: ACCESS_TOKEN_PREFIX, refreshToken: 'csr_', clientSecret: 'csc_' },
    allowDynamicClientRegistration: true,
    allowUnauthenticatedClientRegistration: true,
    enforcePerClientResources: false,
    accessTokenExpiresIn: seconds(limits.accessTokenMs),
    refreshTokenExpiresIn: seconds(limits.refreshTokenMs),
    codeExpiresIn: seconds(limits.authorizationCodeMs),
    grantTypes: ['authorization_code', 'refresh_token'],
    extensions: [
      { clientDiscovery: createClientDiscovery(deps, () => provider.options as OAuthOptions<Scope[]>) },
      deviceGrant(deps.devices),
    ],
    schema: {
      oauthClient: { modelName: 'oauth_clients' },
      oauthResource: { modelName: 'oauth_resources' },
      oauthClientResource: { modelName: 'oauth_client_resources' },
      oauthRefreshToken: { modelName: 'oauth_refresh_tokens' },
      oauthAccessToken: { modelName: 'oauth_access_tokens' },
      oauthConsent: { modelName: 'oauth_consents' },
      oauthClientAssertion: { modelName: 'oauth_client_assertions' },
    },
  })
  return provider as unknown as BetterAuthPlugin
}

export type Auth = ReturnType<typeof createAuth>
