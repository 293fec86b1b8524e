/** Bounds of what people do: sign in, invite, and let clients act for them. */
export const peopleLimits = {
  passwordCharsMin: 12,
  passwordCharsMax: 256,
  usersPerTenantMax: 10_000,
  userTeamsPerTenantMax: 1_000,
  serviceClientsPerTenantMax: 1_000,
  gatewaysPerClientMax: 100,
  /** How long a sign-in lasts without use, and how often its end is moved on. */
  userSessionMs: 7 * 24 * 3_600_000,
  userSessionTouchMs: 24 * 3_600_000,
  userSessionsPerUserMax: 100,
  passkeysPerUserMax: 20,
  invitationMs: 7 * 24 * 3_600_000,
  invitationMsMax: 30 * 24 * 3_600_000,
  /** Failures at one e-mail address that cost no wait, the first and the longest wait, and how far back they count. */
  signInFreeFailures: 5,
  signInWaitMs: 10_000,
  signInWaitMsMax: 15 * 60_000,
  signInWindowMs: 3_600_000,
  /** Failures from one address in that time before it has to wait, whatever e-mail addresses it tries. */
  signInFailuresPerAddressMax: 100,
  /** Passwords that are being compared or wait for it; each comparison takes a processor for a good part of a second. */
  signInsAtOnceMax: 64,
  signInAttemptsRetained: 50_000,
  personNameCharsMax: 128,
  /** Requests of one address to the endpoints of the OAuth server, and addresses that are counted at once. */
  oauthRequestsPerMinuteMax: 120,
  oauthAddressesMax: 10_000,
  /** One request to them; clients that registered themselves; and how many of those that nobody allowed make room at a time. */
  oauthBodyBytesMax: 16 * 1024,
  oauthClientsMax: 5_000,
  oauthClientsRemoved: 50,
  oauthResourcesMax: 10_000,
  accessTokenMs: 3_600_000,
  refreshTokenMs: 30 * 24 * 3_600_000,
  authorizationCodeMs: 60_000,
  /** Documents that describe clients: their size, how many are fetched at once and how long, and how long what they say is good. */
  clientDocumentBytesMax: 64 * 1024,
  clientDocumentsAtOnce: 8,
  clientDocumentFetchMs: 5_000,
  clientDocumentFreshMs: 3_600_000,
  clientDocumentStaleMs: 24 * 3_600_000,
  clientIdCharsMax: 2_048,
  clientRedirectsMax: 32,
  /** Each step of handing a mail over. */
  mailConnectMs: 10_000,
  /** One request to an identity provider, and a whole sign-in with it after the person came back. */
  oidcRequestMs: 10_000,
  oidcSignInMs: 30_000,
} as const
