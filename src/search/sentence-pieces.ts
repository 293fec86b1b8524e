/** Pieces of words with the logarithm of how likely each is; the first few stand for no text. */
export type Vocabulary = readonly (readonly [piece: string, score: number])[]

const RESERVED = 6
const UNKNOWN = 0
const UNKNOWN_SCORE = -100
const SPACE = '▁'

/**
 * Cuts a text into the most likely pieces, as a unigram model of SentencePiece does (Viterbi), and answers their numbers.
 * What the vocabulary cannot spell is one unknown piece. Linear in the text.
 */
export function createPieceEncoder(vocabulary: Vocabulary): (text: string) => number[] {
  const pieces = new Map<string, readonly [number, number]>()
  let longest = 1
  for (const [index, [piece, score]] of vocabulary.entries()) {
    if (index < RESERVED) continue
    pieces.set(piece, [index, score])
    longest = Math.max(longest, [...piece].length)
  }
  return (text) => {
    const characters = [...`${SPACE}${text.normalize('NFKC').trim().replaceAll(/\s+/g, SPACE)}`]
    const count = characters.length
    const best = new Array<number>(count + 1).fill(Number.NEGATIVE_INFINITY)
    const from = new Array<readonly [start: number, piece: number]>(count + 1)
    best[0] = 0
    const offer = (start: number, end: number, piece: number, score: number) => {
      if (best[start]! + score <= best[end]!) return
      best[end] = best[start]! + score
      from[end] = [start, piece]
    }
    for (let start = 0; start < count; start++) {
      let piece = ''
      for (let end = start; end < Math.min(count, start + longest); end++) {
        piece += characters[end]!
        const known = pieces.get(piece)
        if (known !== undefined) offer(start, end + 1, known[0], known[1])
      }
      offer(start, start + 1, UNKNOWN, UNKNOWN_SCORE)
    }
    return walkBack(from, count)
  }
}

function walkBack(from: readonly (readonly [start: number, piece: number])[], count: number): number[] {
  const found: number[] = []
  for (let end = count; end > 0; ) {
    const [start, piece] = from[end]!
    if (piece !== UNKNOWN || found.at(-1) !== UNKNOWN) found.push(piece)
    end = start
  }
  return found.reverse()
}
