import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { table } from './markdown.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/**
 * Where a tool, the service behind it and the store of that service are: one row for each folder of tools. Read from the
 * definitions, from `Services` and from what the stores import, so that it cannot be wrong for long.
 */
export function whereTable(): string {
  const read = (path: string): string => readFileSync(join(root, path), 'utf8')
  const files = (folder: string): string[] =>
    readdirSync(join(root, folder)).filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
  const folders = readdirSync(join(root, 'src/tools'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== 'runtime')
    .map(({ name }) => name)
  const services = servicePaths(read('src/tools/runtime/services.ts'))
  const stores = ['sql', 'files'].flatMap((kind) =>
    files(`src/stores/${kind}`)
      .filter((name) => /-(store|folder|folders|files)\.ts$/.test(name))
      .map((name) => ({ path: `${kind}/${name}`, text: read(`src/stores/${kind}/${name}`) })),
  )
  const storesOf = (domain: string): string[] =>
    stores.filter(({ text }) => text.includes(`domains/${domain}/ports.ts'`)).map(({ path }) => path)
  const rows = folders.map((folder) => {
    const used = files(`src/tools/${folder}`).flatMap((name) => usedServices(read(`src/tools/${folder}/${name}`)))
    const paths = [...new Set(used.flatMap((name) => services.get(name) ?? []))].toSorted()
    const domains = [...new Set(paths.map((path) => path.split('/')[0]!))]
    return [`\`${folder}\``, listed(paths), listed(domains.flatMap(storesOf))]
  })
  return table(['tools', 'services, in `src/domains`', 'stores, in `src/stores`'], rows)
}

const listed = (paths: readonly string[]): string => [...new Set(paths)].map((path) => `\`${path}\``).join(', ') || '–'

/** Name in `Services` → file below `src/domains`. */
function servicePaths(text: string): ReadonlyMap<string, string> {
  const files = new Map<string, string>()
  for (const [, name, path] of text.matchAll(/import type \{ (\w+) \} from '\.\.\/\.\.\/domains\/([^']+)'/g)) {
    files.set(name!, path!)
  }
  const fields = text.matchAll(/^ {2}(\w+): (.+)$/gm)
  return new Map(
    [...fields].flatMap(([, name, type]) => {
      const path = [...type!.matchAll(/\w+/g)].map(([word]) => files.get(word)).find((found) => found !== undefined)
      return path === undefined ? [] : [[name!, path] as const]
    }),
  )
}

/** The services that the definition takes out of its context. */
function usedServices(text: string): string[] {
  const taken = [...text.matchAll(/^ {2}run: \([^=]*\{ ([^}]+) \}\) =>/gm)].map(([, names]) => names!)
  return taken.flatMap((names) => names.split(', '))
}
