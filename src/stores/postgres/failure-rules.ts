/**
 * Classes of SQLSTATE for errors of ours: 0A not supported, 21 cardinality, 22 data, 23 constraint, 26 statement name, 42 syntax
 * or access.
 */
const ourMistakes: ReadonlySet<string> = new Set(['0A', '21', '22', '23', '26', '42'])

/** Who must act when a statement fails. Only the code of the server's error is passed on. */
export const failureRules = {
  isOurMistake(error: unknown): boolean {
    const code = codeOf(error)
    return code === undefined ? error instanceof TypeError : code.length === 5 && ourMistakes.has(code.slice(0, 2))
  },
  reasonOf: (error: unknown): string | undefined => codeOf(error),
}

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code
  return typeof code === 'string' ? code : undefined
}
