import { editDistance } from './nearest-name.ts'
import { synonymGroups, translations } from './query-vocabulary.ts'
import { stopWords } from './stop-words.ts'
import { foldWord, type Piece, splitPieces } from './tokenize.ts'

/**
 * A query as the keyword index evaluates it. Each unit is one idea; a document gets the best of the unit's alternatives, never
 * their sum, so that synonyms cannot outweigh a word of the query.
 */
type QueryUnit = Readonly<{ displayed: string; alternatives: ReadonlyMap<string, number> }>
export type QueryPlan = Readonly<{
  units: readonly QueryUnit[]
  /** Words as typed, each with its correction if no document has it. */
  corrected: readonly Readonly<{ displayed: string; reading: string }>[]
  /** Words as typed that lead to no document at all. */
  unmatched: readonly string[]
}>

/** What the planner may use of an index: only terms in documents that the caller may see. */
type KnownTerms = Readonly<{
  has(term: string): boolean
  /** Words as documents write them, folded, with the term they are indexed under. */
  surfaces(): Iterable<readonly [surface: string, term: string]>
}>

export type QueryLanguage = Readonly<{
  stem(word: string): string
  /** Related words, unstemmed, with their weights. */
  related(word: string): ReadonlyMap<string, number>
  /** Dictionary words inside a stretch without spaces. */
  wordsWithin(stretch: string): readonly string[]
  /** Whether an unknown word may be read as a known one that it is a prefix or a misspelling of. */
  corrects: boolean
}>

const synonymWeight = 0.5
const translationWeight = 0.9
const prefixWeight = 0.6
const correctionWeight = 0.7
const prefixLengthMin = 3
const compoundWordsMax = 3
const compoundLengthMin = 4
const correctionsMax = 8

type Vocabulary = Readonly<{
  /** By stem. */
  synonyms: ReadonlyMap<string, ReadonlySet<string>>
  /** The English meanings of words of other languages. */
  meanings: ReadonlyMap<string, ReadonlySet<string>>
  /** Words of languages without spaces, the longest first. */
  spaceless: readonly string[]
}>

function readVocabulary(stem: (word: string) => string): Vocabulary {
  const synonyms = new Map<string, Set<string>>()
  for (const line of synonymGroups) {
    const members = line.split(' ')
    for (const member of members) {
      const others = synonyms.get(stem(member)) ?? new Set<string>()
      for (const other of members) if (other !== member) others.add(other)
      synonyms.set(stem(member), others)
    }
  }
  const meanings = new Map<string, Set<string>>()
  for (const [meaning, words] of Object.entries(translations)) {
    for (const word of words.split(' ')) {
      const key = foldWord(word)
      meanings.set(key, (meanings.get(key) ?? new Set<string>()).add(meaning))
    }
  }
  const spaceless = [...meanings.keys()]
    .filter((key) => splitPieces(key)[0]?.kind === 'pairs')
    .sort((a, b) => b.length - a.length)
  return { synonyms, meanings, spaceless }
}

/** The vocabulary is read with the first query: most starts of the program search nothing. */
export function createQueryLanguage(stem: (word: string) => string): QueryLanguage {
  let read: Vocabulary | undefined
  const vocabulary = (): Vocabulary => (read ??= readVocabulary(stem))
  const empty: ReadonlyMap<string, number> = new Map()

  const related = (word: string): ReadonlyMap<string, number> => {
    const meanings = vocabulary().meanings.get(word)
    const synonyms = vocabulary().synonyms.get(stem(word))
    if (meanings === undefined && synonyms === undefined) return empty
    const found = new Map<string, number>()
    for (const synonym of synonyms ?? []) found.set(synonym, synonymWeight)
    for (const meaning of meanings ?? []) {
      for (const synonym of vocabulary().synonyms.get(stem(meaning)) ?? []) {
        if (!found.has(synonym)) found.set(synonym, translationWeight * synonymWeight)
      }
      found.set(meaning, translationWeight)
    }
    return found
  }

  const wordsWithin = (stretch: string): readonly string[] => {
    const found: string[] = []
    for (let index = 0; index < stretch.length; ) {
      const key = vocabulary().spaceless.find((candidate) => stretch.startsWith(candidate, index))
      if (key !== undefined) found.push(key)
      index += key?.length ?? 1
    }
    return found
  }
  return { stem, related, wordsWithin, corrects: true }
}

