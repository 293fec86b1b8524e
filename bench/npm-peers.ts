import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'castellan', 'bench')

/** The program of a package from npm, installed once into the user's cache: a peer is no dependency of ours. */
export function npmPeer(name: string, version: string): string {
  const folder = join(cache, `${name}-${version}`)
  const path = join(folder, 'node_modules', '.bin', name)
  if (existsSync(path)) return path
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"private":true}\n')
  const options = ['install', '--no-audit', '--no-fund', '--ignore-scripts', `${name}@${version}`]
  const { status } = spawnSync('npm', options, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0 || !existsSync(path)) throw new Error(`npm could not install ${name}@${version}`)
  return path
}
