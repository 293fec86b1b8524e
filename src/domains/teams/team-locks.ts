import type { Team } from './ports.ts'

/** One creation or destruction of teams, in this process. */
export type Work = symbol

/**
 * The teams that are being created or destroyed in this process. A row that names this process although no operation
 * here works on it was left by an operation whose last write failed. Like a row of an ended process, it can be claimed.
 */
export function createTeamLocks(
  deps: Readonly<{ bootId: string; isAlive(bootId: string): boolean | Promise<boolean> }>,
) {
  const works = new Map<string, Work>()
  const keyOf = ({ tenant, name }: Pick<Team, 'tenant' | 'name'>): string => `${tenant} ${name}`

  return {
    /** Claims made meanwhile last until the end of `run`. */
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
    /**
     * Those of the other server processes named by the teams that have ended. Determined before a transaction, which
     * only reads rows.
     */
    async ended(teams: readonly Team[]): Promise<ReadonlySet<string>> {
      const found = new Set<string>()
      for (const { operation } of teams) {
        if (operation !== null && operation !== deps.bootId && !(await deps.isAlive(operation))) found.add(operation)
      }
      return found
    },
    /** Whether no process will complete the team, or this operation itself will. */
    isFree(work: Work, team: Team, ended: ReadonlySet<string>): boolean {
      if (team.operation === null) return true
      if (team.operation !== deps.bootId) return ended.has(team.operation)
      const owner = works.get(keyOf(team))
      return owner === undefined || owner === work
    },
  }
}
