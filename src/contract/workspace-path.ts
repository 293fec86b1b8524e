import { AppError } from './app-error.ts'

/** The folder of an agent's files; a relative path begins here. */
export const WORKSPACE_FOLDER = '/workspace'
const PATH_BYTES_MAX = 4096

/**
 * A path that a caller gave to fs.* or cmd.run, absolute and without empty names and dots. A path with `..` is refused even if it
 * ends inside: no legitimate caller needs one.
 */
export function requireWorkspacePath(field: string, text: string): string {
  const bytes = Buffer.byteLength(text)
  if (bytes > PATH_BYTES_MAX) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      `'${field}' has ${bytes} bytes; give a path of at most ${PATH_BYTES_MAX}.`,
      { field, constraint: `at most ${PATH_BYTES_MAX} bytes` },
    )
  }
  const names = namesIn(text)
  if (names.includes('..')) {
    throw new AppError(
      'ERR_POLICY_VIOLATION',
      `PathTraversalAttempt: '${field}' has the component '..'. Give the path without it, such as ${WORKSPACE_FOLDER}/notes.txt.`,
      { violation: 'PathTraversalAttempt', field },
    )
  }
  return `/${names.filter((name) => name !== '' && name !== '.').join('/')}`
}

const namesIn = (text: string): readonly string[] =>
  (text.startsWith('/') ? text : `${WORKSPACE_FOLDER}/${text}`).split('/')

/** The absolute path that a text spells, without empty names, dots and `..`; links are not followed. */
export function absolutePath(text: string): string {
  const names: string[] = []
  for (const name of namesIn(text)) {
    if (name === '..') names.pop()
    else if (name !== '' && name !== '.') names.push(name)
  }
  return `/${names.join('/')}`
}

export const pathOutside = (field: string, allowed: readonly string[]): AppError =>
  new AppError(
    'ERR_POLICY_VIOLATION',
    `PathOutsideBoundary: '${field}' leads outside the allowed paths. Allowed: ${allowed.join(', ') || 'nothing'}.`,
    { violation: 'PathOutsideBoundary', field, allowed },
  )
