import { AppError } from '../../contract/app-error.ts'
import type { Principal } from '../../contract/principal.ts'
import type { HostMount } from './backend.ts'
import { identityOf, invalid, LOCAL_OWNER, quoted } from './rules.ts'

export type AllowedMount = Readonly<{ path: string; readOnly: boolean; tenant: string | null }>
export type MountRequest = Readonly<{ host_path: string; path: string; mode?: 'ro' | 'rw' | undefined }>

/** Paths that a workspace needs, or that the supervisor mounts itself. */
const TAKEN = ['/proc', '/sys', '/dev', '/usr', '/bin', '/sbin', '/lib', '/lib64', '/etc']
const PATH_CHARS_MAX = 1_024

/**
 * The requested mounts, if the operator allows them to this caller. The message is the same whether a folder is not allowed or
 * does not exist.
 */
export function chooseMounts(
  allowed: readonly AllowedMount[],
  principal: Principal,
  requests: readonly MountRequest[],
): readonly HostMount[] {
  const chosen: HostMount[] = []
  for (const { host_path, path, mode } of requests) {
    const source = plainPath('host_path', host_path)
    const target = plainPath('path', path)
    const readOnly = mode !== 'rw'
    if (target === '/' || TAKEN.some((taken) => isWithin(taken, target))) {
      throw invalid(
        'mount',
        `path: nothing can be mounted on ${quoted(target)}; choose another, such as /workspace/project`,
      )
    }
    if (chosen.some((other) => isWithin(other.target, target) || isWithin(target, other.target))) {
      throw invalid('mount', `path: ${quoted(target)} is inside another mount or contains one; choose a separate path`)
    }
    const found = allowed.find(
      (entry) => isFor(entry, principal) && isWithin(entry.path, source) && (readOnly || !entry.readOnly),
    )
    if (found === undefined) throw notAllowed(source, readOnly)
    chosen.push({
      root: found.path,
      beneath: source.slice(found.path.length).replace(/^\//, '') || '.',
      target,
      readOnly,
    })
  }
  return chosen
}

/** A mount that was allowed at creation may not be allowed any more. */
export function requireMounts(allowed: readonly AllowedMount[], mounts: readonly HostMount[]): void {
  for (const { root, beneath, readOnly } of mounts) {
    const isAllowed = allowed.some((entry) => entry.path === root && (readOnly || !entry.readOnly))
    if (!isAllowed) throw notAllowed(beneath === '.' ? root : `${root}/${beneath}`, readOnly)
  }
}

const isFor = ({ tenant }: AllowedMount, principal: Principal): boolean =>
  tenant === null ? identityOf(principal) === LOCAL_OWNER : tenant === principal.tenant

const isWithin = (folder: string, path: string): boolean =>
  path === folder || folder === '/' || path.startsWith(`${folder}/`)

function plainPath(field: 'host_path' | 'path', input: string): string {
  const names = input.split('/').filter((name) => name !== '' && name !== '.')
  if (!input.startsWith('/') || names.includes('..') || input.includes('\0') || input.length > PATH_CHARS_MAX) {
    throw invalid('mount', `${field}: give an absolute path without ".." of at most ${PATH_CHARS_MAX} characters`)
  }
  return `/${names.join('/')}`
}

const notAllowed = (path: string, readOnly: boolean): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    `mount: ${quoted(path)} is in no folder that you may mount ${readOnly ? 'for reading' : 'for writing'}; the operator allows them in workspaces.mounts`,
    { field: 'mount', host_path: path.slice(0, 256).toWellFormed() },
  )
