import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'castellan', 'bench')

/** A folder of the user's cache with these packages from npm, installed once: a peer is no dependency of ours. */
export function npmFolder(name: string, packages: readonly string[]): string {
  const folder = join(cache, name)
  const done = join(folder, 'installed')
  if (existsSync(done)) return folder
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"private":true}\n')
  const options = ['install', '--no-audit', '--no-fund', '--ignore-scripts', ...packages]
  const { status } = spawnSync('npm', options, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0) throw new Error(`npm could not install ${packages.join(' ')}`)
  writeFileSync(done, '')
  return folder
}

/** The program of a package from npm. */
export const npmPeer = (name: string, version: string): string =>
  join(npmFolder(`${name}-${version}`, [`${name}@${version}`]), 'node_modules', '.bin', name)
