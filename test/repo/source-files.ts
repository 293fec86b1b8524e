import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Comment, parseSync } from 'oxc-parser'

/** The repository's own source, parsed. Paths are relative to the root and use forward slashes. */
export const repositoryRoot = fileURLToPath(new URL('../..', import.meta.url))

export type AstNode = Readonly<{ type: string; start: number; end: number; [key: string]: unknown }>
export type SourceFile = Readonly<{
  path: string
  text: string
  program: AstNode
  comments: readonly Comment[]
  lineOf(offset: number): number
}>

const sourceFolders = ['src', 'test', 'bench', 'scripts'] as const

export const isTestFile = (path: string): boolean => path.startsWith('test/') || path.endsWith('.test.ts')

/** A text that does not parse is a fault of its own: rules would otherwise pass on what they cannot read. */
export function parseSource(path: string, text: string): SourceFile {
  const result = parseSync(path, text)
  const fault = result.errors[0]
  if (fault !== undefined) throw new Error(`${path} does not parse: ${fault.message}`)
  const lineStarts = [0]
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lineStarts.push(at + 1)
  return {
    path,
    text,
    program: result.program as unknown as AstNode,
    comments: result.comments,
    lineOf: (offset) => lineStarts.findLastIndex((start) => start <= offset) + 1,
  }
}

export function listPaths(folder: string, accepts: (path: string) => boolean = () => true): string[] {
  return readdirSync(join(repositoryRoot, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) =>
      join(entry.parentPath, entry.name).slice(repositoryRoot.length).replaceAll('\\', '/').replace(/^\//, ''),
    )
    .filter((path) => !path.includes('node_modules/') && accepts(path))
    .sort()
}

export const readText = (path: string): string => readFileSync(join(repositoryRoot, path), 'utf8')

export const readSources = (folders: readonly string[] = sourceFolders): SourceFile[] =>
  folders
    .flatMap((folder) => listPaths(folder, (path) => path.endsWith('.ts')))
    .map((path) => parseSource(path, readText(path)))

/** Calls `visitor` for every node, parents first; `parents` is the way down to it. */
export function visitNodes(source: SourceFile, visitor: (node: AstNode, parents: readonly AstNode[]) => void): void {
  const parents: AstNode[] = []
  const walk = (node: AstNode): void => {
    visitor(node, parents)
    parents.push(node)
    for (const value of Object.values(node)) {
      for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) walk(child)
    }
    parents.pop()
  }
  walk(source.program)
}

const isNode = (value: unknown): value is AstNode =>
  typeof value === 'object' && value !== null && typeof (value as { type?: unknown }).type === 'string'

/** `names` are the imported bindings; none for a re-export of all, a bare import, or an import expression. */
export type ImportedModule = Readonly<{ specifier: string; line: number; names: readonly string[] }>

/** Every module that a file names: imports, re-exports, `import()`, `typeof import()`; types count like values. */
export function importsOf(source: SourceFile): ImportedModule[] {
  const found: ImportedModule[] = []
  visitNodes(source, (node) => {
    if (!importingNodes.has(node.type)) return
    const module = node['source'] ?? node['argument'] ?? node['moduleReference']
    if (!isNode(module)) return
    const literal = module.type === 'TSExternalModuleReference' ? (module['expression'] as AstNode) : module
    const value = literal.type === 'TSLiteralType' ? (literal['literal'] as AstNode)['value'] : literal['value']
    found.push({
      specifier: typeof value === 'string' ? value : '(computed)',
      line: source.lineOf(node.start),
      names: ((node['specifiers'] ?? []) as AstNode[]).map((item) => nameOf(item['imported'] ?? item['local'])),
    })
  })
  return found
}

const importingNodes = new Set([
  'ImportDeclaration',
  'ExportNamedDeclaration',
  'ExportAllDeclaration',
  'ImportExpression',
  'TSImportType',
  'TSImportEqualsDeclaration',
])

const nameOf = (node: unknown): string => {
  const { name, value } = node as { name?: string; value?: string }
  return name ?? value ?? ''
}

/** `a.b.c` for a chain of plain names, otherwise undefined. */
export function dottedName(node: unknown): string | undefined {
  if (!isNode(node)) return undefined
  if (node.type === 'Identifier') return node['name'] as string
  if (node.type !== 'MemberExpression' || node['computed'] === true) return undefined
  const object = dottedName(node['object'])
  return object === undefined ? undefined : `${object}.${(node['property'] as AstNode)['name'] as string}`
}
