import { AppError } from '../../contract/app-error.ts'

/**
 * Input for git. Values from callers are passed as single arguments after `--`, or inside an argument that begins with our own
 * text; anything that could still be read as an option is refused here as well.
 */
const DEFAULT_PATH = '/workspace'

const PATH_BYTES_MAX = 4_096
const REF_BYTES_MAX = 200

const refuse = (field: string, rule: string, details: object = {}): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${rule}`, { field, rule, ...details })

/** An absolute path inside the workspace, without a trailing slash. */
export function workspacePath(value: string | undefined, field = 'path'): string {
  const path = value ?? DEFAULT_PATH
  if (!path.startsWith('/')) throw refuse(field, 'must be an absolute path inside the workspace, such as /workspace')
  if (/[\x00-\x1f\x7f]/.test(path)) throw refuse(field, 'must not contain control characters')
  if (Buffer.byteLength(path) > PATH_BYTES_MAX) throw refuse(field, `must have at most ${PATH_BYTES_MAX} bytes`)
  return path.replace(/\/+/g, '/').replace(/(?<=.)\/$/, '')
}

/** A path relative to the repository. It is literal: no wildcards. */
export function filePath(value: string): string {
  if (value === '' || value.includes('\0')) throw refuse('file_path', 'must be a path without NUL')
  if (value.startsWith('-')) throw refuse('file_path', "must not begin with '-'; write './-name' for such a file")
  if (Buffer.byteLength(value) > PATH_BYTES_MAX) throw refuse('file_path', `must have at most ${PATH_BYTES_MAX} bytes`)
  return value
}

const badInRef = /[\x00-\x20\x7f~^:?*[\\]|\.\.|@\{|\/\/|^\/|\/$|\.$|^@$|^-/
const badComponent = /^\.|\.lock$/

/** What `git check-ref-format --branch` accepts, without its special forms. */
export const isBranchName = (value: string): boolean =>
  value !== '' &&
  value !== 'HEAD' &&
  value.isWellFormed() &&
  Buffer.byteLength(value) <= REF_BYTES_MAX &&
  !badInRef.test(value) &&
  !value.split('/').some((component) => badComponent.test(component))

export function branchName(value: string): string {
  if (isBranchName(value)) return value
  throw refuse(
    'branch',
    "must be a name that git allows for a branch: no spaces, no '..', '~', '^', ':', no leading '-'",
  )
}

/** The name of a configured remote; never an address, which could hold credentials or name a local program. */
export function remoteName(value: string): string {
  if (/^[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}$/.test(value) && isBranchName(value)) return value
  throw refuse('remote', "must be the name of a configured remote, such as 'origin', not an address")
}

export type CloneAddress = Readonly<{
  /** Without credentials: stored in the workspace. */
  url: string
  /** With the credentials that the caller wrote into it. */
  urlWithCredentials?: string
}>

const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*)(?::\d{1,5})?$/
const USER = /^[A-Za-z0-9_][A-Za-z0-9._-]*$/

/**
 * Addresses of other machines: https, http, git, ssh, and user@host:path; or an absolute path in the workspace, such as that
 * of a mount. Transports that start programs, and hosts or users that ssh could read as an option, are refused.
 */
export function cloneAddress(value: string): CloneAddress {
  if (/[\s\x00-\x1f\x7f\\]/.test(value)) throw refuse('url', 'must not contain white space, control characters or \\')
  const withScheme = /^(https?|git|ssh):\/\/(?:([^/?#]*)@)?([^/?#@]*)([/?#].*)?$/i.exec(value)
  if (withScheme !== null) {
    const [, scheme = '', user, host = '', rest = ''] = withScheme
    if (!HOST.test(host)) throw refuse('url', 'must name a host')
    return addressOf(value, scheme.toLowerCase(), user, `${host}${rest}`)
  }
  if (value.startsWith('/')) return { url: value }
  const [, user = '', host = '', path = ''] = /^([^@:/]*)@([^@:/]*):(.*)$/.exec(value) ?? []
  if (USER.test(user) && HOST.test(host) && path !== '' && !/^[-:]/.test(path)) return { url: value }
  throw refuse(
    'url',
    'must begin with https://, http://, git:// or ssh://, be written user@host:path, or be an absolute path in the workspace',
  )
}

function addressOf(value: string, scheme: string, user: string | undefined, rest: string): CloneAddress {
  if (user === undefined || user === '') return { url: `${scheme}://${rest}` }
  if (scheme === 'http' || scheme === 'https') return { url: `${scheme}://${rest}`, urlWithCredentials: value }
  if (scheme === 'ssh' && USER.test(user)) return { url: `${scheme}://${user}@${rest}` }
  throw refuse('url', `must not have ${scheme === 'ssh' ? 'a password' : 'a user'} in an address of ${scheme}`)
}

export type Person = Readonly<{ name: string; email: string }>

/** Both or neither. */
export function personOf(name: string | undefined, email: string | undefined): Person | undefined {
  if (name === undefined && email === undefined) return undefined
  if (name === undefined) throw refuse('author_name', 'is required together with author_email')
  if (email === undefined) throw refuse('author_email', 'is required together with author_name')
  for (const [field, value] of Object.entries({ author_name: name, author_email: email })) {
    if (/[\x00-\x1f\x7f<>]/.test(value) || !/[\p{L}\p{N}]/u.test(value)) {
      throw refuse(field, 'must have a letter or digit, and no <, > or control characters')
    }
  }
  return { name, email }
}

export function commitMessage(value: string, field: string): string {
  if (value.includes('\0') || !/\S/.test(value)) {
    throw refuse(field, 'must contain a character that is not white space, and no NUL')
  }
  return value
}

export const mergeStrategies = ['sequential', 'branch-per-source', 'cherry-pick'] as const
export type MergeStrategy = (typeof mergeStrategies)[number]

export const isCommitId = (value: string): boolean => /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(value)

/** The branch of a merged source. A name that git does not allow is replaced by the id. */
export const sourceBranch = (source: Readonly<{ id: string; name: string }>): string => {
  const named = `merge/${source.name}`
  return isBranchName(named) ? named : `merge/${source.id.replace(/[^A-Za-z0-9]/g, '').slice(0, 12)}`
}

/** With several sources, the first line says which one it was. */
export function mergeMessage(sourceName: string, sourceCount: number, requested: string | undefined): string {
  if (requested === undefined) return `Merge workspace ${sourceName}\n`
  const [first = '', ...rest] = requested.trim().split('\n')
  const title = sourceCount > 1 ? `${first} (from ${sourceName})` : first
  return `${[title, ...rest].join('\n')}\n`
}
