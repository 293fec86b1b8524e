import { timingSafeEqual } from 'node:crypto'
import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { rightsOf } from '../../contract/permissions.ts'
import type { BuiltInRole, Principal, TenantId, Tier } from '../../contract/principal.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import type { ServiceClient, ServiceClientStore } from './ports.ts'
import { ACCESS_TOKEN_PREFIX, checkPersonRights, hashOfToken, peopleTenant, tenantTaken } from './rules.ts'
import type { PeopleReading, PeopleWriting } from './service.ts'

export const SERVICE_CLIENT_PREFIX = 'client_'
const SECRET_PREFIX = 'csc_'

type InTenant = Readonly<{ tenant?: string | undefined }>

type ServiceClientView = Readonly<{
  id: string
  name: string
  tenant: TenantId
  role: BuiltInRole
  tier: Tier
  gateways: readonly string[]
  created_at: string
  created_by: string
}>

/** Programs that act for themselves and for no person: by client credentials, at the gateways that are listed for them. */
export type ServiceClientMethods = Readonly<{
  /** The secret is shown once. */
  createClient(
    call: PeopleWriting,
    input: InTenant &
      Readonly<{ name: string; gateways: readonly string[]; role: BuiltInRole; tier?: Tier | undefined }>,
  ): Promise<ServiceClientView & Readonly<{ client_secret: string }>>
  listClients(
    call: PeopleReading,
    input: InTenant,
  ): Promise<Readonly<{ clients: readonly ServiceClientView[]; truncated: boolean }>>
  deleteClient(call: PeopleWriting, input: InTenant & Readonly<{ client: string }>): Promise<ServiceClientView>
}>

export type ServiceClientDeps = Readonly<{
  clients: ServiceClientStore
  random: Random
  /** Told within the transaction that takes a client away. */
  noteClientRevoked(tenant: TenantId, clientId: string): void
}>

export function createServiceClients({ clients, random, noteClientRevoked }: ServiceClientDeps): ServiceClientMethods {
  return {
    async createClient(call, input) {
      const tenant = peopleTenant(call.principal, input.tenant)
      const rights = checkPersonRights(call.principal, input)
      if ((await clients.findClient(call.read, tenant, input.name)) !== undefined) {
        throw new AppError('ERR_ALREADY_EXISTS', 'name: a client has this name; choose another', { name: input.name })
      }
      const max = limits.serviceClientsPerTenantMax
      if ((await clients.listClients(call.read, tenant, max)).length >= max) throw tenantTaken('clients', max)
      const secret = `${SECRET_PREFIX}${random.bytes(32).toString('base64url')}`
      const client: ServiceClient = {
        tenant,
        id: randomId(random, SERVICE_CLIENT_PREFIX.slice(0, -1)),
        name: input.name,
        secretHash: hashOfToken(secret),
        ...rights,
        gateways: [...new Set(input.gateways)],
        createdAtMs: call.nowMs,
        createdBy: call.principal.actor,
      }
      await clients.insertClient(call.write, client)
      call.record({ kind: 'oauth_client_created', body: bodyOf(client) })
      return { ...viewOf(client), client_secret: secret }
    },

    async listClients({ principal, read }, input) {
      const tenant = peopleTenant(principal, input.tenant)
      const found = await clients.listClients(read, tenant, limits.apiKeyListMax + 1)
      const displayed = found.slice(0, limits.apiKeyListMax).map(viewOf)
      return { clients: displayed, truncated: found.length > displayed.length }
    },

    async deleteClient(call, input) {
      const tenant = peopleTenant(call.principal, input.tenant)
      const client = await clients.findClient(call.read, tenant, input.client)
      if (client === undefined) {
        const message =
          'client: there is none with this id or name; castellan clients list (oauth_client_list) shows them'
        throw new AppError('ERR_NOT_FOUND', message, { client: input.client.slice(0, 128) })
      }
      checkPersonRights(call.principal, client)
      await clients.deleteClient(call.write, tenant, client.id)
      call.record({ kind: 'oauth_client_deleted', body: bodyOf(client) })
      noteClientRevoked(tenant, client.id)
      return viewOf(client)
    },
  }
}

/** Why a request for a token is refused, in the words of RFC 6749 and 8707. */
type TokenRefusal = Readonly<{ error: 'invalid_client' | 'invalid_target'; description: string }>
type ClientToken = Readonly<{ access_token: string; expires_in: number; resource: string }>

/**
 * The client credentials grant. A token is for one of the gateways in the list of the client: the one that is named, or the only one.
 * A client whose list is empty gets none.
 */
export function createClientTokens(
  deps: Readonly<{ clients: ServiceClientStore; database: Pick<Database, 'read' | 'write'>; random: Random }>,
) {
  const { clients, database, random } = deps
  return async (
    asked: Readonly<{ clientId: string; secret: string; resources: readonly string[]; origin: string; nowMs: number }>,
  ): Promise<ClientToken | TokenRefusal> => {
    const client = await clients.findClientById(database.read, asked.clientId.slice(0, 128))
    if (client === undefined || !isSecretOf(client, asked.secret)) {
      return { error: 'invalid_client', description: 'The client or its secret is not known.' }
    }
    const allowed = client.gateways.map((gateway) => gatewayResource(asked.origin, gateway))
    const [resource, ...others] = asked.resources.length === 0 && allowed.length === 1 ? allowed : asked.resources
    if (resource === undefined || others.length > 0 || !allowed.includes(resource)) {
      const description = 'resource: name one of the gateways of this client, as the address at which it is reached.'
      return { error: 'invalid_target', description }
    }
    const token = random.bytes(32).toString('base64url')
    const row = {
      id: randomId(random, 'token'),
      tokenHash: hashOfToken(token),
      clientId: client.id,
      resource,
      atMs: asked.nowMs,
      expiresAtMs: asked.nowMs + limits.accessTokenMs,
    }
    await database.write(client.tenant, (tx) => clients.insertToken(tx, row))
    return { access_token: `${ACCESS_TOKEN_PREFIX}${token}`, expires_in: limits.accessTokenMs / 1_000, resource }
  }
}

const gatewayResource = (origin: string, gateway: string): string => `${origin}/mcp/${gateway}`

/** Whether the list of the client still has the gateway at this address of the server. */
export const mayReach = ({ gateways }: ServiceClient, resource: string): boolean =>
  gateways.some((gateway) => resource.endsWith(`/mcp/${gateway}`))

function isSecretOf({ secretHash }: ServiceClient, secret: string): boolean {
  const known = Buffer.from(secretHash, 'hex')
  const presented = Buffer.from(hashOfToken(secret), 'hex')
  return known.length === presented.length && timingSafeEqual(known, presented)
}

/** A client acts as a key does: with rights of its own, and for no user. */
export const principalOfClient = (client: ServiceClient): Principal =>
  Object.freeze({
    tenant: client.tenant,
    kind: 'key',
    actor: client.name,
    ...rightsOf(client.role),
    tier: client.tier,
    teams: [],
    keyId: client.id,
  })

const viewOf = (client: ServiceClient): ServiceClientView => ({
  id: client.id,
  name: client.name,
  tenant: client.tenant,
  role: client.role,
  tier: client.tier,
  gateways: client.gateways,
  created_at: isoTime(client.createdAtMs),
  created_by: client.createdBy,
})

const bodyOf = ({ id, tenant, name, role, tier, gateways }: ServiceClient) => ({
  id,
  tenant,
  name,
  role,
  tier,
  gateways: [...gateways],
})
