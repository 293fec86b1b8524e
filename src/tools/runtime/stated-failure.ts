import type { ErrorKind } from '../../contract/error-codes.ts'
import type { Effect } from './define-tool.ts'

/**
 * The answers of a tool, in their documented shape, that say that the work was not done: a field has this value, or a list of
 * that name is empty or not. If all rows of the list are of one of the kinds in `byErrorCode`, the failure is of that kind.
 */
export type StatedFailure = Readonly<{
  kind: ErrorKind
  field: string
  is: boolean | string | ListState
  byErrorCode?: Readonly<Record<string, ErrorKind>>
}>
type ListState = Readonly<{ empty: boolean }>

type Declared = Readonly<{ effect: Effect; fails?: StatedFailure }>

/** The kind of the failure that an answer states; undefined for a success. The exit code of the command line follows it. */
export function statedFailure({ fails }: Pick<Declared, 'fails'>, answer: unknown): ErrorKind | undefined {
  if (fails === undefined || typeof answer !== 'object' || answer === null) return undefined
  const value = (answer as Readonly<Record<string, unknown>>)[fails.field]
  const isStated =
    typeof fails.is === 'object' ? Array.isArray(value) && (value.length === 0) === fails.is.empty : value === fails.is
  return isStated ? kindOf(fails, value) : undefined
}

function kindOf({ kind, byErrorCode }: StatedFailure, rows: unknown): ErrorKind {
  if (byErrorCode === undefined || !Array.isArray(rows)) return kind
  const kinds = new Set(rows.map(({ errorCode }: { errorCode?: unknown }) => byErrorCode[String(errorCode)] ?? kind))
  const [first, ...others] = kinds
  return first === undefined || others.length > 0 ? kind : first
}

/** MCP's `isError`: a tool that only reads, such as a check, has done its work whatever it found. */
export const isStatedError = (declared: Declared, answer: unknown): boolean =>
  declared.effect !== 'read' && statedFailure(declared, answer) !== undefined
