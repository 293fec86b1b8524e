/**
 * Tools that do what another tool does, under a name of their own. Rules do not ask which of the names was called: a policy, a limit or a
 * security context that names one of them holds for all.
 */
const sameTools: Readonly<Record<string, Readonly<{ tool: string; arguments?: Readonly<Record<string, string>> }>>> = {
  'fs.create.dir': { tool: 'fs.create_dir' },
  'aegis.execute': { tool: 'aegis.execute.intent', arguments: { prompt: 'intent' } },
  'aegis.agent.wait': { tool: 'aegis.task.wait' },
  'aegis.execute.wait': { tool: 'aegis.workflow.wait' },
}

/**
 * A name without case, spaces and separators. Models choose how to write a name, and programs mend names that they do not know, each in its
 * own way.
 */
export const foldedName = (name: string): string => {
  const letters = name.normalize('NFKC').toUpperCase().toLowerCase().replaceAll(SEPARATORS, '')
  return letters === '' ? name : letters
}
const SEPARATORS = /[^\p{L}\p{N}]+/gu

/** The name that rules are kept under. */
export const ruledNameOf = (name: string): string => (Object.hasOwn(sameTools, name) ? sameTools[name]!.tool : name)

const spellings = new Map(
  Object.entries(sameTools).flatMap(([name, { tool }]) => [
    [name, [name, tool]],
    [tool, [tool, name]],
  ]),
) as ReadonlyMap<string, readonly string[]>

/** Every name of the tool, the given one first. */
export const spellingsOf = (name: string): readonly string[] => spellings.get(name) ?? [name]

const spelledArguments = new Map(
  Object.values(sameTools).flatMap(({ tool, arguments: pairs }) =>
    pairs === undefined ? [] : [[tool, Object.entries(pairs)] as const],
  ),
)

/** Arguments of the tool that rules are kept under, each by all of its names, so that a condition on any of them sees it. */
export function withSpelledArguments(ruledName: string | undefined, args: unknown): unknown {
  const pairs = ruledName === undefined ? undefined : spelledArguments.get(ruledName)
  if (pairs === undefined || typeof args !== 'object' || args === null) return args
  const input = args as Readonly<Record<string, unknown>>
  const named = pairs.flatMap(([one, other]) => [
    [one, input[one] ?? input[other]],
    [other, input[other] ?? input[one]],
  ])
  return { ...input, ...Object.fromEntries(named) }
}
