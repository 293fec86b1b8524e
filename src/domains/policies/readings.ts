import { limits } from '../../contract/limits.ts'
import type { PolicyTool } from '../../contract/tool-policies.ts'
import { withSpelledArguments } from '../../contract/tool-spellings.ts'
import { absolutePath } from '../../contract/workspace-path.ts'

/** Arguments as conditions see them. */
export type Reading = Readonly<{
  args: unknown
  /** The values of arguments that a condition names without a further step. */
  whole: ReadonlyMap<string, unknown>
}>

/**
 * The ways in which a tool of ours can read its arguments:
 *
 * 1. It takes one command as a text or several as a list. Each command is judged as if it came alone, so that a rule for the text
 *    cannot be passed by in a list; and a condition on items of the list also sees a single text. The tool refuses longer lists than
 *    are judged.
 * 2. A path has many spellings. It is judged as it came, and as the absolute path without empty names and dots. Links in the workspace
 *    are not followed.
 */
export function readingsOf({ id, commands, paths = [] }: PolicyTool, input: unknown): readonly Reading[] {
  const args = withSpelledArguments(id, input)
  const readings = commands === undefined ? [{ args, whole: new Map() }] : commandReadings(args, commands)
  const absolute = paths.flatMap((name) => {
    const path = memberOf(args, name)
    return typeof path === 'string' ? [[name, absolutePath(path)] as const] : []
  })
  if (absolute.every(([name, path]) => path === memberOf(args, name))) return readings
  return readings.flatMap((one) => [one, { ...one, whole: new Map([...one.whole, ...absolute]) }])
}

function commandReadings(args: unknown, name: string): readonly Reading[] {
  const value = memberOf(args, name)
  if (value === undefined) return [{ args, whole: new Map() }]
  const items: readonly unknown[] = Array.isArray(value) ? value.slice(0, limits.workspaceBatchMax) : [value]
  const listed = { ...(args as object), [name]: items }
  return (items.length === 0 ? [value] : items).map((item) => ({ args: listed, whole: new Map([[name, item]]) }))
}

const memberOf = (args: unknown, name: string): unknown =>
  typeof args === 'object' && args !== null && Object.hasOwn(args, name)
    ? (args as Readonly<Record<string, unknown>>)[name]
    : undefined
