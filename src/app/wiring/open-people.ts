import { createHash, sign } from 'node:crypto'
import type { Accounts } from '../../accounts/create-accounts.ts'
import type { NoteSigner } from '../../audit/checkpoint.ts'
import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { isPermitted } from '../../contract/permissions.ts'
import { isBuiltInRole, LOCAL_TENANT, type Role, type TenantId } from '../../contract/principal.ts'
import { canSee, viewerOf } from '../../contract/sharing.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { RoleHolders } from '../../domains/identity/ports.ts'
import { grantedBy, grantedToGive, holdRole } from '../../domains/identity/roles.ts'
import type { IdentityService } from '../../domains/identity/service.ts'
import { userBehind } from '../../domains/identity/user-behind.ts'
import type { LogIdentity } from '../../domains/log/ports.ts'
import { createDeviceAuthorizations } from '../../domains/people/device-authorizations.ts'
import { createPasswords } from '../../domains/people/password.ts'
import type { GrantingRoles, Mailer } from '../../domains/people/ports.ts'
import { createPeoplePrincipals, type PeoplePrincipals } from '../../domains/people/principals.ts'
import type { ProviderTokens } from '../../domains/people/provider-tokens.ts'
import { checkEmail, checkPassword, principalOfUser } from '../../domains/people/rules.ts'
import { createPeopleService, openInvitation, type PeopleService } from '../../domains/people/service.ts'
import { createClientTokens } from '../../domains/people/service-clients.ts'
import { createSignInGuard } from '../../domains/people/sign-in.ts'
import { resourceOf } from '../../domains/profiles/rules.ts'
import type { OwnSession, PeopleGate } from '../../http/people-gate.ts'
import { randomId } from '../../kernel/random.ts'
import { sqlApiKeyStore } from '../../stores/sql/api-key-store.ts'
import { sqlDeviceStore } from '../../stores/sql/device-store.ts'
import { sqlPeopleLists } from '../../stores/sql/people-lists.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import { sqlProfileStore } from '../../stores/sql/profile-store.ts'
import { sqlRoleStore } from '../../stores/sql/role-store.ts'
import { sqlServiceClientStore } from '../../stores/sql/service-client-store.ts'
import type { ToolHost } from '../../tools/runtime/tool-host.ts'
import type { AppDeps } from '../build-app.ts'
import { addressOfLater } from '../link-origin.ts'
import { once } from './once.ts'
import type { OwnerWatch } from './open-owner-watch.ts'
import { type ConfiguredProvider, callAs, createProviderSignIn, usableProviders } from './provider-sign-in.ts'

export type OpenedPeople = Readonly<{
  service: PeopleService
  principals: PeoplePrincipals
  gate: PeopleGate
  accounts(): Promise<Accounts>
  providers: readonly ConfiguredProvider[]
  /** Who has a role, besides keys. */
  holdersOf(tx: ReadTx, tenant: TenantId, role: Role, nowMs: number): Promise<RoleHolders>
}>

type PeopleParts = Readonly<{
  database: Database
  ownerWatch: OwnerWatch
  logIdentity: LogIdentity
  identity: Pick<IdentityService, 'endKeysOfUser'>
  host(): ToolHost
  /** Available once the secrets are open. */
  providerTokens(): Promise<ProviderTokens>
}>

const roles: GrantingRoles = {
  grantedBy: (...args) => grantedBy(sqlRoleStore, ...args),
  grantedToGive: (...args) => grantedToGive(sqlRoleStore, ...args),
  hold: (...args) => holdRole(sqlRoleStore, ...args),
}

/**
 * People and their identities. better-auth is loaded with the first page or authorisation; a session or a token does not need it.
 */
