import { AppError } from '../../contract/app-error.ts'

/**
 * An in-memory model of a root file system under construction, to resolve every name before anything is written. Symbolic links
 * are followed relative to the workspace's root; one that leads out of it is refused. Names are bytes, as in `TarEntry`.
 */
export type RootfsTree = Readonly<{
  /** Resolves an entry and adds it to the tree. `layer` is the number of its archive. */
  add(name: string, kind: NodeKind, target: string, layer: number): TreeChange
  /** The target of a hard link, which must exist already: its real path, and the kind and link target that the new name gets. */
  linkTarget(name: string): Readonly<{ path: string; kind: NodeKind; target: string }>
  /** Removes an entry, or all entries of a directory. Returns the real paths of what was removed. */
  remove(name: string): readonly string[]
  empty(name: string): readonly string[]
}>

export type NodeKind = 'file' | 'directory' | 'symlink' | 'fifo'
type TreeChange = Readonly<{
  /** Relative to the root with links resolved; empty for the root itself. */
  path: string
  /** Parent directories that no entry describes and that must be created, outermost first. */
  parents: readonly string[]
  /** An entry of an earlier layer that this entry replaces. */
  obstacle: string | undefined
}>

type Node = { kind: NodeKind; target: string; layer: number; children: Map<string, Node> }

/** Shared by all nodes that are not directories. */
const NO_CHILDREN: Map<string, Node> = new Map()

const PATH_BYTES_MAX = 4_096
const NAME_BYTES_MAX = 255
const LINKS_MAX = 40

export function createRootfsTree(entriesMax: number): RootfsTree {
  const root: Node = { kind: 'directory', target: '', layer: 0, children: new Map() }
  let entryCount = 0

  const makeNode = (kind: NodeKind, target: string, layer: number): Node => {
    entryCount += 1
    if (entryCount > entriesMax) throw refused(`has more than ${entriesMax} files`, 'ERR_TOO_LARGE')
    return { kind, target, layer, children: kind === 'directory' ? new Map() : NO_CHILDREN }
  }

  /** Follows `parts` to a directory. `onMissing` creates a missing one or ends the walk. */
  function walk(parts: readonly string[], onMissing: (parent: Node, name: string, path: string) => Node | undefined) {
    const rest = [...parts]
    let stack: { node: Node; path: string }[] = [{ node: root, path: '' }]
    let links = 0
    while (rest.length > 0) {
      const name = rest.shift()!
      if (name === '..') {
        if (stack.length === 1) throw refused('has a link that leads out of the image')
        stack.pop()
        continue
      }
      const { node, path } = stack.at(-1)!
      const next = joined(path, name)
      const child = node.children.get(name) ?? onMissing(node, name, next)
      if (child === undefined) return undefined
      if (child.kind === 'symlink') {
        links += 1
        if (links > LINKS_MAX) throw refused('has a loop of symbolic links')
        if (child.target.startsWith('/')) stack = [stack[0]!]
        rest.unshift(...child.target.split('/').filter((part) => part !== '' && part !== '.'))
        continue
      }
      if (child.kind !== 'directory') throw refused('has a file below something that is not a directory')
      stack.push({ node: child, path: next })
    }
    return stack.at(-1)!
  }

  const find = (parts: readonly string[]) => walk(parts, () => undefined)

  return {
    add(name, kind, target, layer) {
      const parts = splitName(name)
      const last = parts.pop()
      if (last === undefined) {
        if (kind !== 'directory') throw refused('has a root that is not a directory')
        return { path: '', parents: [], obstacle: undefined }
      }
      const parents: string[] = []
      const parent = walk(parts, (node, missing, path) => {
        parents.push(path)
        const made = makeNode('directory', '', layer)
        node.children.set(missing, made)
        return made
      })!
      const path = joined(parent.path, last)
      if (path.length > PATH_BYTES_MAX) throw refused(`has a path of more than ${PATH_BYTES_MAX} bytes`)
      const existing = parent.node.children.get(last)
      if (existing?.kind === 'directory' && kind === 'directory') {
        existing.layer = layer
        return { path, parents, obstacle: undefined }
      }
      const involvesDirectory = existing !== undefined && (existing.kind === 'directory' || kind === 'directory')
      if (involvesDirectory && existing.layer === layer)
        throw refused('has two entries of different types under one name')
      parent.node.children.set(last, makeNode(kind, target, layer))
      return { path, parents, obstacle: involvesDirectory ? path : undefined }
    },
    linkTarget(name) {
      const parts = splitName(name)
      const last = parts.pop()
      const parent = find(parts)
      const node = last === undefined ? undefined : parent?.node.children.get(last)
      if (node === undefined || node.kind === 'directory')
        throw refused('has a hard link to a file that does not exist')
      return { path: joined(parent!.path, last!), kind: node.kind, target: node.target }
    },
    remove(name) {
      const parts = splitName(name)
      const last = parts.pop()
      if (last === undefined) throw refused('removes its own root')
      const parent = find(parts)
      return parent?.node.children.delete(last) === true ? [joined(parent.path, last)] : []
    },
    empty(name) {
      const found = find(splitName(name))
      if (found === undefined) return []
      const removed = [...found.node.children.keys()].map((child) => joined(found.path, child))
      found.node.children.clear()
      return removed
    },
  }
}

const joined = (path: string, name: string): string => (path === '' ? name : `${path}/${name}`)

/** A name in an archive must be relative and must not contain `..`. */
function splitName(name: string): string[] {
  if (name.startsWith('/')) throw refused('has an absolute name')
  if (name.length > PATH_BYTES_MAX) throw refused(`has a path of more than ${PATH_BYTES_MAX} bytes`)
  const parts = name.split('/').filter((part) => part !== '' && part !== '.')
  if (parts.includes('..')) throw refused("has a name with '..'")
  if (parts.some((part) => part.length > NAME_BYTES_MAX || part.includes('\0'))) {
    throw refused(`has a name of more than ${NAME_BYTES_MAX} bytes`)
  }
  return parts
}

const refused = (what: string, code: 'ERR_INVALID_INPUT' | 'ERR_TOO_LARGE' = 'ERR_INVALID_INPUT'): AppError =>
  new AppError(code, `The image ${what}, so it was not built. Build the source again, or use another one.`, {
    field: 'source',
  })
