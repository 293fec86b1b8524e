import type { Catalog, CatalogTool } from './catalog.ts'
import type { ToolDefinition } from './define-tool.ts'
import { findByName, indexByName } from './name-index.ts'
import type { ListedTool } from './tool-host.ts'

/**
 * The tools as data, written by `npm run gen`: what a client, the command line or an early list has to know of them without
 * loading the definitions, which bring the domains along.
 */
const preparedFields = [
  'toolset',
  'title',
  'description',
  'effect',
  'permission',
  'alsoNeeds',
  'rate',
  'actions',
  'aliasOf',
  'begins',
  'doors',
] as const satisfies (keyof ToolDefinition)[]

export type PreparedTool = Readonly<{
  name: string
  safeName: string
  definition: Pick<ToolDefinition, (typeof preparedFields)[number]>
  listed: ListedTool
}>

export type PreparedTools = Readonly<{
  tools: readonly PreparedTool[]
  names: readonly string[]
  /** By documented name, by safe name, or with the prefix that one of the documents uses. */
  find(name: string): PreparedTool | undefined
}>

export async function loadPreparedTools(): Promise<PreparedTools> {
  const { default: rows } = await import('./prepared-tools.json', { with: { type: 'json' } })
  const tools = rows as unknown as readonly PreparedTool[]
  const byName = indexByName(tools)
  return { tools, names: tools.map(({ name }) => name), find: (name) => findByName(byName, name) }
}

/** One tool a line, so that a difference shows which tool changed. */
export const preparedText = ({ tools }: Catalog): string =>
  `[\n${tools.map((tool) => JSON.stringify(prepared(tool))).join(',\n')}\n]\n`

const prepared = ({ name, safeName, definition, listed }: CatalogTool): PreparedTool => ({
  name,
  safeName,
  definition: Object.fromEntries(
    preparedFields.flatMap((field) => (definition[field] === undefined ? [] : [[field, definition[field]]])),
  ) as PreparedTool['definition'],
  listed,
})
