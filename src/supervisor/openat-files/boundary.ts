import type { AppError } from '../../contract/app-error.ts'
import { pathOutside } from '../../contract/workspace-path.ts'
import { coversNames, leadsToCovered, parsePathPattern } from '../../kernel/path-pattern.ts'
import { type ByteString, bytesOfText } from './requested-path.ts'

/** Where a walk may lead, by real paths with links resolved. */
export type Boundary = Readonly<{
  /** Whether a walk may pass here: inside the boundary, or on the way to it. Nothing else is even opened. */
  passes(names: readonly ByteString[]): boolean
  /** Whether a walk may end here. */
  holds(names: readonly ByteString[]): boolean
  refusal(field: string): AppError
}>

/** Every list must allow a path. Within a list, one matching pattern is enough. */
export function createBoundary(lists: readonly (readonly string[])[]): Boundary {
  const parsed = lists.map((patterns) => patterns.map((pattern) => parsePathPattern(bytesOfText(pattern))))
  return {
    passes: (names) => parsed.every((patterns) => patterns.some((pattern) => leadsToCovered(pattern, names))),
    holds: (names) => parsed.every((patterns) => patterns.some((pattern) => coversNames(pattern, names))),
    refusal: (field) => pathOutside(field, [...new Set(lists.flat().filter((pattern) => !pattern.endsWith('/.')))]),
  }
}
