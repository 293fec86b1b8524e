import type { Call } from '../../contract/call.ts'
import type { AfterName, AfterNewest, PagedRows } from '../../contract/list-page.ts'
import type { Permission } from '../../contract/permissions.ts'
import type { Role, TenantId, Tier } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/** A person with an account. The organisation is the tenant; a person belongs to one. */
export type User = Readonly<{
  tenant: TenantId
  id: string
  email: string
  name: string
  role: Role
  tier: Tier
  createdBy: string
  createdAtMs: number
}>

/** What the roles of an organisation grant. Nothing else says what a person or a client may do. */
export type GrantingRoles = Readonly<{
  /** Empty for a role that does not exist. */
  grantedBy(tx: ReadTx, tenant: TenantId, role: Role): Promise<ReadonlySet<Permission>>
  /** The same for a role that a holder is to get: rejects with ERR_INVALID_INPUT if there is none of the name. */
  grantedToGive(call: Pick<Call, 'principal' | 'read'>, tenant: TenantId, role: Role): Promise<ReadonlySet<Permission>>
  /** Called before a role is looked up in the transaction that gives it: it is not deleted before that ends. */
  hold(tx: WriteTx, tenant: TenantId, role: Role): Promise<void>
}>

/** An open sign-in. `address` is where it began. */
export type UserSession = Readonly<{
  id: string
  userId: string
  createdAtMs: number
  expiresAtMs: number
  address: string | null
  userAgent: string | null
}>

/** A client that a person allowed to act for them. */
export type UserGrant = Readonly<{ id: string; userId: string; clientName: string; createdAtMs: number }>

/** An identity provider's tokens for a person, from a sign-in or a refresh. */
export type IssuedTokens = Readonly<{
  accessToken: string
  idToken: string | undefined
  refreshToken: string | undefined
  /** Of the access token; null if the provider does not say. */
  expiresAtMs: number | null
}>

/** Of scrypt. */
export type PasswordCost = Readonly<{ log2N: number; r: number; p: number }>

/** How passwords are kept and compared. */
export type Passwords = Readonly<{
  hash(password: string): Promise<string>
  verify(stored: string, password: string): Promise<boolean>
}>

export type UserTeam = Readonly<{
  tenant: TenantId
  id: string
  name: string
  description: string
  createdBy: string
  createdAtMs: number
}>

/** The person with its link becomes a user, once. With `userId` it is a link for a user to choose a password. */
export type Invitation = Readonly<{
  tenant: TenantId
  id: string
  tokenHash: string
  email: string
  role: Role
  tier: Tier
  teams: readonly string[]
  userId: string | null
  createdBy: string
  createdAtMs: number
  expiresAtMs: number
  acceptedAtMs: number | null
  cancelledAtMs: number | null
}>

/** Besides attempts, changes of passkeys, and what a person did with the code of a terminal. */
export type SignInOutcome =
  | 'signed_in'
  | 'refused'
  | 'slowed'
  | 'passkey_added'
  | 'passkey_removed'
  | 'device_allowed'
  | 'code_refused'

export type UserPasskey = Readonly<{ id: string; name: string; createdAtMs: number }>
export type SignInAttempt = Readonly<{
  atMs: number
  email: string
  address: string
  outcome: SignInOutcome
  tenant: TenantId | null
  userId: string | null
}>

/** The contents of an access token: the user, the client, and the address of this server. */
export type AccessToken = Readonly<{
  id: string
  clientId: string
  userId: string | null
  reference: string | null
  resources: readonly string[]
  scopes: readonly string[]
  expiresAtMs: number
}>

/**
 * Every method answers for one tenant only, except those that authentication needs before the tenant is known: by e-mail address,
 * by session token, by access token and by the hash of an invitation.
 */
