/**
 * Suggestions for an unknown name. Deterministic: ties are resolved by code-unit order, and candidates may come in any order. The
 * work is bounded whatever the length of `input`.
 */
const inputLengthMax = 128
const distanceMax = 2
const distanceLengthMin = 4
const substringLengthMin = 3
/** Of the share of words; below it, one common or similar word among many says nothing. */
const sharedMin = 0.5

/** One spelling for all case and separator variants: `taskCreate`, `task_create` and `TASK.CREATE` are equal. */
export const squashName = (name: string): string =>
  name
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}]+/gu, '')

/** The lower-case words of a name, split at separators and at camel-case humps. */
export function nameWords(name: string): string[] {
  return name
    .normalize('NFKC')
    .replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2')
    .replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
    .toLowerCase()
    .split(/[^\p{L}\p{N}\p{M}]+/u)
    .filter((word) => word !== '')
}

/**
 * Insertions, deletions, substitutions and swaps of neighbours that turn `left` into `right`; any number above `max`
 * when there are more than that.
 */
export function editDistance(left: string, right: string, max: number): number {
  if (Math.abs(left.length - right.length) > max) return max + 1
  let beforeLast: number[] = []
  let last = Array.from({ length: right.length + 1 }, (_, column) => column)
  for (let row = 1; row <= left.length; row++) {
    const current = [row]
    let smallest = row
    for (let column = 1; column <= right.length; column++) {
      const same = left[row - 1] === right[column - 1]
      let cost = Math.min(last[column]! + 1, current[column - 1]! + 1, last[column - 1]! + (same ? 0 : 1))
      const swapped =
        row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]
      if (swapped) cost = Math.min(cost, beforeLast[column - 2]! + 1)
      current.push(cost)
      if (cost < smallest) smallest = cost
    }
    if (smallest > max) return max + 1
    beforeLast = last
    last = current
  }
  return last[right.length]!
}

/**
 * The most likely candidate: equal except for case and separators, else one that contains the name or is contained in it, else
 * one within two edits, or within one if the name has three characters. What is contained begins or ends with a word of the longer
 * name, or is at least half of it: inside words, short texts occur by chance.
 */
export function nearestName(input: string, candidates: Iterable<string>): string | undefined {
  const cut = input.slice(0, inputLengthMax)
  const query = squashName(cut)
  if (query === '') return undefined
  let best: string | undefined
  let bestCost = Number.POSITIVE_INFINITY
  for (const candidate of candidates) {
    const cost = nearness(query, cut, candidate)
    if (cost < bestCost || (cost === bestCost && best !== undefined && candidate < best)) {
      best = candidate
      bestCost = cost
    }
  }
  return Number.isFinite(bestCost) ? best : undefined
}

/** Equal 0; substring 1 plus the remaining letters; edits above every substring. `query` is the squashed `input`. */
function nearness(query: string, input: string, candidate: string): number {
  const have = squashName(candidate)
  if (have === query) return 0
  const isContained = query.length < have.length ? isPart(query, have, candidate) : isPart(have, query, input)
  if (isContained) return 1 + Math.abs(have.length - query.length)
  if (query.length < substringLengthMin) return Number.POSITIVE_INFINITY
  const max = query.length < distanceLengthMin ? 1 : distanceMax
  const distance = editDistance(query, have, max)
  return distance <= max ? 1_000_000 + distance : Number.POSITIVE_INFINITY
}

/** `whole` is the squashed `name`. */
function isPart(part: string, whole: string, name: string): boolean {
  if (part.length < substringLengthMin) return false
  let at = whole.indexOf(part)
  if (at === -1 || part.length * 2 >= whole.length) return at !== -1
  const bounds = new Set([0])
  let length = 0
  for (const word of nameWords(name)) {
    length += word.length
    bounds.add(length)
  }
  for (; at !== -1; at = whole.indexOf(part, at + 1)) if (bounds.has(at) || bounds.has(at + part.length)) return true
  return false
}

/**
 * Up to `count` candidates for a person or model to choose from, best first. More generous than `nearestName`: words in
 * another order (`create_task` for `task_create`) and words with a typing mistake count as well.
 */
export function nearestNames(input: string, candidates: Iterable<string>, count: number): string[] {
  const cut = input.slice(0, inputLengthMax)
  const query = squashName(cut)
  if (query === '') return []
  const queryWords = [...new Set(nameWords(cut))].slice(0, 16)
  const ranked: { candidate: string; score: number }[] = []
  for (const candidate of new Set(candidates)) {
    const cost = nearness(query, cut, candidate)
    const score =
      sharedWords(queryWords, nameWords(candidate)) + (Number.isFinite(cost) ? 1 / (1 + (cost % 1_000_000)) : 0)
    if (Number.isFinite(cost) || score >= sharedMin) ranked.push({ candidate, score })
  }
  ranked.sort((a, b) => b.score - a.score || (a.candidate < b.candidate ? -1 : 1))
  return ranked.slice(0, count).map((entry) => entry.candidate)
}

/** Between 0 and 2: the Dice share of words that both have, a word with one mistake counting half. */
function sharedWords(query: readonly string[], have: readonly string[]): number {
  if (query.length === 0 || have.length === 0) return 0
  let shared = 0
  for (const word of query) {
    if (have.includes(word)) shared += 1
    else if (word.length >= distanceLengthMin && have.some((other) => isNearWord(word, other))) shared += 0.5
  }
  return (4 * shared) / (query.length + have.length)
}

const isNearWord = (word: string, other: string): boolean =>
  other.length >= distanceLengthMin &&
  (word.startsWith(other) || other.startsWith(word) || editDistance(word, other, 1) <= 1)
