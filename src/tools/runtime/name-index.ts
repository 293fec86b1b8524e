const ALTERNATE_PREFIX = 'archestra__'

type Named = Readonly<{ name: string; safeName: string }>

/** Every name that leads to a tool. A documented name takes precedence over the safe name of another tool. */
export function indexByName<Tool extends Named>(tools: readonly Tool[]): ReadonlyMap<string, Tool> {
  const byName = new Map<string, Tool>()
  for (const tool of tools) {
    if (byName.has(tool.name)) throw new Error(`two tools are named ${tool.name}`)
    byName.set(tool.name, tool)
  }
  for (const tool of tools) {
    if (!byName.has(tool.safeName)) byName.set(tool.safeName, tool)
  }
  return byName
}

/** By documented name, by safe name, or with the prefix of one of the documented contracts. */
export const findByName = <Tool>(byName: ReadonlyMap<string, Tool>, name: string): Tool | undefined =>
  byName.get(name) ?? (name.startsWith(ALTERNATE_PREFIX) ? byName.get(name.slice(ALTERNATE_PREFIX.length)) : undefined)
