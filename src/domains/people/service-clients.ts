import { timingSafeEqual } from 'node:crypto'
import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { type Permission, rightsFrom } from '../../contract/permissions.ts'
import type { Principal, Role, TenantId, Tier } from '../../contract/principal.ts'
import { isoTime } from '../../kernel/clock.ts'
import { nearestNames } from '../../kernel/nearest-name.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import type { ServiceClient, ServiceClientStore } from './ports.ts'
import type { Rights } from './rights.ts'
import { ACCESS_TOKEN_PREFIX, hashOfToken, peopleTenant, tenantTaken } from './rules.ts'
import type { PeopleReading, PeopleWriting } from './service.ts'

export const SERVICE_CLIENT_PREFIX = 'client_'
const SECRET_PREFIX = 'csc_'

type InTenant = Readonly<{ tenant?: string | undefined }>

export type ServiceClientView = Readonly<{
  id: string
  name: string
  tenant: TenantId
  role: Role
  tier: Tier
  gateways: readonly string[]
  created_at: string
  created_by: string
}>

/** Programs that act for themselves: by client credentials, at their listed gateways. */
export type ServiceClientMethods = Readonly<{
  /** The secret is shown once. */
  createClient(
    call: PeopleWriting,
    input: InTenant & Readonly<{ name: string; gateways: readonly string[]; role: Role; tier?: Tier | undefined }>,
  ): Promise<ServiceClientView & Readonly<{ client_secret: string }>>
  deleteClient(call: PeopleWriting, input: InTenant & Readonly<{ client: string }>): Promise<ServiceClientView>
}>

export type ServiceClientDeps = Readonly<{
  clients: ServiceClientStore
  random: Random
  /** Whether the caller sees a gateway or an agent of this slug or id, as in its address. */
  seesGateway(call: PeopleReading, tenant: TenantId, reference: string): Promise<boolean>
  /** The slugs of gateways that the caller may list. */
  listedGateways(call: PeopleReading, tenant: TenantId): Promise<readonly string[]>
  /** Called within the transaction that removes a client. */
  noteClientRevoked(tenant: TenantId, clientId: string): void
}>

export function createServiceClients(
  { clients, random, noteClientRevoked, ...gateways }: ServiceClientDeps,
  rights: Rights,
): ServiceClientMethods {
  return {
    async createClient(call, input) {
      const tenant = peopleTenant(call.principal, input.tenant)
      const { role, tier } = await rights.toGive(call, tenant, input, call.write)
      if ((await clients.findClient(call.read, tenant, input.name)) !== undefined) {
        throw new AppError('ERR_ALREADY_EXISTS', 'name: another client already has this name; choose another', {
          name: input.name,
        })
      }
      for (const gateway of input.gateways) {
        if (await gateways.seesGateway(call, tenant, gateway)) continue
        throw noGateway(gateway, await gateways.listedGateways(call, tenant))
      }
      const max = limits.serviceClientsPerTenantMax
      if ((await clients.listClients(call.read, tenant, max)).length >= max) throw tenantTaken('clients', max)
      const secret = `${SECRET_PREFIX}${random.bytes(32).toString('base64url')}`
      const client: ServiceClient = {
        tenant,
        id: randomId(random, SERVICE_CLIENT_PREFIX.slice(0, -1)),
        name: input.name,
        secretHash: hashOfToken(secret),
        role,
        tier,
        gateways: [...new Set(input.gateways)],
        createdAtMs: call.nowMs,
        createdBy: call.principal.actor,
      }
      await clients.insertClient(call.write, client)
      call.record({ kind: 'oauth_client_created', body: bodyOf(client) })
      return { ...clientView(client), client_secret: secret }
    },

    async deleteClient(call, input) {
      const tenant = peopleTenant(call.principal, input.tenant)
      const client = await clients.findClient(call.read, tenant, input.client)
      if (client === undefined) {
        const message =
          'client: there is no client with this id or name; list them with castellan clients list (oauth_client_list)'
        throw new AppError('ERR_NOT_FOUND', message, { client: input.client.slice(0, 128) })
      }
      await rights.requireOver(call, client)
      await clients.deleteClient(call.write, tenant, client.id)
      call.record({ kind: 'oauth_client_deleted', body: bodyOf(client) })
      noteClientRevoked(tenant, client.id)
      return clientView(client)
    },
  }
}

