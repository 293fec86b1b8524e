import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { table } from './markdown.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Stores that several domains use through what they share. */
const sharedStores = [
  { importedAs: `from '../profiles/service.ts'`, path: 'sql/profile-store.ts' },
  { importedAs: `from '../../engine/`, path: 'sql/run-store.ts' },
] as const

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
  const storesOf = (domain: string): string[] => {
    const texts = files(`src/domains/${domain}`).map((name) => read(`src/domains/${domain}/${name}`))
    const shared = sharedStores.filter(({ importedAs }) => texts.some((text) => text.includes(importedAs)))
    const own = stores.filter(({ text }) => text.includes(`domains/${domain}/ports.ts'`))
    return [...own, ...shared].map(({ path }) => path)
  }
  const definitions = new Map(
    folders.map((folder) => [folder, files(`src/tools/${folder}`).map((name) => read(`src/tools/${folder}/${name}`))]),
  )
  const names = new Map([...definitions].map(([folder, texts]) => [folder, texts.flatMap(toolNames)]))
  const rows = [...definitions].map(([folder, texts]) => {
    const used = texts.flatMap(usedServices)
    const paths = [...new Set(used.flatMap((name) => services.get(name) ?? []))].toSorted()
    const domains = [...new Set(paths.map((path) => path.split('/')[0]!))]
    return [`\`${folder}\``, listed(otherBeginnings(folder, names)), listed(paths), listed(domains.flatMap(storesOf))]
  })
  return table(['tools', 'names without the noun', 'services, in `src/domains`', 'stores, in `src/stores`'], rows)
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

const toolNames = (text: string): string[] => [...text.matchAll(/^ {2}name: '([^']+)'/gm)].map(([, name]) => name!)

/** The shortest beginnings that no other folder has, of the names that do not contain the noun of the folder. */
function otherBeginnings(folder: string, names: ReadonlyMap<string, readonly string[]>): string[] {
  const noun = folder.replaceAll('-', '_').replace(/ies$/, 'y').replace(/s$/, '')
  const elsewhere = [...names].flatMap(([other, list]) => (other === folder ? [] : list))
  const beginnings = (names.get(folder) ?? [])
    .filter((name) => !name.includes(noun))
    .map((name) => {
      const parts = name.match(/[^._]+[._]*/g) ?? []
      const own = parts
        .map((_, index) => parts.slice(0, index + 1).join(''))
        .find((beginning) => !elsewhere.some((other) => other.startsWith(beginning)))
      return own === undefined || own === name ? name : `${own}*`
    })
  return [...new Set(beginnings)].toSorted()
}

/** The services that the definition takes out of its context. */
function usedServices(text: string): string[] {
  const taken = [...text.matchAll(/^ {2}run: \([^=]*\{ ([^}]+) \}\) =>/gm)].map(([, names]) => names!)
  return taken.flatMap((names) => names.split(', '))
}