export type PeopleStore = Readonly<{
  insertUser(tx: WriteTx, user: User): Promise<void>
  updateUser(tx: WriteTx, user: User, atMs: number): Promise<void>
  deleteUser(tx: WriteTx, tenant: TenantId, id: string): Promise<void>
  /** Counts that the user must authenticate again, for other processes on the store. */
  countSignOut(tx: WriteTx, tenant: TenantId, id: string): Promise<void>
  /** Undefined if there is no such user. */
  signOutsOf(tx: ReadTx, tenant: TenantId, id: string): Promise<number | undefined>
  findUser(tx: ReadTx, tenant: TenantId, id: string): Promise<User | undefined>
  listUsers(tx: ReadTx, tenant: TenantId, limit: number): Promise<User[]>
  countUsers(tx: ReadTx): Promise<number>
  /** How many users have the role, and how many people with an open invitation would get it. */
  countOfRole(
    tx: ReadTx,
    tenant: TenantId,
    role: Role,
    nowMs: number,
  ): Promise<Readonly<{ users: number; invitations: number }>>
  /** Addresses are unique over all tenants, in lower case. */
  findUserByEmail(tx: ReadTx, email: string): Promise<User | undefined>
  findUserById(tx: ReadTx, id: string): Promise<User | undefined>
  /** Ids of the users who have a password or have come with an identity provider. */
  listUsersWithSignIn(tx: ReadTx, tenant: TenantId): Promise<string[]>
  setPassword(tx: WriteTx, account: Readonly<{ id: string; userId: string; hash: string; atMs: number }>): Promise<void>

  listSessions(tx: ReadTx, userId: string, nowMs: number): Promise<UserSession[]>
  listGrants(tx: ReadTx, userId: string): Promise<UserGrant[]>
  listPasskeys(tx: ReadTx, userId: string): Promise<UserPasskey[]>
  /** These return whether there was one. The tokens of a grant end with it. */
  deleteSession(tx: WriteTx, userId: string, id: string): Promise<boolean>
  deleteGrant(tx: WriteTx, userId: string, id: string): Promise<boolean>
  deletePasskey(tx: WriteTx, userId: string, id: string): Promise<boolean>
  /** All sessions and passkeys of a user, and the tokens of all their clients. */
  deleteAllSessions(tx: WriteTx, userId: string): Promise<void>
  findSessionByToken(tx: ReadTx, token: string): Promise<UserSession | undefined>
  findAccessToken(tx: ReadTx, tokenHash: string): Promise<AccessToken | undefined>

  countClients(tx: ReadTx): Promise<number>
  /** Removes the oldest self-registered clients that no user has authorised. Returns whether there were any. */
  deleteUnusedClients(tx: WriteTx, limit: number): Promise<boolean>

  /** Addresses of this server that tokens can be for. Their number is bounded: the oldest are removed, and return on demand. */
  hasResource(tx: ReadTx, identifier: string): Promise<boolean>
  insertResource(tx: WriteTx, resource: Readonly<{ id: string; identifier: string; atMs: number }>): Promise<void>

  insertTeam(tx: WriteTx, team: UserTeam): Promise<void>
  updateTeam(tx: WriteTx, team: UserTeam): Promise<void>
  deleteTeam(tx: WriteTx, tenant: TenantId, id: string): Promise<void>
  findTeam(tx: ReadTx, tenant: TenantId, idOrName: string): Promise<UserTeam | undefined>
  listTeams(tx: ReadTx, tenant: TenantId, limit: number): Promise<UserTeam[]>
  addMember(tx: WriteTx, tenant: TenantId, teamId: string, userId: string): Promise<void>
  removeMember(tx: WriteTx, tenant: TenantId, teamId: string, userId: string): Promise<void>
  /** By team, for all teams of the tenant. */
  listMembers(tx: ReadTx, tenant: TenantId): Promise<readonly Readonly<{ teamId: string; userId: string }>[]>
  teamsOf(tx: ReadTx, userId: string): Promise<string[]>

  insertInvitation(tx: WriteTx, invitation: Invitation): Promise<void>
  findInvitation(tx: ReadTx, tenant: TenantId, id: string): Promise<Invitation | undefined>
  findInvitationByHash(tx: ReadTx, tokenHash: string): Promise<Invitation | undefined>
  /** The newest invitation by which a person with the address could still become a user. */
  findOpenInvitation(tx: ReadTx, tenant: TenantId, email: string, nowMs: number): Promise<Invitation | undefined>
  /** All that can still be used with this address, whether the user exists or not. */
  listOpenInvitations(tx: ReadTx, tenant: TenantId, email: string, nowMs: number): Promise<Invitation[]>
  /** Those that a caller of this name created. */
  listOpenInvitationsBy(tx: ReadTx, tenant: TenantId, createdBy: string, nowMs: number): Promise<Invitation[]>
  /** Both return whether this call did it: an invitation ends once. */
  acceptInvitation(tx: WriteTx, tenant: TenantId, id: string, atMs: number): Promise<boolean>
  cancelInvitation(tx: WriteTx, tenant: TenantId, id: string, atMs: number): Promise<boolean>

  insertAttempt(tx: WriteTx, attempt: SignInAttempt): Promise<void>
  /** Successes and failures, newest first. */
  attemptsOf(tx: ReadTx, email: string, sinceMs: number): Promise<SignInAttempt[]>
  /** Wrong codes of terminals, newest first. */
  codeFailuresOf(tx: ReadTx, email: string, sinceMs: number): Promise<SignInAttempt[]>
  /** From the address, and in IPv6 from its network of 64 bits. */
  countRefusedFrom(tx: ReadTx, address: string, sinceMs: number, outcome?: 'refused' | 'code_refused'): Promise<number>
}>

