/**
 * The one way in which tools, agents and workflows are ranked: by what they mean, raised by the words they share with the
 * query. A document is known by several texts; how like each is to the query is a cosine.
 */
const textWeights = [1, 0.3, 0.1] as const
const textWeightSum = textWeights.reduce((sum, weight) => sum + weight, 0)

/** The likeness of a document from those of its texts: the best counts most, and what the next two say confirms it. */
export function meaningOf(likenesses: readonly number[]): number {
  const best = likenesses.toSorted((left, right) => right - left)
  const sum = textWeights.reduce((total, weight, index) => total + weight * (best[index] ?? best.at(-1) ?? 0), 0)
  return Math.min(1, Math.max(0, sum / textWeightSum))
}

const SHARED_WORDS_WEIGHT = 1.2
const FEW_WORDS = 3

/**
 * From 0 to 1. `words` says from 0 to 1 how well the document does by words alone: with a few words, which are mostly names
 * of things, that counts for much, and in a sentence for little.
 */
export function hybridScore(meaning: number, words: number, query: string): number {
  const count = query.trim().split(/\s+/).length
  const weight = SHARED_WORDS_WEIGHT / Math.max(FEW_WORDS, count)
  return meaning + (1 - meaning) * weight * words
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
