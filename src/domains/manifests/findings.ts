/** Problems in a text from a caller: an error prevents its use, a warning does not. */
export type Findings = Readonly<{ error(at: string, problem: string): void; warn(at: string, problem: string): void }>

export type FindingList = Findings & Readonly<{ errors: readonly string[]; warnings: readonly string[] }>

/** Bounds the list for a hostile text. */
const FINDINGS_MAX = 100

/** Continues from the findings in `before`. */
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

/** Untrusted text in a message: short, and well-formed. */
export const quoted = (value: unknown): string => `'${String(value).slice(0, 64).toWellFormed()}'`
