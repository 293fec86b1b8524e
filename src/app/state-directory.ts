import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Database } from '../contract/database.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { Config } from './config.ts'

/**
 * Where the files of one store are: its log key and its checkpoints. Each remote database has its own folder, so that one data
 * directory used with several stores never mixes their logs.
 */
export function stateDirectory(config: Config): string {
  if (config.database_url === undefined) return config.data_dir
  const { host, pathname } = new URL(config.database_url.reveal())
  return join(config.data_dir, `postgres-${sha256Hex(`${host}${pathname}`).slice(0, 12)}`)
}

/** Where the workspaces of the store in `directory` have their files and their images. */
export const workspacesDirectory = (directory: string): string => join(directory, 'workspaces')

/** An embedded store belongs to its directory; a shared one has rows of several machines, each with its own directory. */
export const nodeOf = (kind: Database['kind'], directory: string): string =>
  kind === 'sqlite' ? 'local' : `${hostname()}:${directory}`
