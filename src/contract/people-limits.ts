/** Bounds for people: sign-in, invitations and authorised clients. */
export const peopleLimits = {
  passwordCharsMin: 12,
  passwordCharsMax: 256,
  usersPerTenantMax: 10_000,
  userTeamsPerTenantMax: 1_000,
  serviceClientsPerTenantMax: 1_000,
  gatewaysPerClientMax: 100,
  /** How long a sign-in lasts without use, and how often its expiry is extended. */
  userSessionMs: 7 * 24 * 3_600_000,
  userSessionTouchMs: 24 * 3_600_000,
  userSessionsPerUserMax: 100,
  passkeysPerUserMax: 20,
  invitationMs: 7 * 24 * 3_600_000,
  invitationMsMax: 30 * 24 * 3_600_000,
  /** Failures at one e-mail address before a wait, the first and the longest wait, and how far back failures count. */
  signInFreeFailures: 5,
  signInWaitMs: 10_000,
  signInWaitMsMax: 15 * 60_000,
  signInWindowMs: 3_600_000,
  /** Failures from one network address in that time before it has to wait, whatever e-mail addresses it tries. */
  signInFailuresPerAddressMax: 100,
  /** Passwords that are being compared or wait for it; each comparison uses a processor for most of a second. */
  signInsAtOnceMax: 64,
  signInAttemptsRetained: 50_000,
  personNameCharsMax: 128,
  /** Requests of one address to the endpoints of the OAuth server, and addresses that are counted at once. */
  oauthRequestsPerMinuteMax: 120,
  oauthAddressesMax: 10_000,
  /** The size of one request, clients that registered themselves, and how many unauthorised ones are removed at a time. */
  oauthBodyBytesMax: 16 * 1024,
  oauthClientsMax: 5_000,
  oauthClientsRemoved: 50,
  oauthResourcesMax: 10_000,
  accessTokenMs: 3_600_000,
  refreshTokenMs: 30 * 24 * 3_600_000,
  authorizationCodeMs: 60_000,
  /**
   * Terminals that wait for a person to allow them: for how long, how often they may ask, how much longer after asking too soon,
   * and how many wait, over all and from one network address.
   */
  deviceCodeMs: 10 * 60_000,
  devicePollMs: 5_000,
  devicePollAddedMs: 5_000,
  deviceAuthorizationsMax: 5_000,
  deviceAuthorizationsPerAddressMax: 50,
  /** Documents of clients: their size, how many are fetched at once, for how long, and how long they are cached. */
  clientDocumentBytesMax: 64 * 1024,
  clientDocumentsAtOnce: 8,
  clientDocumentFetchMs: 5_000,
  clientDocumentFreshMs: 3_600_000,
  clientDocumentStaleMs: 24 * 3_600_000,
  clientIdCharsMax: 2_048,
  clientRedirectsMax: 32,
  /** Time limit for each step of sending a mail. */
  mailConnectMs: 10_000,
  /** Time limit for one request to an identity provider, and for a whole sign-in after the person came back. */
  oidcRequestMs: 10_000,
  oidcSignInMs: 30_000,
} as const
