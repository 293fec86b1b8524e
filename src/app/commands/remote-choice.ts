import { KEY_VARIABLE } from '../../cli/announcement.ts'
import { AppError } from '../../contract/app-error.ts'
import { absolutePath, CA_VARIABLE, URL_VARIABLE } from '../config-paths.ts'
import type { RemoteChoice } from '../remote/remote-server.ts'
import { type CommandContext, flagSettings } from './context.ts'

/** Flags that choose the local state, and how it is opened. */
const LOCAL_FIELDS = ['data_dir', 'database_url', 'mode'] as const

/**
 * The remote server of a command; undefined for the local state. `--url` excludes flags that name a local state; without `--url`,
 * such flags take precedence over CASTELLAN_URL.
 */
export function remoteChoice(context: CommandContext): RemoteChoice | undefined {
  const { parsed, env, workingDirectory } = context
  const settings = flagSettings(context)
  const here = LOCAL_FIELDS.find((field) => settings[field] !== undefined)?.replace('_', '-')
  const local = here ?? (parsed.text('config') === undefined ? undefined : 'config')
  const flag = parsed.text('url')
  if (flag !== undefined && local !== undefined) {
    const message = `--url and --${local} cannot be combined: --url names a server elsewhere, --${local} the state of this machine. Leave one of them out.`
    throw new AppError('ERR_INVALID_INPUT', message, { field: local })
  }
  const url = flag ?? (local === undefined ? env[URL_VARIABLE] || undefined : undefined)
  if (url === undefined) {
    refuseRemoteFlags(context)
    return undefined
  }
  const ca = parsed.text('ca') ?? (env[CA_VARIABLE] || undefined)
  return {
    url,
    key: (isKeyOfLog(context) ? undefined : parsed.text('key')) ?? (env[KEY_VARIABLE] || undefined),
    ca: ca === undefined ? undefined : absolutePath(ca, workingDirectory, env),
    allowPlainHttp: parsed.isSet('allow-plain-http'),
  }
}

/** A flag without effect would mislead its user. */
function refuseRemoteFlags(context: CommandContext): void {
  const { parsed } = context
  const texts = isKeyOfLog(context) ? ['ca'] : ['key', 'ca']
  const unused = [...texts.filter((flag) => parsed.text(flag) !== undefined)]
  if (parsed.isSet('allow-plain-http')) unused.push('allow-plain-http')
  if (unused.length === 0) return
  const message = `--${unused[0]} is for a server elsewhere. Name it with --url or ${URL_VARIABLE}, or leave the flag out.`
  throw new AppError('ERR_INVALID_INPUT', message, { field: unused[0]! })
}

/** For verify, `--key` is the key of the log. */
const isKeyOfLog = ({ spec }: CommandContext): boolean => spec.name === 'verify'
