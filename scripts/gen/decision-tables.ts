import { readFile } from 'node:fs/promises'
import { localOwner } from '../../src/contract/principal.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import type { Catalog } from '../../src/tools/runtime/catalog.ts'
import { createToolHost } from '../../src/tools/runtime/create-tool-host.ts'
import { createToolViews } from '../../src/tools/runtime/tool-views.ts'
import { layerRows } from '../../test/repo/layer-rules.ts'
import { table } from './markdown.ts'
import { whereTable } from './where-table.ts'

/** The parts of ARCHITECTURE.md and of decision records that the program itself can state. The rest is written by hand. */
const DEPENDENCIES = 'docs/decisions/0002-runtime-dependencies.md'
const ARCHITECTURE = 'ARCHITECTURE.md'
const EXPOSURE = 'docs/decisions/0012-few-tools-by-default.md'

export async function decisionTables(catalog: Catalog): Promise<[path: string, text: string][]> {
  const read = (path: string): Promise<string> => readFile(new URL(`../../${path}`, import.meta.url), 'utf8')
  return [
    [DEPENDENCIES, withFolders(await read(DEPENDENCIES))],
    [ARCHITECTURE, withRegion(await read(ARCHITECTURE), 'where', whereTable())],
    [EXPOSURE, withRegion(await read(EXPOSURE), 'tool lists', await toolLists(catalog))],
  ]
}

/** Packages and reasons are written by hand; where each may be imported is what the layer rules say. */
function withFolders(text: string): string {
  return text.replaceAll(/^\| (`.*`) \| (.*) \| (.*) \|$/gm, (_row, packages: string, why: string, where: string) => {
    const names = [...packages.matchAll(/`([^`]+)`/g)].map(([, name]) => name!)
    const folders = layerRows
      .filter((row) => names.some((name) => row.packages.includes(name)))
      .map((row) => row.folder)
    // A package of which nothing is imported has no row; what is said of it stays.
    const cell = folders.length === 0 ? where : listed(folders)
    return `| ${packages} | ${why} | ${cell} |`
  })
}

const listed = (folders: readonly string[]): string =>
  [...new Set(folders.map((folder) => folder.replace(/^(tools)\/.*$/, '$1')))]
    .sort()
    .map((folder) => `\`src/${folder}\``)
    .join(', ')

/** What stands between the two comments of that name. */
function withRegion(text: string, name: string, content: string): string {
  const [begin, end] = [`<!-- npm run gen: ${name} -->`, '<!-- end -->']
  const from = text.indexOf(begin)
  const to = text.indexOf(end, from)
  if (from < 0 || to < 0) throw new Error(`a document lacks ${begin} … ${end}`)
  return `${text.slice(0, from)}${begin}\n${content}\n${text.slice(to)}`
}

const CHARACTERS_PER_TOKEN = 4
/** Two digits: what a list costs matters, not each word of a description. */
const rounded = (count: number): string => {
  const step = 10 ** Math.max(0, String(Math.round(count)).length - 2)
  return (Math.round(count / step) * step).toLocaleString('en-GB')
}

async function toolLists(catalog: Catalog): Promise<string> {
  const views = createToolViews({ catalog, clock: systemClock })
  const host = createToolHost({
    views,
    mode: 'FULL',
    clock: systemClock,
    callTool: Promise.reject(new Error('nothing is called here')),
  })
  const rows: string[][] = []
  for (const exposure of ['default', 'full'] as const) {
    const tools = await host.list({
      principal: localOwner,
      transport: 'stdio',
      exposure,
      safeNames: false,
      distinctNames: true,
    })
    const characters = JSON.stringify(tools).length
    const lean = JSON.stringify(tools.map(({ outputSchema: _, ...tool }) => tool)).length
    const estimates = [characters, characters / CHARACTERS_PER_TOKEN, lean / CHARACTERS_PER_TOKEN].map(rounded)
    rows.push([`\`${exposure}\``, String(tools.length), ...estimates])
  }
  return table(['list', 'tools', 'characters', 'tokens', 'without output schemas'], rows)
}
