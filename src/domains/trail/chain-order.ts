/**
 * The order of the thoughts within each task, over the verified part of the log. A thought is in order if its rank equals its
 * number: the fifth of its chain comes fifth. So two swapped thoughts are two faults, and those after them are none.
 */
type ChainOrder = Readonly<{
  /** Takes the next thought. Returns the expected and the actual hash if its link is wrong. */
  link(thought: ChainedThought): readonly [expected: string, actual: string] | undefined
  /** A thought that is damaged or missing, but whose position is known. */
  pass(taskNumber: number, position: number, hash: string): void
  /** Records of unknown content: each may have been the next thought of any chain. */
  passUnknown(count: number): void
}>

type ChainedThought = Readonly<{
  taskNumber: number
  chainPosition: number
  hash: string
  previousHash: string | null
}>

/** `last` is the latest thought; `others` are those that a thought may still refer to, out of order. */
type Chain = { seen: number; lastPosition: number; lastHash: string; others: Map<number, string> | undefined }

/** `fromStart`: the verified part begins with the log, so every chain must begin with its first thought. */
export function createChainOrder(fromStart: boolean): ChainOrder {
  const chains = new Map<number, Chain>()
  let unknown = 0

  function chainOf(taskNumber: number, position: number): Chain {
    let chain = chains.get(taskNumber)
    if (chain === undefined) {
      chain = { seen: fromStart ? 0 : position - 1, lastPosition: 0, lastHash: '', others: undefined }
      chains.set(taskNumber, chain)
    }
    return chain
  }

  function append(chain: Chain, position: number, hash: string): void {
    if (chain.lastPosition !== position - 1 && chain.lastPosition !== 0) {
      chain.others ??= new Map()
      chain.others.set(chain.lastPosition, chain.lastHash)
    }
    chain.lastPosition = position
    chain.lastHash = hash
  }

  const hashAt = (chain: Chain, position: number): string | undefined =>
    chain.lastPosition === position ? chain.lastHash : chain.others?.get(position)

  return {
    link({ taskNumber, chainPosition: position, hash, previousHash }) {
      const chain = chainOf(taskNumber, position)
      const gap = position - chain.seen - 1
      if (gap > 0 && gap <= unknown) {
        unknown -= gap
        chain.seen += gap
      }
      chain.seen++
      const before = position > 1 ? hashAt(chain, position - 1) : undefined
      append(chain, position, hash)
      if (position === 1 && previousHash !== null) return ['null', previousHash]
      if (before !== undefined && before !== previousHash) return [before, String(previousHash)]
      return chain.seen === position ? undefined : [hash, before ?? String(previousHash)]
    },
    pass(taskNumber, position, hash) {
      const chain = chainOf(taskNumber, position)
      chain.seen++
      append(chain, position, hash)
    },
    passUnknown(count) {
      unknown += count
    },
  }
}
