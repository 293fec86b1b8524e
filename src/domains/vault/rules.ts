import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { VaultPath } from './ports.ts'

/** The vault's locks and half-written files. No path leads there. */
export const PRIVATE_FOLDER = '.castellan'

const NAME_BYTES_MAX = 255
const DISPLAYED_CHARACTERS_MAX = 120

export type PathRules = Readonly<{
  /** Lower case, without the dot; undefined accepts any. */
  extensions: readonly string[] | undefined
  excludedFolders: ReadonlySet<string>
}>

/** Checks the path of a note. `field` is the parameter that a refusal names. */
export function notePath(path: string, rules: PathRules, field = 'path'): VaultPath {
  const names = pathNames(path, rules, field)
  const { extensions } = rules
  if (extensions !== undefined && !hasExtension(names.at(-1)!, extensions)) {
    const endings = extensions.map((extension) => `.${extension}`).join(' or ')
    throw refused(field, `must end in ${endings}, the extensions of notes (vault.extensions)`, path)
  }
  return path as VaultPath
}

/** Checks the path of a folder; the root has no name. */
export function folderPath(path: string, rules: PathRules, field = 'path'): VaultPath | '' {
  const trimmed = path.endsWith('/') ? path.slice(0, -1) : path
  if (trimmed === '' || trimmed === '.') return ''
  pathNames(trimmed, rules, field)
  return trimmed as VaultPath
}

export const hasExtension = (name: string, extensions: readonly string[]): boolean => {
  const dot = name.lastIndexOf('.')
  return dot > 0 && extensions.includes(name.slice(dot + 1).toLowerCase())
}

function pathNames(path: string, rules: PathRules, field: string): readonly string[] {
  if (path.length > limits.vaultPathCharsMax) {
    throw refused(field, `must have at most ${limits.vaultPathCharsMax} characters`, path)
  }
  if (path.startsWith('/')) throw refused(field, 'must be relative to the vault: leave out the leading "/"', path)
  if (/[\u0000-\u001f\u007f\\]/.test(path) || !path.isWellFormed()) {
    throw refused(field, 'must not contain a backslash, a control character or half a character', path)
  }
  const names = path.split('/')
  if (names.length > limits.vaultFolderDepthMax) {
    throw refused(field, `must have at most ${limits.vaultFolderDepthMax} names`, path)
  }
  for (const name of names) {
    if (name === '' || name === '.' || name === '..') {
      throw refused(field, 'must be names joined by "/", none of them empty, "." or ".."', path)
    }
    if (Buffer.byteLength(name) > NAME_BYTES_MAX) {
      throw refused(field, `must have names of at most ${NAME_BYTES_MAX} bytes`, path)
    }
    if (name === PRIVATE_FOLDER || rules.excludedFolders.has(name)) {
      throw refused(field, 'leads into a folder that is excluded from the vault (vault.exclude_dirs)', path)
    }
  }
  return names
}

const refused = (field: string, rule: string, path: string): AppError =>
  invalid(field, rule, { path: path.slice(0, DISPLAYED_CHARACTERS_MAX).toWellFormed() })

export const invalid = (field: string, rule: string, details: Readonly<Record<string, unknown>> = {}): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${rule}.`, { field, constraint: rule, ...details })

export const noteNotFound = (path: string, field = 'path'): AppError =>
  new AppError('ERR_NOTE_NOT_FOUND', `${field}: the vault has no note at this path.`, { field, path })

export const folderNotFound = (path: string): AppError =>
  new AppError('ERR_NOTE_NOT_FOUND', 'path: the vault has no folder at this path.', { field: 'path', path })

export const noteTooLarge = (path: string, sizeBytes: number): AppError =>
  new AppError(
    'ERR_TOO_LARGE',
    `The note would have ${sizeBytes} bytes; the limit is ${limits.vaultNoteBytesMax}. Split it.`,
    {
      path,
      size: sizeBytes,
      rule: `at most ${limits.vaultNoteBytesMax} bytes`,
    },
  )

const FOLDER_NAME_CHARACTERS_MAX = 200

/** A folder name that no other tenant has, whatever a tenant is called. */
export function tenantFolderName(tenant: TenantId): string {
  const encoded = [...Buffer.from(tenant)]
    .map((byte) => {
      const character = String.fromCharCode(byte)
      return /[a-z0-9_-]/.test(character) ? character : `%${byte.toString(16).padStart(2, '0')}`
    })
    .join('')
  // The text after this "%" is not a byte, so no other tenant has this name.
  if (encoded === '') return '%empty'
  return encoded.length <= FOLDER_NAME_CHARACTERS_MAX ? encoded : `%sha256-${sha256Hex(tenant)}`
}
