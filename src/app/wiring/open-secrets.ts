import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { OwnerDirectory } from '../../contract/owner-directory.ts'
import { secretUses } from '../../domains/mcp-servers/unused-secrets.ts'
import { createSecretLinks, type SecretLinks } from '../../domains/secrets/links.ts'
import type { OutsideSecrets } from '../../domains/secrets/ports.ts'
import { createSecretService, type SecretService } from '../../domains/secrets/service.ts'
import type { AuthorizationGate } from '../../http/pages/authorization-page.ts'
import { createLinkListener } from '../../http/pages/link-listener.ts'
import { createSecretKeyFile, secretKeysFrom } from '../../stores/files/secret-key-store.ts'
import { sqlLogStore } from '../../stores/sql/log-store.ts'
import { sqlMcpServerStore } from '../../stores/sql/mcp-server-store.ts'
import { sqlProviderKeyStore } from '../../stores/sql/provider-key-store.ts'
import { sqlSecretStore } from '../../stores/sql/secret-store.ts'
import type { InFlightCalls } from '../../tools/runtime/in-flight-calls.ts'
import type { ToolHost } from '../../tools/runtime/tool-host.ts'
import type { AppDeps } from '../build-app.ts'

export type OpenedSecrets = Readonly<{ service: SecretService; links: SecretLinks; close(): Promise<void> }>

/** The tool host, and the registry of calls. */
export type CallParts = Readonly<{ host: ToolHost; inFlight: InFlightCalls }>

export type SecretParts = Readonly<{
  database: Database
  /** Of the state. */
  directory: string
  owners: Pick<OwnerDirectory, 'isRevoked'>
  /** Available once the state is open. */
  transports(): CallParts
  /** Available once the MCP servers are open. */
  authorizations(): Promise<AuthorizationGate | undefined>
}>

/** The secrets of this state, with their key beside it unless the operator configures one. */
export function openSecrets(
  { config, clock, random, logger, linksAt }: AppDeps,
  { database, directory, owners, transports, authorizations }: SecretParts,
): OpenedSecrets {
  const path = join(directory, 'secret-key.json')
  const service = createSecretService({
    store: sqlSecretStore,
    keys:
      config.secret_key === undefined ? createSecretKeyFile(path, random) : secretKeysFrom(config.secret_key.reveal()),
    outside: outsideSecrets,
    database,
    tenants: () => sqlLogStore.tenants(database.read),
    async usesOf(tx, tenant, reference) {
      const keys = await sqlProviderKeyStore.listOfSecret(tx, tenant, reference)
      const ofKeys = keys.map(({ id, name, ownsSecret: owns }) => ({ kind: 'provider_key' as const, id, name, owns }))
      return [...(await secretUses(sqlMcpServerStore, tx, tenant, reference)), ...ofKeys]
    },
    random,
  })
  const listener = createLinkListener({
    secretLinks: async () => links,
    authorizations,
    host: { call: (...args) => transports().host.call(...args) },
    inFlight: { begin: (...args) => transports().inFlight.begin(...args) },
    clock,
    logger,
    random,
  })
  const links = createSecretLinks({
    store: sqlSecretStore,
    secrets: service,
    random,
    read: database.read,
    origin: async () => linksAt?.()?.origin ?? (await listener.origin()),
    warning: () => linksAt?.()?.warning,
    isRevoked: owners.isRevoked,
  })
  return { service, links, close: listener.close }
}

const outsideSecrets: OutsideSecrets = {
  variable: (name) => process.env[name],
  async file(path) {
    const text = await readFile(path, 'utf8').catch(() => undefined)
    const value = text?.replace(/\r?\n$/, '')
    return value === undefined || value.length > limits.secretCharsMax ? undefined : value
  },
}
