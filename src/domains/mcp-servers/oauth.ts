import type { SubjectToken } from '../../contract/upstream-tools.ts'
import type { ExchangeConfig, OauthConfig } from './rules.ts'

/** An authorisation server, as much of its metadata (RFC 8414) as is needed again. */
export type AuthorizationServer = Readonly<{
  issuer: string
  authorizationEndpoint: string
  tokenEndpoint: string
  /** How clients may authenticate at the token endpoint; undefined where the metadata does not tell. */
  authMethods: readonly string[] | undefined
  /** Answers of the authorisation endpoint name the issuer (RFC 9207). */
  namesIssuer: boolean
}>

/** What we are to an authorisation server: configured, or registered with it (RFC 7591). */
export type OauthRegistration = Readonly<{ clientId: string; clientSecret?: string | undefined; redirectUri: string }>

export type OauthTokens = Readonly<{
  accessToken: string
  refreshToken: string | undefined
  expiresInSecs: number | undefined
}>

/** Who is asked, and as whom. The tokens are for this address and for no other. */
export type GrantTerms = Readonly<{
  serverUrl: string
  server: AuthorizationServer
  registration: OauthRegistration
  /** The resource that tokens are bound to (RFC 8707). */
  resource: string | undefined
  scope: string | undefined
}>

/** What is kept, encrypted, once a person has allowed it. */
export type Grant = GrantTerms &
  Readonly<{ accessToken: string; refreshToken: string | undefined; expiresAtMs: number | null }>

/** What is kept, encrypted, while a person is asked. */
export type PendingGrant = GrantTerms & Readonly<{ deploymentId: string; url: string; verifier: string }>

export type GrantRequest = Readonly<{
  serverUrl: string
  config: OauthConfig | undefined
  clientSecret: string | undefined
  redirectUri: string
  state: string
  /** What the authorisation server calls us when it asks the person. */
  clientName: string
  /** A registration from before, which is used again where it fits. */
  known: Pick<Grant, 'server' | 'registration'> | undefined
}>

/**
 * The client of OAuth 2.1. Every address that it asks was judged. Failures are AppErrors; what the authorisation server said is in
 * their details.
 */
export type OauthClient = Readonly<{
  /** Finds the authorisation server, registers with it where needed, and makes the address to which a person goes. */
  begin(request: GrantRequest, signal: AbortSignal): Promise<Omit<PendingGrant, 'deploymentId'>>
  redeem(
    pending: PendingGrant,
    answer: Readonly<{ code: string; iss: string | undefined }>,
    signal: AbortSignal,
  ): Promise<OauthTokens>
  refresh(grant: Grant, signal: AbortSignal): Promise<OauthTokens>
  /** A token for a server in return for one of a caller (RFC 8693). `config` has the client's secret itself. */
  exchange(config: ExchangeConfig, subject: SubjectToken, signal: AbortSignal): Promise<OauthTokens>
}>
