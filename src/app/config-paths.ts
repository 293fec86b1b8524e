import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'

/** Where the configuration and the state are. Light on purpose: a client of a running server loads nothing more. */
export type Environment = Readonly<Record<string, string | undefined>>

type ConfigSearch = Readonly<{
  env: Environment
  flags?: Readonly<Record<string, unknown>>
  /** The value of `--config`. */
  configFile?: string
  workingDirectory: string
}>

export const CONFIG_VARIABLE = 'CASTELLAN_CONFIG'
export const DATA_DIR_VARIABLE = 'CASTELLAN_DATA_DIR'
/** For clients of a remote server: its address, and the file of its certificate authority. */
export const URL_VARIABLE = 'CASTELLAN_URL'
export const CA_VARIABLE = 'CASTELLAN_CA'
const FILE_NAME = 'castellan.yaml'

/** `~/.local/share/castellan`, or where the XDG variables say. */
export function defaultDataDir(env: Environment): string {
  return join(xdgDir(env, 'XDG_DATA_HOME', '.local/share'), 'castellan')
}

/** Where sign-ins to remote servers are stored: `~/.local/state/castellan/logins`, or as the XDG variables say. */
export const loginsDir = (env: Environment): string =>
  join(xdgDir(env, 'XDG_STATE_HOME', '.local/state'), 'castellan', 'logins')

/** An absolute path: `~` is the home directory, and a relative path begins at `base`. */
export const absolutePath = (input: string, base: string, env: Environment): string =>
  input === '~' || input.startsWith('~/') ? join(homeOf(env), input.slice(1)) : resolve(base, input)

const homeOf = (env: Environment): string => env['HOME'] || homedir()

/** The XDG rules ignore a relative path in these variables. */
function xdgDir(env: Environment, variable: string, fallback: string): string {
  const input = env[variable]
  return input !== undefined && isAbsolute(input) ? input : join(homeOf(env), fallback)
}

export function findConfigFile({ env, flags, configFile, workingDirectory }: ConfigSearch): string | undefined {
  const named = configFile ?? (env[CONFIG_VARIABLE] || undefined)
  if (named !== undefined) return resolve(workingDirectory, named)
  const dataDir = flags?.['data_dir'] ?? (env[DATA_DIR_VARIABLE] || undefined) ?? defaultDataDir(env)
  const candidates = [
    resolve(workingDirectory, String(dataDir), FILE_NAME),
    join(xdgDir(env, 'XDG_CONFIG_HOME', '.config'), 'castellan', FILE_NAME),
  ]
  return candidates.find((candidate) => existsSync(candidate))
}