export async function openPeople(deps: AppDeps, parts: PeopleParts): Promise<OpenedPeople> {
  const { config, clock, random, logger } = deps
  const { database, ownerWatch, host } = parts
  const store = sqlPeopleStore
  const passwords = createPasswords(random, deps.passwordCost)
  const clients = sqlServiceClientStore
  const providers = usableProviders(config)
  const secret = sessionSecret(parts.logIdentity.signer)
  const principals = createPeoplePrincipals({ store, clients, roles, read: database.read, secret })
  ownerWatch.onSignedOut(() => principals.forget())
  const service = createPeopleService({
    lists: sqlPeopleLists,
    store,
    roles,
    random,
    passwords,
    providers: providers.map(({ rules }) => rules),
    linkAddress: () => deps.linksAt?.() ?? addressOfLater(config),
    noteRevoked: ownerWatch.userChanged,
    noteTeamRemoved: ownerWatch.teamRemoved,
    endKeys: parts.identity.endKeysOfUser,
    userBehind: (...args) => userBehind(sqlApiKeyStore, ...args),
    mailer: mailerOf(deps),
    clients,
    async seesGateway({ read, principal }, tenant, reference) {
      const gateways = await sqlProfileStore.findNamed(read, tenant, 'mcp_gateway', reference)
      const agents = await sqlProfileStore.findNamed(read, tenant, 'agent', reference)
      const byId = await sqlProfileStore.findProfile(read, tenant, reference)
      return [...gateways, ...agents, ...(byId === undefined ? [] : [byId])].some(({ id, kind, slug, sharing }) => {
        if (kind !== 'mcp_gateway' && kind !== 'agent') return false
        return [id, slug].includes(reference) && canSee(principal, resourceOf(kind), sharing)
      })
    },
    async listedGateways({ read, principal }, tenant) {
      if (!isPermitted(principal, 'mcpGateway:read')) return []
      const filter = { kind: 'mcp_gateway', viewer: viewerOf(principal, 'mcpGateway') } as const
      const page = { limit: limits.listedRowsMax, offset: 0 }
      return (await sqlProfileStore.listProfiles(read, tenant, filter, page)).map(({ slug }) => slug)
    },
    noteClientRevoked: ownerWatch.keyRevoked,
  })
  const guard = createSignInGuard({ store, database })
  const devices = createDeviceAuthorizations({ store: sqlDeviceStore, people: store, database, guard, random, clock })
  const accounts = once(async (): Promise<Accounts> => {
    const [{ createAccounts }, { createLibraryDatabase }, { createCheckedFetch }] = await Promise.all([
      import('../../accounts/create-accounts.ts'),
      import('../../stores/sql/library-database.ts'),
      import('../../web-client/checked-fetch.ts'),
    ])
    const allowedNetworks = config.web.allow_private_addresses
    const web = createCheckedFetch({ allowedNetworks, messageBytesMax: limits.clientDocumentBytesMax })
    const db = createLibraryDatabase(database)
    return createAccounts({
      db,
      fetchDocument: web.fetch,
      clock,
      secret,
      passwords,
      random,
      logger,
      providers,
      devices,
    })
  })

  const finishProviderSignIn = createProviderSignIn({
    providers,
    accounts,
    store,
    read: database.read,
    guard,
    clock,
    host,
    keepTokens: async (...args) => await (await parts.providerTokens()).keep(...args),
  })
  const gate: PeopleGate = {
    accounts,
    principals,
    hasPeople: async () => providers.length > 0 || (await store.countUsers(database.read)) > 0,
    async signIn(origin, { email, password }, { address, headers }) {
      const attempt = { email: email.trim().toLowerCase().slice(0, 320), address, nowMs: clock.nowMs() }
      const release = await guard.admit(attempt)
      try {
        const cookies = await (await accounts()).signIn(origin, { email: attempt.email, password }, headers)
        await guard.note({ ...attempt, nowMs: clock.nowMs() }, cookies === undefined ? 'refused' : 'signed_in')
        if (cookies !== undefined) return cookies
      } finally {
        release()
      }
      throw new AppError('ERR_UNAUTHENTICATED', 'The e-mail address or the password is wrong.')
    },
    async signInWithPasskey(origin, response, { address, headers }) {
      const release = await guard.admit({ email: '', address, nowMs: clock.nowMs() })
      try {
        const signedIn = await (await accounts()).passkeys.signIn(origin, response, headers)
        const attempt = { email: signedIn?.email ?? '', address, nowMs: clock.nowMs() }
        await guard.note(attempt, signedIn === undefined ? 'refused' : 'signed_in')
        if (signedIn !== undefined) return signedIn.cookies
      } finally {
        release()
      }
      throw new AppError(
        'ERR_UNAUTHENTICATED',
        'This passkey is unknown or could not be verified. Sign in another way.',
      )
    },
    async addPasskey(origin, input, { address, headers }) {
      const email = await (await accounts()).passkeys.add(origin, input, headers)
      await guard.note({ email, address, nowMs: clock.nowMs() }, 'passkey_added')
    },
    async removePasskey(origin, id, { address, headers }) {
      const email = await (await accounts()).passkeys.remove(origin, id, headers)
      await guard.note({ email, address, nowMs: clock.nowMs() }, 'passkey_removed')
    },
    async listSessions(principal) {
      const { sessions } = await callAs(host(), principal, 'user_session_list', {})
      return (sessions as readonly OwnSession[]).filter(({ kind }) => kind !== 'passkey')
    },
    async endSession(principal, id) {
      await callAs(host(), principal, 'user_session_revoke', { session: id })
    },
    providers,
    finishProviderSignIn,
    devices,
    issueClientToken: createClientTokens({ clients, database, random }),
    async findInvitation(token) {
      const found = await openInvitation(store, database.read, token, clock.nowMs())
      return (
        found && {
          email: found.email,
          isNew: found.userId === null,
          inviter: found.createdBy,
          tenant: found.tenant,
        }
      )
    },
    async acceptInvitation(token, { name, password }) {
      const found = await openInvitation(store, database.read, token, clock.nowMs())
      if (found === undefined)
        throw new AppError(
          'ERR_NOT_FOUND',
          'This link was already used, was cancelled or has expired. Ask for a new one.',
        )
      checkPassword(password)
      const invited = { ...found, id: found.userId ?? found.id, email: checkEmail(found.email), name: '' }
      const args = { token, ...(name === '' ? {} : { name }), password }
      const granted = await roles.grantedBy(database.read, found.tenant, found.role)
      await callAs(host(), principalOfUser(invited, granted, []), 'invitation_accept', args)
      return found.email
    },
    async requireClientCapacity() {
      if ((await store.countClients(database.read)) < limits.oauthClientsMax) return
      const hasCapacity = await database.write(LOCAL_TENANT, (tx) =>
        store.deleteUnusedClients(tx, limits.oauthClientsRemoved),
      )
      if (hasCapacity) return
      throw new AppError('ERR_BUSY', 'Too many clients have registered. Try again later.', { retry_after_ms: 60_000 })
    },
    async ensureResource(identifier) {
      if (await store.hasResource(database.read, identifier)) return
      const id = randomId(random, 'res')
      await database.write(LOCAL_TENANT, (tx) => store.insertResource(tx, { id, identifier, atMs: clock.nowMs() }))
    },
  }
  const holdersOf: OpenedPeople['holdersOf'] = async (tx, tenant, role, nowMs) => ({
    ...(await store.countOfRole(tx, tenant, role, nowMs)),
    clients: await clients.countClientsOfRole(tx, tenant, role),
    providers: providers.filter(({ rules }) => rules.tenant === tenant && rules.role === role).map(({ id }) => id),
  })
  await warnOfMissingRoles(deps, database.read, providers)
  return { service, principals, gate, accounts, providers, holdersOf }
}

