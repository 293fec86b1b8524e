import type { Team } from './ports.ts'

/** One making or destroying of teams, in this process. */
export type Work = symbol

/**
 * Which teams are being made or destroyed in this process. A row that names this process although nobody here works on it was
 * left by an operation whose last entry the store did not take; like one of an ended process, it is free to be taken.
 */
export function createTeamLocks(
  deps: Readonly<{ bootId: string; isAlive(bootId: string): boolean | Promise<boolean> }>,
) {
  const works = new Map<string, Work>()
  const keyOf = ({ tenant, name }: Pick<Team, 'tenant' | 'name'>): string => `${tenant} ${name}`

  return {
    /** What is taken meanwhile is taken until the end of `run`. */
    async during<T>(run: (work: Work) => Promise<T>): Promise<T> {
      const work: Work = Symbol('work')
      try {
        return await run(work)
      } finally {
        for (const [key, owner] of works) if (owner === work) works.delete(key)
      }
    },
    take(work: Work, team: Pick<Team, 'tenant' | 'name'>): void {
      works.set(keyOf(team), work)
    },
    /** Of the other server processes that the teams name, those that are no more. Asked before a transaction, which only looks at rows. */
    async ended(teams: readonly Team[]): Promise<ReadonlySet<string>> {
      const found = new Set<string>()
      for (const { operation } of teams) {
        if (operation !== null && operation !== deps.bootId && !(await deps.isAlive(operation))) found.add(operation)
      }
      return found
    },
    /** Whether nobody is going to bring the team to an end, or the work itself is. */
    isFree(work: Work, team: Team, ended: ReadonlySet<string>): boolean {
      if (team.operation === null) return true
      if (team.operation !== deps.bootId) return ended.has(team.operation)
      const owner = works.get(keyOf(team))
      return owner === undefined || owner === work
    },
  }
}