/** A program that acts for itself, at the gateways in its list. Its secret is stored as a hash. */
export type ServiceClient = Readonly<{
  tenant: TenantId
  id: string
  name: string
  secretHash: string
  role: Role
  tier: Tier
  /** Slugs or ids. */
  gateways: readonly string[]
  createdAtMs: number
  createdBy: string
}>

type NewClientToken = Readonly<{
  id: string
  tokenHash: string
  clientId: string
  resource: string
  atMs: number
  expiresAtMs: number
}>

/** Every method answers for one tenant only, except those that authentication needs before it knows the tenant. */
export type ServiceClientStore = Readonly<{
  insertClient(tx: WriteTx, client: ServiceClient): Promise<void>
  /** Its tokens end with it. */
  deleteClient(tx: WriteTx, tenant: TenantId, id: string): Promise<void>
  findClient(tx: ReadTx, tenant: TenantId, idOrName: string): Promise<ServiceClient | undefined>
  findClientById(tx: ReadTx, id: string): Promise<ServiceClient | undefined>
  listClients(tx: ReadTx, tenant: TenantId, limit: number): Promise<ServiceClient[]>
  countClientsOfRole(tx: ReadTx, tenant: TenantId, role: Role): Promise<number>
  /** Also removes the client's expired tokens. */
  insertToken(tx: WriteTx, token: NewClientToken): Promise<void>
}>

/** Lists of one tenant, for pages. A filter that is absent lets everything pass; `text` is a part, in any case. */
export type PeopleLists = Readonly<{
  /** By e-mail address; `text` in the address or the name. */
  users(
    tx: ReadTx,
    tenant: TenantId,
    filter: Readonly<{ text?: string | undefined; role?: string | undefined }>,
  ): PagedRows<User, AfterName>
  /** By name. */
  teams(tx: ReadTx, tenant: TenantId, filter: Readonly<{ text?: string | undefined }>): PagedRows<UserTeam, AfterName>
  clients(
    tx: ReadTx,
    tenant: TenantId,
    filter: Readonly<{ text?: string | undefined }>,
  ): PagedRows<ServiceClient, AfterName>
  /** Newest first; `text` in the address. */
  invitations(
    tx: ReadTx,
    tenant: TenantId,
    filter: Readonly<{ text?: string | undefined; status?: string | undefined }>,
    nowMs: number,
  ): PagedRows<Invitation, AfterNewest>
  /** The last written first, each with its number. */
  attempts(
    tx: ReadTx,
    tenant: TenantId,
    filter: Readonly<{ text?: string | undefined; outcome?: string | undefined }>,
  ): PagedRows<SignInAttempt & Readonly<{ row: number }>, number>
}>

/** A terminal that waits for a person to allow it (RFC 8628). Its own code is stored as a hash. */
export type DeviceAuthorization = Readonly<{
  id: string
  codeHash: string
  /** What the person types. */
  userCode: string
  clientId: string
  scopes: readonly string[]
  resources: readonly string[]
  /** Where the terminal is. */
  address: string
  createdAtMs: number
  expiresAtMs: number
  status: 'pending' | 'allowed' | 'denied'
  /** Who answered. */
  userId: string | null
  /** How long the terminal waits between two requests, and when it asked last. */
  intervalMs: number
  polledAtMs: number | null
}>

/** Their tenant is known only once a person has answered. */
export type DeviceStore = Readonly<{
  insertDevice(tx: WriteTx, device: DeviceAuthorization): Promise<void>
  deleteExpiredDevices(tx: WriteTx, beforeMs: number): Promise<void>
  /** How many there are, over all and from the network of the address. */
  countDevices(tx: ReadTx, address: string): Promise<Readonly<{ all: number; here: number }>>
  findDeviceByHash(tx: ReadTx, codeHash: string): Promise<DeviceAuthorization | undefined>
  findDeviceByUserCode(tx: ReadTx, userCode: string): Promise<DeviceAuthorization | undefined>
  notePoll(tx: WriteTx, id: string, poll: Readonly<{ polledAtMs: number; intervalMs: number }>): Promise<void>
  /** Both return whether this call did it: a request is answered once, and its token is fetched once. */
  answerDevice(
    tx: WriteTx,
    id: string,
    answer: Readonly<{ status: 'allowed' | 'denied'; userId: string; nowMs: number }>,
  ): Promise<boolean>
  takeAllowed(tx: WriteTx, id: string): Promise<boolean>
  /** The person's consent to the client, with which its tokens are listed and end. Does nothing if there is one. */
  insertConsent(
    tx: WriteTx,
    consent: Readonly<{
      id: string
      userId: string
      clientId: string
      scopes: readonly string[]
      resources: readonly string[]
      atMs: number
    }>,
  ): Promise<void>
}>

/** Passes a mail to a mail server; returns whether that accepted it. */
export type Mailer = Readonly<{
  send(mail: Readonly<{ to: string; subject: string; text: string }>): Promise<boolean>
}>
