/**
 * Changes of files, one after the other, so that none is lost between another's reading and writing. A file has many paths,
 * so it is the workspace that they take turns in.
 */
export type Turns = Readonly<{ take<T>(key: string, work: () => Promise<T>): Promise<T> }>

export function createTurns(): Turns {
  const last = new Map<string, Promise<unknown>>()
  return {
    take(key, work) {
      const turn = (last.get(key) ?? Promise.resolve()).then(work, work)
      last.set(key, turn)
      const leave = (): void => {
        if (last.get(key) === turn) last.delete(key)
      }
      turn.then(leave, leave)
      return turn
    },
  }
}
