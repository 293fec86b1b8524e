/**
 * Path patterns: `/a/b` and `/a/b/**` are that path and everything below it, `/a/b/*` only its direct entries, `/a/b/.` the path
 * alone. Names are compared whole, so `/a/bc` is not in `/a/b`.
 */
type PathPattern = Readonly<{ names: readonly string[]; depth: 'any' | 'one' | 'none' }>

const namesOf = (path: string): string[] => path.split('/').filter((name) => name !== '' && name !== '.')

export function parsePathPattern(text: string): PathPattern {
  const names = namesOf(text)
  const last = names.at(-1)
  if (last === '**') return { names: names.slice(0, -1), depth: 'any' }
  if (last === '*') return { names: names.slice(0, -1), depth: 'one' }
  return { names, depth: text.endsWith('/.') ? 'none' : 'any' }
}

/** Including the folders of `/a/b/*`: a caller that may see the entries of a folder may list it. */
export const withFolders = (patterns: readonly string[]): readonly string[] =>
  patterns.flatMap((pattern) => (pattern.endsWith('/*') ? [pattern, `${pattern.slice(0, -1)}.`] : [pattern]))

const levels = { one: 1, none: 0 } as const

const beginsWith = (names: readonly string[], start: readonly string[]): boolean =>
  start.length <= names.length && start.every((name, index) => name === names[index])

export const coversNames = ({ names, depth }: PathPattern, pathNames: readonly string[]): boolean =>
  beginsWith(pathNames, names) && (depth === 'any' || pathNames.length === names.length + levels[depth])

/** Whether the path is a parent of what the pattern covers, or is covered. */
export const leadsToCovered = (pattern: PathPattern, pathNames: readonly string[]): boolean =>
  beginsWith(pattern.names, pathNames) || coversNames(pattern, pathNames)

/** Of an absolute path without `..`. */
export const coversPath = (pattern: string, path: string): boolean =>
  coversNames(parsePathPattern(pattern), namesOf(path))
