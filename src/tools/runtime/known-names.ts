import { nameWords, nearestNames, squashName } from '../../kernel/nearest-name.ts'

/** The names that a caller can mean, however many there are. */
export type KnownNames = Readonly<{
  has(name: string): boolean
  /** Names that differ from it only in case and separators. */
  spelledLike(name: string): readonly string[]
  /** Up to `count` suggestions, best first. */
  nearest(name: string, count: number): readonly string[]
}>

/** Comparing takes about ten microseconds a name, so of many names only the promising ones are compared. */
const COMPARED_MAX = 300
const WORD_LENGTH_MIN = 3
const BEGINNING_LENGTH = 5

export function createKnownNames(names: readonly string[]): KnownNames {
  const known = new Set(names)
  let bySquashed: Map<string, string[]> | undefined
  return {
    has: (name) => known.has(name),
    spelledLike(name) {
      bySquashed ??= groupedBySpelling(names)
      return bySquashed.get(squashName(name)) ?? []
    },
    nearest: (name, count) => nearestNames(name, promising(name, names), count),
  }
}

function groupedBySpelling(names: readonly string[]): Map<string, string[]> {
  const groups = new Map<string, string[]>()
  for (const name of names) {
    const squashed = squashName(name)
    const group = groups.get(squashed)
    if (group === undefined) groups.set(squashed, [name])
    else group.push(name)
  }
  return groups
}

/** Names that contain most of the requested words, or have the same prefix. */
function promising(requested: string, names: readonly string[]): readonly string[] {
  if (names.length <= COMPARED_MAX) return names
  const words = [...new Set(nameWords(requested.slice(0, 128)))]
    .filter(({ length }) => length >= WORD_LENGTH_MIN)
    .slice(0, 8)
  const beginning = requested.slice(0, BEGINNING_LENGTH).toLowerCase()
  const byShare: string[][] = Array.from({ length: words.length + 2 }, () => [])
  for (const name of names) {
    const lower = name.toLowerCase()
    let share = lower.startsWith(beginning) ? 1 : 0
    for (const word of words) if (lower.includes(word)) share++
    byShare[share]!.push(name)
  }
  return byShare.slice(1).reverse().flat().slice(0, COMPARED_MAX)
}
