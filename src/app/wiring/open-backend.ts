import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createNamespacesBackend } from '../../backends/namespaces/index.ts'
import type { SupervisorOptions } from '../../backends/namespaces/start-supervisor.ts'

export { endIdleSupervisor } from '../../backends/namespaces/end-idle-supervisor.ts'
export { neededPrograms, optionalPrograms } from '../../backends/namespaces/start-supervisor.ts'

import { AppError } from '../../contract/app-error.ts'
import type { WorkspaceBackend } from '../../domains/workspaces/backend.ts'
import type { Logger } from '../../kernel/logger.ts'
import { type EgressCredential, readEgressPolicy } from '../../supervisor/egress/egress-policy.ts'
import type { Config } from '../config.ts'
import { readMount } from '../read-mount.ts'
import { workspacesDirectory } from '../state-directory.ts'
import { unsetVariables } from '../unset-variables.ts'

/** The back end of the workspaces. Nothing is started before the first use. */
export function createBackend(deps: {
  config: Config
  /** The folder of the store: workspaces belong to their records. */
  directory: string
  version: string
  bootId: string
  logger: Logger
}): WorkspaceBackend {
  const without = new Set(
    unsetVariables(deps.config)
      .filter(({ field }) => field === 'workspaces.credentials')
      .map(({ variable }) => `env:${variable}`),
  )
  return createNamespacesBackend({
    ...supervisorOptions(deps.config, deps.directory, deps.version),
    bootId: deps.bootId,
    credentials: deps.config.workspaces.credentials.filter(({ value }) => !without.has(value)).map(readCredential),
    dnsServer: deps.config.workspaces.dns_server,
    authorities: readAuthorities(deps.config.workspaces.ca_file),
    logger: deps.logger,
  })
}

/** The supervisor, and the bounds of its store, which are fixed while it runs. */
export const supervisorOptions = ({ workspaces }: Config, directory: string, version: string): SupervisorOptions => ({
  state: workspacesDirectory(directory),
  storeGb: workspaces.store_gb,
  hostReserveMb: workspaces.host_reserve_mb,
  tenantSharePercent: workspaces.tenant_share_percent,
  folders: workspaces.mounts.map(readMount).map(({ path, readOnly }) => `${readOnly ? 'ro' : 'rw'} ${path}`),
  version,
})

/** With the variable's value; the configuration itself contains no secret. */
function readCredential({ host, header, value }: Config['workspaces']['credentials'][number]): EgressCredential {
  const name = value.slice('env:'.length)
  const credential = { host, header, value: process.env[name]! }
  try {
    readEgressPolicy({ domains: [], credentials: [credential] })
  } catch {
    throw badSetting(
      'credentials',
      `${host} must be a host name, ${header} a header that does not control message framing, and ${name} one line of text.`,
    )
  }
  return credential
}

function readAuthorities(path: string | undefined): string {
  if (path === undefined) return ''
  try {
    const text = readFileSync(path, 'utf8')
    new X509Certificate(text)
    return text
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).syscall === undefined ? 'contains no certificate' : 'cannot be read'
    throw badSetting('ca_file', `${path} ${reason}. Name a file with PEM certificates.`)
  }
}

const badSetting = (field: string, rule: string): AppError =>
  new AppError('ERR_CONFIG_INVALID', `workspaces.${field}: ${rule}`, { field: `workspaces.${field}` })