export function planQuery(query: string, known: KnownTerms, language: QueryLanguage): QueryPlan {
  const pieces = splitPieces(query)
  const meaningful = pieces.filter((piece) => !stopWords.has(piece.whole))
  const units: QueryUnit[] = []
  const corrected: { displayed: string; reading: string }[] = []
  const joined = compoundUnits(pieces, known, language)
  const unmatched = new Set<string>()
  const compoundWords = new Set(joined.flatMap((unit) => unit.displayed.split(' ')))
  for (const piece of meaningful.length > 0 ? meaningful : pieces) {
    const own = piece.kind === 'pairs' ? pairUnits(piece, known, language) : wordUnits(piece, known, language)
    const matched = own.filter((unit) => isKnown(unit, known))
    units.push(...matched)
    if (matched.length > 0 || compoundWords.has(piece.text)) continue
    const correction = language.corrects && piece.kind === 'word' ? correct(piece, known) : undefined
    if (correction === undefined) unmatched.add(piece.text)
    else {
      units.push(correction.unit)
      corrected.push({ displayed: piece.text, reading: correction.reading })
    }
  }
  return { units: [...units, ...joined], corrected, unmatched: [...unmatched] }
}

const isKnown = (unit: QueryUnit, known: KnownTerms): boolean => {
  for (const term of unit.alternatives.keys()) if (known.has(term)) return true
  return false
}

function alternativesOf(word: string, language: QueryLanguage, own: boolean): Map<string, number> {
  const alternatives = new Map<string, number>()
  if (own) alternatives.set(language.stem(word), 1)
  for (const [other, weight] of language.related(word)) {
    const term = language.stem(other)
    if ((alternatives.get(term) ?? 0) < weight) alternatives.set(term, weight)
  }
  return alternatives
}

function wordUnits(piece: Piece, known: KnownTerms, language: QueryLanguage): QueryUnit[] {
  const words = piece.parts.length > 1 && known.has(language.stem(piece.whole)) ? [piece.whole] : piece.parts
  return words
    .filter((word) => words.length === 1 || !stopWords.has(word))
    .map((word) => ({ displayed: piece.text, alternatives: alternativesOf(word, language, true) }))
}

function pairUnits(piece: Piece, known: KnownTerms, language: QueryLanguage): QueryUnit[] {
  const pairs = piece.parts
    .filter((pair) => known.has(pair))
    .map((pair) => ({ displayed: piece.text, alternatives: new Map([[pair, 1]]) }))
  const words = language.wordsWithin(piece.whole)
  return [
    ...pairs,
    ...words.map((word) => ({ displayed: piece.text, alternatives: alternativesOf(word, language, false) })),
  ]
}

/** Neighbouring words that documents write as one: `who am i` for `whoami`, `work space` for `workspace`. */
function compoundUnits(pieces: readonly Piece[], known: KnownTerms, language: QueryLanguage): QueryUnit[] {
  const units: QueryUnit[] = []
  for (let start = 0; start < pieces.length; start++) {
    for (let length = 2; length <= compoundWordsMax && start + length <= pieces.length; length++) {
      const parts = pieces.slice(start, start + length)
      const word = parts.map((piece) => piece.whole).join('')
      const term = language.stem(word)
      if (word.length < compoundLengthMin || parts.some((piece) => piece.kind === 'pairs') || !known.has(term)) continue
      units.push({ displayed: parts.map((piece) => piece.text).join(' '), alternatives: new Map([[term, 1]]) })
    }
  }
  return units
}

/** Reads an unknown word as the words it begins, else as the words that it spells with the fewest mistakes. */
function correct(piece: Piece, known: KnownTerms): { unit: QueryUnit; reading: string } | undefined {
  const word = piece.whole
  const completions: [surface: string, term: string][] = []
  const near: [surface: string, term: string][] = []
  let allowed = word.length < 4 ? 0 : word.length < 7 ? 1 : 2
  for (const [surface, term] of known.surfaces()) {
    if (word.length >= prefixLengthMin && surface.startsWith(word)) completions.push([surface, term])
    if (allowed === 0 || surface.length < 4) continue
    const distance = editDistance(word, surface, allowed)
    if (distance > allowed) continue
    if (distance < allowed) near.length = 0
    allowed = distance
    near.push([surface, term])
  }
  const found = (completions.length > 0 ? completions : near)
    .sort(([a], [b]) => a.length - b.length || (a < b ? -1 : 1))
    .slice(0, correctionsMax)
  if (found.length === 0) return undefined
  const weight = completions.length > 0 ? prefixWeight : correctionWeight
  return {
    unit: { displayed: piece.text, alternatives: new Map(found.map(([, term]) => [term, weight])) },
    reading: found[0]![0],
  }
}
