import type { SubjectToken } from '../../contract/upstream-tools.ts'
import type { ExchangeConfig, OauthConfig } from './rules.ts'

/** The parts of an authorisation server's metadata (RFC 8414) that are needed later. */
export type AuthorizationServer = Readonly<{
  issuer: string
  authorizationEndpoint: string
  tokenEndpoint: string
  /** Client authentication methods of the token endpoint; undefined if the metadata names none. */
  authMethods: readonly string[] | undefined
  /** Answers of the authorisation endpoint name the issuer (RFC 9207). */
  namesIssuer: boolean
}>

/** Our client at an authorisation server: configured, or registered (RFC 7591). */
export type OauthRegistration = Readonly<{ clientId: string; clientSecret?: string | undefined; redirectUri: string }>

export type OauthTokens = Readonly<{
  accessToken: string
  refreshToken: string | undefined
  expiresInSecs: number | undefined
}>

/** The authorisation server, our client there, and the only address that the tokens are for. */
export type GrantTerms = Readonly<{
  serverUrl: string
  server: AuthorizationServer
  registration: OauthRegistration
  /** The resource that tokens are bound to (RFC 8707). */
  resource: string | undefined
  scope: string | undefined
}>

/** Stored, encrypted, once a person has authorised it. */
export type Grant = GrantTerms &
  Readonly<{ accessToken: string; refreshToken: string | undefined; expiresAtMs: number | null }>

/** Stored, encrypted, while a person is asked. */
export type PendingGrant = GrantTerms & Readonly<{ deploymentId: string; url: string; verifier: string }>

export type GrantRequest = Readonly<{
  serverUrl: string
  config: OauthConfig | undefined
  clientSecret: string | undefined
  redirectUri: string
  state: string
  /** Our name when the authorisation server asks the person. */
  clientName: string
  /** An earlier registration, reused if it fits. */
  known: Pick<Grant, 'server' | 'registration'> | undefined
}>

/**
 * The OAuth 2.1 client. Every address is checked before use. Failures are AppErrors; the authorisation server's message is in
 * their details.
 */
export type OauthClient = Readonly<{
  /** Finds the authorisation server, registers with it if needed, and returns the address for the person. */
  begin(request: GrantRequest, signal: AbortSignal): Promise<Omit<PendingGrant, 'deploymentId'>>
  redeem(
    pending: PendingGrant,
    answer: Readonly<{ code: string; iss: string | undefined }>,
    signal: AbortSignal,
  ): Promise<OauthTokens>
  refresh(grant: Grant, signal: AbortSignal): Promise<OauthTokens>
  /** Exchanges a caller's token for a server's (RFC 8693). `config` contains the client's secret itself. */
  exchange(config: ExchangeConfig, subject: SubjectToken, signal: AbortSignal): Promise<OauthTokens>
}>
