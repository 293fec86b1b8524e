/** What was found in a text of another caller: an error keeps it from being used, a warning does not. */
export type Findings = Readonly<{ error(at: string, problem: string): void; warn(at: string, problem: string): void }>

export type FindingList = Findings & Readonly<{ errors: readonly string[]; warnings: readonly string[] }>

/** A hostile text must not make a list of problems without end. */
const FINDINGS_MAX = 100

/** Goes on from what was found `before`. */
export function createFindings(
  before: Pick<FindingList, 'errors' | 'warnings'> = { errors: [], warnings: [] },
): FindingList {
  const errors = [...before.errors]
  const warnings = [...before.warnings]
  const add = (list: string[], at: string, problem: string): void => {
    if (list.length < FINDINGS_MAX) list.push(`${at}: ${problem}`)
  }
  return {
    errors,
    warnings,
    error: (at, problem) => add(errors, at, problem),
    warn: (at, problem) => add(warnings, at, problem),
  }
}

/** A text of another's in a message: short, and whole characters only. */
export const quoted = (value: unknown): string => `'${String(value).slice(0, 64).toWellFormed()}'`