function noGateway(gateway: string, listed: readonly string[]): AppError {
  const near = nearestNames(gateway, listed, 3)
  const hint = near.length === 0 ? '' : `; did you mean ${near.join(' or ')}?`
  const message = `gateways: there is no gateway with the slug or id '${gateway}' that you can see; list_mcp_gateways shows yours${hint}`
  return new AppError('ERR_NOT_FOUND', message, { field: 'gateways' })
}

/** Why a token request is refused, in the terms of RFC 6749 and 8707. */
type TokenRefusal = Readonly<{ error: 'invalid_client' | 'invalid_target'; description: string }>
type ClientToken = Readonly<{ access_token: string; expires_in: number; resource: string }>

/**
 * The client credentials grant. A token is for one of the client's listed gateways: the named one, or the only one. A client with
 * an empty list gets none.
 */
export function createClientTokens(
  deps: Readonly<{ clients: ServiceClientStore; database: Pick<Database, 'read' | 'write'>; random: Random }>,
) {
  const { clients, database, random } = deps
  return async (
    credentials: Readonly<{
      clientId: string
      secret: string
      resources: readonly string[]
      origin: string
      nowMs: number
    }>,
  ): Promise<ClientToken | TokenRefusal> => {
    const client = await clients.findClientById(database.read, credentials.clientId.slice(0, 128))
    if (client === undefined || !isSecretOf(client, credentials.secret)) {
      return { error: 'invalid_client', description: 'The client is unknown, or its secret is wrong.' }
    }
    const allowed = client.gateways.map((gateway) => gatewayResource(credentials.origin, gateway))
    const [resource, ...others] =
      credentials.resources.length === 0 && allowed.length === 1 ? allowed : credentials.resources
    if (resource === undefined || others.length > 0 || !allowed.includes(resource)) {
      const description = 'resource: must be the address of one of the gateways of this client.'
      return { error: 'invalid_target', description }
    }
    const token = random.bytes(32).toString('base64url')
    const row = {
      id: randomId(random, 'token'),
      tokenHash: hashOfToken(token),
      clientId: client.id,
      resource,
      atMs: credentials.nowMs,
      expiresAtMs: credentials.nowMs + limits.accessTokenMs,
    }
    await database.write(client.tenant, (tx) => clients.insertToken(tx, row))
    return { access_token: `${ACCESS_TOKEN_PREFIX}${token}`, expires_in: limits.accessTokenMs / 1_000, resource }
  }
}

const gatewayResource = (origin: string, gateway: string): string => `${origin}/mcp/${gateway}`

/** Whether the client's list still has the gateway at this address. */
export const mayReach = ({ gateways }: ServiceClient, resource: string): boolean =>
  gateways.some((gateway) => resource.endsWith(`/mcp/${gateway}`))

function isSecretOf({ secretHash }: ServiceClient, secret: string): boolean {
  const known = Buffer.from(secretHash, 'hex')
  const presented = Buffer.from(hashOfToken(secret), 'hex')
  return known.length === presented.length && timingSafeEqual(known, presented)
}

/** A client acts like a key: with its own rights, and for no user. `granted` is what its role grants now. */
export const principalOfClient = (client: ServiceClient, granted: ReadonlySet<Permission>): Principal =>
  Object.freeze({
    tenant: client.tenant,
    kind: 'key',
    actor: client.name,
    ...rightsFrom(client.role, granted),
    tier: client.tier,
    teams: [],
    keyId: client.id,
  })

export const clientView = (client: ServiceClient): ServiceClientView => ({
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
