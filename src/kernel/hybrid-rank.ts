/**
 * The one way in which tools, agents and workflows are ranked: by what they mean, raised by the words they share with the
 * query. A document is known by several texts; how like each is to the query is a cosine.
 */
const textWeights = { best: 1, second: 0.3, third: 0.1 } as const
const textWeightSum = textWeights.best + textWeights.second + textWeights.third

/**
 * The likeness of a document from those of its texts, which are the numbers from `start` to before `end`: the best counts
 * most, and what the next two say confirms it.
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
  // Where there are fewer texts than three, the last of them stands for the others.
  if (end - start < 2) second = best
  if (end - start < 3) third = second
  const sum = textWeights.best * best + textWeights.second * second + textWeights.third * third
  return Math.min(1, Math.max(0, sum / textWeightSum))
}

const SHARED_WORDS_WEIGHT = 1.2
const FEW_WORDS = 3

/**
 * How a document does for a query, from 0 to 1. `words` says from 0 to 1 how well it does by words alone: with a few words,
 * which are mostly names of things, that counts for much, and in a sentence for little.
 */
export function hybridScoring(query: string): (meaning: number, words: number) => number {
  const weight = SHARED_WORDS_WEIGHT / Math.max(FEW_WORDS, query.trim().split(/\s+/).length)
  return (meaning, words) => meaning + (1 - meaning) * weight * words
}

/** The cosine, where opposite is as far as unrelated. */
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
