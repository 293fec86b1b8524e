import { createNamespacesBackend } from '../backends/namespaces/index.ts'

export { neededPrograms, optionalPrograms } from '../backends/namespaces/start-supervisor.ts'

import { AppError } from '../contract/app-error.ts'
import type { WorkspaceBackend } from '../domains/workspaces/backend.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Config } from './config.ts'
import { workspacesDirectory } from './state-directory.ts'

/** What workspaces run on. Nothing is started before the first use. */
export function createBackend(deps: {
  config: Config
  /** The folder of the store: workspaces belong to their records. */
  directory: string
  version: string
  bootId: string
  logger: Logger
}): WorkspaceBackend {
  return createNamespacesBackend({
    state: workspacesDirectory(deps.directory),
    storeGb: deps.config.workspaces.store_gb,
    version: deps.version,
    bootId: deps.bootId,
    credentials: deps.config.workspaces.credentials.map(readCredential),
    logger: deps.logger,
  })
}

/** `HOST HEADER env:NAME`, with the variable's value; the configuration itself holds no secret. */
function readCredential(text: string): { host: string; header: string; value: string } {
  const [host, header, reference] = text.split(' ') as [string, string, string]
  const name = reference.slice('env:'.length)
  const value = process.env[name]
  if (value === undefined || value === '') {
    throw new AppError(
      'ERR_CONFIG_INVALID',
      `workspaces.credentials: ${host} needs the variable ${name}, which is not set.`,
      {
        field: 'workspaces.credentials',
      },
    )
  }
  return { host, header, value }
}
