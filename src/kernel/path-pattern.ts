/**
 * Patterns of places in a tree of files: `/a/b` and `/a/b/**` are that place and everything below it, `/a/b/*` only what
 * is directly in it, `/a/b/.` the place alone. Names are compared whole, so `/a/bc` is not in `/a/b`.
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

/** With the folders that `/a/b/*` is about: who may see what is directly in a folder may look into it. */
export const withFolders = (patterns: readonly string[]): readonly string[] =>
  patterns.flatMap((pattern) => (pattern.endsWith('/*') ? [pattern, `${pattern.slice(0, -1)}.`] : [pattern]))

const levels = { one: 1, none: 0 } as const

const beginsWith = (names: readonly string[], start: readonly string[]): boolean =>
  start.length <= names.length && start.every((name, index) => name === names[index])

export const coversNames = ({ names, depth }: PathPattern, asked: readonly string[]): boolean =>
  beginsWith(asked, names) && (depth === 'any' || asked.length === names.length + levels[depth])

/** Whether the path is on the way to what the pattern covers, or is covered. */
export const leadsToCovered = (pattern: PathPattern, asked: readonly string[]): boolean =>
  beginsWith(pattern.names, asked) || coversNames(pattern, asked)

/** Of an absolute path without `..`. */
export const coversPath = (pattern: string, path: string): boolean =>
  coversNames(parsePathPattern(pattern), namesOf(path))
