/** The largest scores above 0, best first and ties in their order, and how many scores are above 0. */
export type TopScores = Readonly<{ first: readonly number[]; total: number }>

/** Few of very many scores are needed, so only the current best are kept sorted. */
export function topScores(scores: Float64Array, count: number): TopScores {
  const first: number[] = []
  let total = 0
  for (let index = 0; index < scores.length; index++) {
    const score = scores[index]!
    if (score <= 0) continue
    total++
    if (first.length === count) {
      if (score <= scores[first[count - 1]!]!) continue
      first.pop()
    }
    let rank = first.length
    while (rank > 0 && score > scores[first[rank - 1]!]!) rank--
    first.splice(rank, 0, index)
  }
  return { first, total }
}
