/** Which scores above 0 are the largest, best first and equals in their order, and how many are above 0 in all. */
export type TopScores = Readonly<{ first: readonly number[]; total: number }>

/** Of very many scores few are wanted, so only those that are among the first so far are put in their place. */
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
