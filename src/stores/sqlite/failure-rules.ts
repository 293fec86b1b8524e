/** SQLite's result codes for errors of ours: ERROR, TOOBIG, CONSTRAINT, MISMATCH, MISUSE, RANGE. */
const ourMistakes: ReadonlySet<number> = new Set([1, 18, 19, 20, 21, 25])

type SqliteError = Readonly<{ errcode?: number; errstr?: string }> | undefined

/** Who must act when a statement fails. Only SQLite's fixed text for a result is passed on, never a statement's. */
export const failureRules = {
  isOurMistake(error: unknown): boolean {
    const errcode = (error as SqliteError)?.errcode
    return errcode === undefined ? error instanceof TypeError : ourMistakes.has(errcode & 0xff)
  },
  reasonOf: (error: unknown): string | undefined => (error as SqliteError)?.errstr,
}
