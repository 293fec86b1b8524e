import { AppError } from './app-error.ts'

/** Where an agent finds its files; a relative path begins here. */
export const WORKSPACE_FOLDER = '/workspace'
const PATH_BYTES_MAX = 4096

/**
 * A path that a caller gave to fs.* or cmd.run, absolute and without empty names and dots. What climbs is refused, though
 * it may end inside: nobody needs it who means well.
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
  const names = (text.startsWith('/') ? text : `${WORKSPACE_FOLDER}/${text}`).split('/')
  if (names.includes('..')) {
    throw new AppError(
      'ERR_POLICY_VIOLATION',
      `PathTraversalAttempt: '${field}' has the component '..'. Give the path without it, such as ${WORKSPACE_FOLDER}/notes.txt.`,
      { violation: 'PathTraversalAttempt', field },
    )
  }
  return `/${names.filter((name) => name !== '' && name !== '.').join('/')}`
}

export const pathOutside = (field: string, allowed: readonly string[]): AppError =>
  new AppError(
    'ERR_POLICY_VIOLATION',
    `PathOutsideBoundary: '${field}' leads outside of what is allowed here. Allowed: ${allowed.join(', ') || 'nothing'}.`,
    { violation: 'PathOutsideBoundary', field, allowed },
  )
