import type { OwnDeclaration } from './define-tool.ts'
import { findByName, indexByName } from './name-index.ts'
import rows from './prepared-tools.json' with { type: 'json' }
import type { ListedTool } from './tool-host.ts'

/**
 * The tools as data, written by `npm run gen`: what a client, the command line, a list or a refusal needs without loading the
 * definitions, which import the domains.
 */
export type PreparedTool = Readonly<{
  name: string
  safeName: string
  definition: OwnDeclaration
  listed: ListedTool
  /** Parameters for which null is a value and does not mean "left out". */
  nullable: readonly string[]
}>

export type PreparedTools = Readonly<{
  tools: readonly PreparedTool[]
  names: readonly string[]
  /** By documented name, by safe name, or with the prefix of one of the documented contracts. */
  find(name: string): PreparedTool | undefined
}>

export function preparedTools(): PreparedTools {
  const tools = rows as unknown as readonly PreparedTool[]
  const byName = indexByName(tools)
  return { tools, names: tools.map(({ name }) => name), find: (name) => findByName(byName, name) }
}
