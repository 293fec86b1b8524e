import type { Catalog, CatalogTool } from './catalog.ts'
import type { OwnDeclaration } from './define-tool.ts'
import { findByName, indexByName } from './name-index.ts'
import type { PreparedTool } from './prepared-tools.ts'

/** One tool a line, so that a difference shows which tool changed. */
export const preparedText = ({ tools }: Catalog): string =>
  `[\n${tools.map((tool) => JSON.stringify(prepared(tool))).join(',\n')}\n]\n`

const prepared = ({ name, safeName, definition, listed, nullable }: CatalogTool): PreparedTool => ({
  name,
  safeName,
  definition: definition as OwnDeclaration,
  listed,
  nullable: [...nullable],
})

/** The tool of that name. Only its own line is decoded and parsed: parsing everything takes half as long as starting Node. */
export function findPrepared(content: Buffer, name: string): PreparedTool | undefined {
  const found = findByName(indexByName(content.toString('latin1').split('\n').flatMap(namesIn)), name)
  return found && (JSON.parse(Buffer.from(found.line, 'latin1').toString('utf8')) as PreparedTool)
}

const HEAD = /^\{"name":"([^"\\]+)","safeName":"([^"\\]+)",/

function namesIn(line: string): Readonly<{ name: string; safeName: string; line: string }>[] {
  const [, name, safeName] = HEAD.exec(line) ?? []
  if (name === undefined || safeName === undefined) return []
  return [{ name, safeName, line: line.endsWith(',') ? line.slice(0, -1) : line }]
}