/** A role that the organisation does not have is reported at the start, not at the first sign-in. */
async function warnOfMissingRoles(
  { logger }: Pick<AppDeps, 'logger'>,
  read: ReadTx,
  providers: readonly ConfiguredProvider[],
): Promise<void> {
  for (const { rules } of providers) {
    const { id, tenant, role, newUsers } = rules
    if (newUsers !== 'create' || isBuiltInRole(role)) continue
    if ((await roles.grantedBy(read, tenant, role)).size > 0) continue
    logger.warn(
      `oidc_providers ${id}: the organisation '${tenant}' has no role '${role}', so people whom this provider vouches for do not become users. Create it with role_create, or change default_role.`,
    )
  }
}

function mailerOf({ config: { smtp }, logger }: AppDeps): (() => Promise<Mailer>) | undefined {
  const { host, port, user, password, from, tls } = smtp
  if (host === undefined) return undefined
  return once(async () => {
    const { createMailer } = await import('../../mail/create-mailer.ts')
    return createMailer({ host, port, user, password: password?.reveal(), from: from!, tls }, logger)
  })
}

const SECRET_TEXT = 'castellan: the secret that signs the sessions of people\n'

/**
 * The secret that signs cookies is derived from the log key, which every process on a store has: a session is valid in all of
 * them. An Ed25519 signature of a text is deterministic, and only the holder of the key can make it.
 */
function sessionSecret({ privateKey }: Pick<NoteSigner, 'privateKey'>): string {
  const signature = sign(null, Buffer.from(SECRET_TEXT), privateKey)
  return createHash('sha256').update(signature).digest('base64url')
}
