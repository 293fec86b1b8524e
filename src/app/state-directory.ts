import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Database } from '../contract/database.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { Config } from './config.ts'

/**
 * Where the files that belong to one store are: its log key and its checkpoints. A database elsewhere has a folder of its
 * own, so that one data directory used with several stores never mixes their logs.
 */
export function stateDirectory(config: Config): string {
  if (config.database_url === undefined) return config.data_dir
  const { host, pathname } = new URL(config.database_url.reveal())
  return join(config.data_dir, `postgres-${sha256Hex(`${host}${pathname}`).slice(0, 12)}`)
}

/** Where the workspaces of the store in `directory` have their files and their images. */
export const workspacesDirectory = (directory: string): string => join(directory, 'workspaces')

/** An embedded store is its directory's; a shared one has rows of several machines, each with a directory of its own. */
export const nodeOf = (kind: Database['kind'], directory: string): string =>
  kind === 'sqlite' ? 'local' : `${hostname()}:${directory}`
