/** The numbers that a model of the BERT family gives to pieces of words; a piece within a word begins with `##`. */
export type PieceNumbers = Readonly<Record<string, number>>

const WORD_CHARACTERS_MAX = 100
const INNER = '##'

/**
 * Cuts a text as BERT without case does: lower case and no accents, punctuation and each Chinese character by itself, then for
 * every word the longest pieces from its beginning. A word that the vocabulary cannot spell is one unknown piece. The marks of
 * beginning and end are included, and at most `tokensMax` numbers are answered.
 */
export function createPieceEncoder(numbers: PieceNumbers, tokensMax: number): (text: string) => number[] {
  const pieces = new Map(Object.entries(numbers))
  const numberOf = (mark: string): number => {
    const number = pieces.get(mark)
    if (number === undefined) throw new Error(`the vocabulary has no ${mark}`)
    return number
  }
  const [begin, end, unknown] = [numberOf('[CLS]'), numberOf('[SEP]'), numberOf('[UNK]')]
  let longest = 1
  for (const piece of pieces.keys()) longest = Math.max(longest, piece.length)

  function spell(word: string): number[] {
    if ([...word].length > WORD_CHARACTERS_MAX) return [unknown]
    const found: number[] = []
    for (let start = 0; start < word.length; ) {
      let stop = Math.min(word.length, start + longest)
      let number: number | undefined
      for (; stop > start; stop--) {
        number = pieces.get(`${start === 0 ? '' : INNER}${word.slice(start, stop)}`)
        if (number !== undefined) break
      }
      if (number === undefined) return [unknown]
      found.push(number)
      start = stop
    }
    return found
  }

  return (text) => {
    const found = [begin]
    for (const word of wordsOf(text)) {
      found.push(...spell(word))
      if (found.length >= tokensMax) break
    }
    return [...found.slice(0, tokensMax - 1), end]
  }
}

const standsAlone = /[\p{P}$+<=>^`|~\p{Script=Han}]/gu

function wordsOf(text: string): string[] {
  const plain = text
    .toWellFormed()
    .replaceAll(/[^\P{C}\s]|�/gu, '')
    .toLowerCase()
    .normalize('NFD')
    .replaceAll(/\p{Mn}/gu, '')
  return plain.replaceAll(standsAlone, ' $& ').split(/\s+/).filter(Boolean)
}
