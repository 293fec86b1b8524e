import { posix } from 'node:path'
import { privateDomainOf } from './domain-faces.ts'
import { type LayerRow, layerRows } from './layer-rules.ts'
import { dottedName, type ImportedModule, importsOf, type SourceFile, visitNodes } from './source-files.ts'
import { type PackageOwner, packageOwners, storeMayImportFromDomain, type WordRule, wordRules } from './word-rules.ts'

export type Violation = Readonly<{ path: string; rule: string; message: string }>

/** Everything in one file that the layer rules forbid. `main.ts` starts the program and may import all of it. */
export function checkLayers(source: SourceFile): Violation[] {
  const inside = source.path.replace(/^src\//, '')
  const home = inside === 'main.ts' ? undefined : rowOf(inside)
  if (home === undefined && inside !== 'main.ts') {
    return [
      violation(source, 1, 'row', `has no row in test/repo/layer-rules.ts. Add one that says what it may use and why.`),
    ]
  }
  const found: Violation[] = []
  for (const module of importsOf(source)) {
    const fault = module.specifier.startsWith('.')
      ? checkFolder(source, inside, home, module)
      : checkPackage(source, inside, home, module)
    if (fault !== undefined) found.push(fault)
  }
  return [...found, ...wordRules.flatMap((rule) => checkWords(source, inside, rule))]
}

const violation = (source: SourceFile, line: number, rule: string, text: string): Violation => ({
  path: source.path,
  rule,
  message: `${source.path}:${line} ${text}`,
})

function checkFolder(
  source: SourceFile,
  inside: string,
  home: { row: LayerRow; folder: string } | undefined,
  module: ImportedModule,
): Violation | undefined {
  const target = posix.normalize(posix.join(posix.dirname(source.path), module.specifier))
  if (!target.startsWith('src/')) {
    return violation(source, module.line, 'outside', `imports ${target}. The program depends on nothing outside src/.`)
  }
  const there = rowOf(target.slice('src/'.length))
  if (there === undefined) {
    return violation(source, module.line, 'folder', `imports ${target}, which has no row in test/repo/layer-rules.ts.`)
  }
  if (home === undefined || there.folder === home.folder) return undefined
  const allowed = home.row.folders.some((folder) => folder === there.row.folder || covers(folder, there.folder))
  if (!allowed) {
    const may = home.row.folders.join(', ') || 'no other folder'
    return violation(
      source,
      module.line,
      'folder',
      `imports ${target}, but ${home.row.folder} may import ${may}. ${home.row.reason} Take what is needed through deps, or move the code to the layer it belongs to.`,
    )
  }
  if (inside.startsWith('stores/') && target.startsWith('src/domains/') && !storeMayImportFromDomain.test(target)) {
    return violation(
      source,
      module.line,
      'store-port',
      `imports ${target}, but a store takes from a domain only ports.ts and rules.ts. Move the type it implements to ports.ts.`,
    )
  }
  const beyond = inside.startsWith('app/') ? undefined : privateDomainOf(target.slice('src/'.length))
  if (beyond !== undefined) {
    return violation(
      source,
      module.line,
      'face',
      `imports ${target}, which is private to domains/${beyond}. Use what its ports, rules or service offer, or make the file part of its face in test/repo/domain-faces.ts.`,
    )
  }
  return undefined
}

function checkPackage(
  source: SourceFile,
  inside: string,
  home: { row: LayerRow; folder: string } | undefined,
  module: ImportedModule,
): Violation | undefined {
  const name = packageOf(module.specifier)
  const owner = packageOwners.find((candidate) => candidate.package === name)
  if (owner !== undefined && !isIn(inside, owner.folders)) {
    return violation(source, module.line, 'package-owner', `imports ${name}, ${ownedBy(owner)} ${owner.reason}`)
  }
  if (home === undefined || home.row.packages.includes(name)) return undefined
  const may = home.row.packages.join(', ') || 'no package'
  return violation(
    source,
    module.line,
    'package',
    `imports ${module.specifier}, but ${home.row.folder} may import ${may}. ${home.row.reason} If it really needs this one, add it to its row with the reason.`,
  )
}

const ownedBy = (owner: PackageOwner): string =>
  owner.folders.length === 0 ? 'which nothing may use.' : `which only ${owner.folders.join(' and ')} may use.`

function checkWords(source: SourceFile, inside: string, rule: WordRule): Violation[] {
  if (isIn(inside, rule.folders)) return []
  const found: Violation[] = []
  const add = (offset: number, word: string): void => {
    const only = rule.folders.length === 0 ? 'nothing may use' : `only ${rule.folders.join(' and ')} may use`
    const text = `uses ${word}, which ${only}. ${rule.reason} ${rule.instead}`
    found.push(violation(source, source.lineOf(offset), rule.id, text))
  }
  visitNodes(source, (node, parents) => {
    const parent = parents.at(-1)
    if (node.type === 'NewExpression') {
      const name = dottedName(node['callee']) ?? ''
      const isBare = (node['arguments'] as unknown[]).length === 0
      if (isBare && rule.newWithoutArgument?.includes(name)) add(node.start, `new ${name}()`)
    }
    const name = dottedName(node)
    if (name === undefined || !rule.uses?.includes(name)) return
    const isPlainName = node.type === 'Identifier'
    if (isPlainName && (isNotAReference(parent, node) || parents.some((outer) => outer.type === 'ImportDeclaration'))) {
      return
    }
    add(node.start, name)
  })
  for (const module of importsOf(source)) {
    if (!rule.imports?.from.includes(packageOf(module.specifier))) continue
    for (const name of module.names) {
      if (rule.imports.names.includes(name)) {
        const text = `imports ${name} from ${module.specifier}. ${rule.reason} ${rule.instead}`
        found.push(violation(source, module.line, rule.id, text))
      }
    }
  }
  return found
}

/** A property's or a key's name is not a use of the global of the same name. */
function isNotAReference(parent: unknown, node: unknown): boolean {
  const { type, property, key, computed, shorthand } = (parent ?? {}) as Record<string, unknown>
  if (type === 'MemberExpression') return property === node && computed !== true
  if (shorthand === true) return false
  return key === node && computed !== true
}

/** The row of a path below `src/`, and the folder itself: `tools/tasks` under the row `tools/*`. */
export function rowOf(path: string): { row: LayerRow; folder: string } | undefined {
  const segments = path.split('/').slice(0, -1)
  for (let length = segments.length; length > 0; length--) {
    const folder = segments.slice(0, length).join('/')
    const row =
      layerRows.find((candidate) => candidate.folder === folder) ??
      layerRows.find((candidate) => covers(candidate.folder, folder))
    if (row !== undefined) return { row, folder }
  }
  return undefined
}

/** Whether `domains/*` covers `domains/tasks`. */
const covers = (pattern: string, folder: string): boolean =>
  pattern.endsWith('/*') && posix.dirname(folder) === pattern.slice(0, -2)

const isIn = (path: string, folders: readonly string[]): boolean =>
  folders.some((folder) => path === folder || path.startsWith(`${folder}/`))

/** `node:fs/promises` → `node:fs`, `hono/body-limit` → `hono`, `@scope/name/sub` → `@scope/name`. */
export const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
