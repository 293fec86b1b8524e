/** Does the works of one id one after the other, whether they succeed or fail; those of others go on beside them. */
export type InTurn = <T>(id: string, work: () => Promise<T>) => Promise<T>

export function createTurns(): InTurn {
  const turns = new Map<string, Promise<unknown>>()
  return (id, work) => {
    const turn = (turns.get(id) ?? Promise.resolve()).then(work, work)
    const settled = turn.catch(() => {})
    turns.set(id, settled)
    void settled.then(() => turns.get(id) === settled && turns.delete(id))
    return turn
  }
}
