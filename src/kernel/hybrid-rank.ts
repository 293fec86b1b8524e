/**
 * The one ranking of tools, agents and workflows: by meaning, raised by shared words. A document has several texts; the
 * similarity of each to the query is a cosine.
 */
const textWeights = { best: 1, second: 0.3, third: 0.1 } as const
const textWeightSum = textWeights.best + textWeights.second + textWeights.third

/**
 * The similarity of a document from those of its texts, at `start` up to before `end`: the best counts most, and the next two
 * confirm it.
 */
export function meaningOf(likenesses: ArrayLike<number>, start = 0, end = likenesses.length): number {
  if (start >= end) return 0
  let best = Number.NEGATIVE_INFINITY
  let second = best
  let third = best
  for (let index = start; index < end; index++) {
    const value = likenesses[index]!
    if (value > best) [best, second, third] = [value, best, second]
    else if (value > second) [second, third] = [value, second]
    else if (value > third) third = value
  }
  // With fewer than three texts, the last one stands for the others.
  if (end - start < 2) second = best
  if (end - start < 3) third = second
  const sum = textWeights.best * best + textWeights.second * second + textWeights.third * third
  return Math.min(1, Math.max(0, sum / textWeightSum))
}

const SHARED_WORDS_WEIGHT = 1.2
const FEW_WORDS = 3

/**
 * A document's score for a query, from 0 to 1. `words` is its score by words alone, from 0 to 1: it counts much for a few words,
 * which are mostly names, and little in a sentence.
 */
export function hybridScoring(query: string): (meaning: number, words: number) => number {
  const weight = SHARED_WORDS_WEIGHT / Math.max(FEW_WORDS, query.trim().split(/\s+/).length)
  return (meaning, words) => meaning + (1 - meaning) * weight * words
}

/** The cosine, where opposite counts as unrelated. */
export function likeness(left: Float32Array, right: Float32Array): number {
  if (left.length !== right.length) throw new Error('vectors of different lengths')
  let product = 0
  let leftSquare = 0
  let rightSquare = 0
  for (let index = 0; index < left.length; index++) {
    product += left[index]! * right[index]!
    leftSquare += left[index]! ** 2
    rightSquare += right[index]! ** 2
  }
  const length = Math.sqrt(leftSquare * rightSquare)
  return length === 0 ? 0 : Math.min(1, Math.max(0, product / length))
}
