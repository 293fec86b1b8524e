import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import packageFile from '../../package.json' with { type: 'json' }
import { configJsonSchema } from '../../src/app/config-schema.ts'
import { errorCodes } from '../../src/contract/error-codes.ts'
import { loadAllTools } from '../../src/tools/index.ts'
import { createCatalog } from '../../src/tools/runtime/catalog.ts'
import { preparedText } from '../../src/tools/runtime/prepared-text.ts'
import { configPage } from './config-page.ts'
import { decisionTables } from './decision-tables.ts'
import { errorsPage } from './errors-page.ts'
import { openApiSurface } from './openapi-surface.ts'
import { permissionsPage } from './permissions-page.ts'
import { compiledStatements, schemaSql, sortedJson } from './surface.ts'
import { toolVectors } from './tool-vectors.ts'
import { toolsPage } from './tools-page.ts'

/** Everything in these folders is generated; a file that nothing generates is stale too. */
const generatedFolders: readonly string[] = ['docs/reference', 'surface']

/** Path → text of every generated file, made from the program itself; nothing in it depends on time or machine. */
export async function generatedFiles(): Promise<ReadonlyMap<string, string>> {
  const catalog = createCatalog(await loadAllTools())
  return new Map([
    ['docs/reference/tools.md', await toolsPage(catalog)],
    ['docs/reference/errors.md', errorsPage()],
    ['docs/reference/permissions.md', permissionsPage(catalog)],
    ['docs/reference/config.md', configPage()],
    ['docs/reference/config.schema.json', sortedJson(configJsonSchema())],
    ['surface/openapi.json', sortedJson(openApiSurface(catalog, packageFile.version))],
    ['surface/errors.json', sortedJson(errorCodes)],
    ['surface/schema.sql', schemaSql()],
    ['src/stores/sql/compiled-statements.json', await compiledStatements()],
    ['src/tools/runtime/prepared-tools.json', preparedText(catalog)],
    ['src/tools/runtime/search/tool-vectors.json', await toolVectors(catalog)],
    ...(await decisionTables(catalog)),
    ...catalog.tools.map((tool): [string, string] => [`surface/tools/${tool.name}.json`, sortedJson(tool.listed)]),
  ])
}

export type StaleFile = Readonly<{ path: string; problem: 'missing' | 'differs' | 'not generated' }>

export async function findStale(root: string, files: ReadonlyMap<string, string>): Promise<StaleFile[]> {
  const stale: StaleFile[] = []
  for (const [path, text] of files) {
    const present = await readFile(join(root, path), 'utf8').catch(() => undefined)
    if (present !== text) stale.push({ path, problem: present === undefined ? 'missing' : 'differs' })
  }
  for (const folder of generatedFolders) {
    for (const path of await listFiles(root, folder)) {
      if (!files.has(path)) stale.push({ path, problem: 'not generated' })
    }
  }
  return stale
}

async function listFiles(root: string, folder: string): Promise<string[]> {
  const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true }).catch(() => [])
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(join(root, '/').length).replaceAll('\\', '/'))
    .sort()
}

/** Makes the folders agree with the program, and says what was changed. */
export async function writeGenerated(root: string, files: ReadonlyMap<string, string>): Promise<StaleFile[]> {
  const stale = await findStale(root, files)
  for (const { path } of stale) {
    const text = files.get(path)
    if (text === undefined) {
      await rm(join(root, path))
      continue
    }
    await mkdir(dirname(join(root, path)), { recursive: true })
    await writeFile(join(root, path), text)
  }
  return stale
}
