import { readFileSync } from 'node:fs'
import { KEY_VARIABLE } from '../cli/announcement.ts'
import {
  absolutePath,
  CA_VARIABLE,
  CONFIG_VARIABLE,
  DATA_DIR_VARIABLE,
  defaultDataDir,
  type Environment,
  findConfigFile,
  URL_VARIABLE,
} from './config-paths.ts'

type PlainSettings = Readonly<{
  dataDir: string
  /** The text of the configuration file, empty without one. */
  fileText: string
}>

/** Some are for clients over HTTP, and are not settings. */
const READ_VARIABLES: readonly string[] = [CONFIG_VARIABLE, DATA_DIR_VARIABLE, KEY_VARIABLE, URL_VARIABLE, CA_VARIABLE]
/** What decides where the state is and how it is opened, besides the data directory. */
const DECISIVE_FIELDS: readonly string[] = ['data_dir', 'database_url', 'mode']

/**
 * Where the state is, if that is known without loading the configuration, which a client of a running server does not need.
 * Undefined if anything but the data directory is set by a flag or a variable, or if the file says more: then the whole
 * configuration is read, and its problems are reported.
 */
export function plainSettings(options: {
  env: Environment
  /** The given flags, by field name. */
  flags: Readonly<Record<string, string | undefined>>
  configFile: string | undefined
  workingDirectory: string
  /** Fields that a flag may set too: the caller reads them itself. */
  alsoRead?: readonly string[]
}): PlainSettings | undefined {
  const { env, flags, workingDirectory } = options
  const read = ['data_dir', ...(options.alsoRead ?? [])]
  const hasOtherFlag = Object.keys(flags).some((field) => !read.includes(field) && flags[field] !== undefined)
  if (hasOtherFlag || hasOtherVariable(env)) return undefined
  const named = options.configFile === undefined ? {} : { configFile: options.configFile }
  const fileText = readFile(findConfigFile({ env, flags, workingDirectory, ...named }))
  if (fileText === undefined || mentions(fileText, DECISIVE_FIELDS)) return undefined
  const input = flags['data_dir'] ?? (env[DATA_DIR_VARIABLE] || undefined)
  return { dataDir: input === undefined ? defaultDataDir(env) : absolutePath(input, workingDirectory, env), fileText }
}

/** Whether a variable of ours is set that only the configuration knows. */
export const hasOtherVariable = (env: Environment): boolean =>
  Object.keys(env).some((name) => name.startsWith('CASTELLAN_') && !READ_VARIABLES.includes(name) && env[name] !== '')

/**
 * Whether the file may set one of these top-level fields. In a file of the usual form, where only plain keys and lists begin at
 * the margin, those keys are all there are; in any other file any occurrence of the word counts.
 */
export function mentions(fileText: string, fields: readonly string[]): boolean {
  const lines = fileText.split(/\r\n?|\n/).filter((line) => !/^[ \t]*(?:#|$)/.test(line))
  const isPlain =
    lines.every((line) => /^(?:[a-z_]+[ \t]*:|- |[\]}]|[ \t])/.test(line)) && !/^[ \t]/.test(lines[0] ?? '')
  if (!isPlain) return fields.some((field) => fileText.includes(field))
  return fields.some((field) =>
    lines.some((line) => line.startsWith(field) && /^[ \t]*:/.test(line.slice(field.length))),
  )
}

function readFile(path: string | undefined): string | undefined {
  if (path === undefined) return ''
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
