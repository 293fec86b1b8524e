import type { Principal } from '../contract/principal.ts'

/** Where a request with a person's credential came from, and which address of this server it requests. */
export type PresentedCredential = Readonly<{
  address: string
  isLoopback: boolean
  resource: string
  isTerminal?: boolean
}>

/** A client that asks a person for consent. */
export type AskingClient = Readonly<{ name: string; uri: string | undefined; publisher: string | undefined }>

export type OpenInvitation = Readonly<{
  email: string
  /** Otherwise a person who is there chooses a password. */
  isNew: boolean
  /** Who made the link. */
  inviter: string
  tenant: string
}>

/** A browser, or a program that the person allowed to act for them. */
export type OwnSession = Readonly<{
  id: string
  kind: string
  name: string
  address: string | null
  created_at: string
}>

/** People, as HTTP needs them, through the domain and better-auth. Cookies are the values of `Set-Cookie`. */
export type PeopleGate = Readonly<{
  principals: Readonly<{
    ofCookie(header: string, presented: PresentedCredential, nowMs: number): Promise<Principal> | undefined
    isAccessToken(token: string): boolean
    ofAccessToken(token: string, presented: PresentedCredential, nowMs: number): Promise<Principal>
    /** Drops all cached identities: a token was revoked. */
    forget(): void
  }>
  accounts(): Promise<
    Readonly<{
      startProviderSignIn(
        origin: string,
        input: Readonly<{ provider: string; returnTo: string }>,
        headers: Headers,
      ): Promise<Readonly<{ url: string; cookies: readonly string[] }>>
      signOut(origin: string, headers: Headers): Promise<readonly string[]>
      passkeys: Readonly<{
        options(
          origin: string,
          ceremony: 'register' | 'sign-in',
          headers: Headers,
        ): Promise<Readonly<{ options: unknown; cookies: readonly string[] }>>
        list(
          origin: string,
          headers: Headers,
        ): Promise<readonly Readonly<{ id: string; name: string; createdAt: string }>[]>
      }>
      handle(origin: string, request: Request): Promise<Response>
      metadata(origin: string): Promise<Readonly<Record<string, unknown>>>
      findClient(origin: string, clientId: string): Promise<AskingClient | undefined>
      consent(origin: string, input: Readonly<{ accept: boolean; query: string }>, headers: Headers): Promise<string>
    }>
  >
  /** Whether there is anybody who could sign in. */
  hasPeople(): Promise<boolean>
  /** Throws ERR_UNAUTHENTICATED, or ERR_RATE_LIMITED after too many failures. */
  signIn(
    origin: string,
    input: Readonly<{ email: string; password: string }>,
    from: Readonly<{ address: string; headers: Headers }>,
  ): Promise<readonly string[]>
  /** With the browser's answer. Throws like `signIn`. */
  signInWithPasskey(
    origin: string,
    response: unknown,
    from: Readonly<{ address: string; headers: Headers }>,
  ): Promise<readonly string[]>
  /** For the signed-in person; recorded with the sign-in attempts. */
  addPasskey(
    origin: string,
    input: Readonly<{ response: unknown; name: string }>,
    from: Readonly<{ address: string; headers: Headers }>,
  ): Promise<void>
  removePasskey(origin: string, id: string, from: Readonly<{ address: string; headers: Headers }>): Promise<void>
  /** Where the person is signed in, besides their passkeys; and the end of one of these sessions. */
  listSessions(principal: Principal): Promise<readonly OwnSession[]>
  endSession(principal: Principal, id: string): Promise<void>
  /** Identity providers that people can sign in with. */
  providers: readonly Readonly<{ id: string; name: string }>[]
  /** The answer that a person brought from a provider. Throws ERR_PERMISSION_DENIED for one who is not admitted. */
  finishProviderSignIn(
    origin: string,
    input: Readonly<{ provider: string; request: Request; address: string }>,
  ): Promise<Readonly<{ location: string; cookies: readonly string[] }>>
  /** A token for a program that acts for itself, or the OAuth error. */
  issueClientToken(
    credentials: Readonly<{
      clientId: string
      secret: string
      resources: readonly string[]
      origin: string
      nowMs: number
    }>,
  ): Promise<
    | Readonly<{ access_token: string; expires_in: number; resource: string }>
    | Readonly<{ error: string; description: string }>
  >
  /** Terminals that wait for a person. Both throw ERR_NOT_FOUND for a code that is not valid, and ERR_RATE_LIMITED after too many. */
  devices: Readonly<{
    find(
      userCode: string,
      who: Readonly<{ principal: Principal; address: string }>,
    ): Promise<
      Readonly<{
        userCode: string
        clientId: string
        address: string
        scopes: readonly string[]
        resources: readonly string[]
      }>
    >
    answer(userCode: string, accept: boolean, who: Readonly<{ principal: Principal; address: string }>): Promise<void>
  }>
  findInvitation(token: string): Promise<OpenInvitation | undefined>
  /** Returns the e-mail address of the person, who can sign in now. */
  acceptInvitation(token: string, input: Readonly<{ name: string; password: string }>): Promise<string>
  /** Called before a client registers itself: the oldest unauthorised ones are removed. Throws ERR_BUSY if there are none. */
  requireClientCapacity(): Promise<void>
  /** Makes an address of this server a resource for tokens. */
  ensureResource(identifier: string): Promise<void>
}>
