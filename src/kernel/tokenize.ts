/**
 * Text to words, for every script. A word is a run of letters, digits and marks after NFKC, in lower case and without
 * Latin, Greek or Cyrillic accents; so `Ｆｉｌｅ`, `file` and `FILE` are one word, and `créer` is `creer`.
 *
 * Scripts that write no spaces between words (and Hangul, whose particles stick to the noun) are cut into overlapping
 * pairs of characters, which finds words without a dictionary.
 */
const wordRun = /[\p{L}\p{N}\p{M}]+/gu
const spacelessClass =
  '[\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Hangul}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Myanmar}ー々]'
const spacelessRun = new RegExp(`(${spacelessClass}[${spacelessClass.slice(1, -1)}\\p{M}]*)`, 'u')
const spaceless = new RegExp(`^${spacelessClass}`, 'u')

/** Letters that no Unicode decomposition turns into their plain form. */
const plainLetters: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  ł: 'l',
  đ: 'd',
  ð: 'd',
  þ: 'th',
  ı: 'i',
  ς: 'σ',
}

export function foldWord(word: string): string {
  const plain = word.toLowerCase()
  if (/^[a-z0-9]*$/.test(plain)) return plain
  return plain
    .normalize('NFD')
    .replace(/[\u0300-\u036f]/g, '')
    .normalize('NFC')
    .replace(/[ßæœøłđðþıς]/g, (letter) => plainLetters[letter]!)
}

/** The humps of a camel-case run, as written: `HTTPFetch` gives `HTTP` and `Fetch`. */
function camelParts(run: string): string[] {
  if (!/\p{Lu}/u.test(run)) return [run]
  return run
    .replace(/([\p{Ll}\p{N}])(\p{Lu})/gu, '$1 $2')
    .replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
    .split(' ')
}

/**
 * One stretch of the text as its author wrote it.
 * `word`: `whole` is the folded run and `parts` its camel-case humps (just `whole` when there is one).
 * `pairs`: a stretch of a script without spaces; `parts` are its character pairs.
 */
export type Piece = Readonly<{ kind: 'word' | 'pairs'; text: string; whole: string; parts: readonly string[] }>

export function splitPieces(text: string): Piece[] {
  const pieces: Piece[] = []
  const withoutPossessive = text.normalize('NFKC').replace(/(\p{L})['’]s(?![\p{L}\p{N}])/gu, '$1')
  for (const [run] of withoutPossessive.matchAll(wordRun)) {
    for (const stretch of run.split(spacelessRun)) {
      if (stretch === '') continue
      if (spaceless.test(stretch)) {
        const whole = foldWord(stretch)
        pieces.push({ kind: 'pairs', text: stretch, whole, parts: characterPairs(whole) })
        continue
      }
      const whole = foldWord(stretch)
      if (whole === '') continue
      const parts = camelParts(stretch).map(foldWord)
      pieces.push({
        kind: 'word',
        text: stretch,
        whole,
        parts: parts.length > 1 ? parts.filter((part) => part !== '') : [whole],
      })
    }
  }
  return pieces
}

function characterPairs(text: string): string[] {
  const characters = [...text]
  if (characters.length === 1) return characters
  return characters.slice(1).map((character, index) => characters[index]! + character)
}

/**
 * The words by which a text is found. A camel-case run counts as its humps and as a whole (`GitHub` is found by `github`
 * and by `hub`); a stretch without spaces counts as its pairs and as its single characters.
 */
export function documentWords(text: string): string[] {
  const words: string[] = []
  for (const piece of splitPieces(text)) {
    words.push(...piece.parts)
    if (piece.kind === 'pairs') words.push(...[...piece.whole].filter((character) => character !== piece.whole))
    else if (piece.parts.length > 1) words.push(piece.whole)
  }
  return words
}
