/**
 * The simplest thing that behaves like a tree of files: what a path means and what a change does, without a disk. Answers
 * are values or error codes, to compare the real one with.
 */
type Directory = { kind: 'dir'; entries: Map<string, Node> }
type Node = Directory | { kind: 'file'; text: string } | { kind: 'symlink'; target: string }

class Refused extends Error {}
const refuse = (code: string): never => {
  throw new Refused(code)
}

type Found = Readonly<{
  /** From the root to the directory that holds the entry, or to the directory that is meant itself. */
  chain: readonly Directory[]
  name: string | undefined
  node: Node | undefined
  wantsDirectory: boolean
}>

const meansDirectory = (path: string): boolean => /(^|\/)\.{0,2}$/.test(path)
const namesOf = (path: string): string[] => path.split('/').filter((name) => name !== '' && name !== '.')

export function createFileModel() {
  const root: Directory = { kind: 'dir', entries: new Map() }

  function find(
    path: string,
    follow: boolean,
    makesParents = false,
    start: readonly Directory[] = [root],
    links = 0,
  ): Found {
    const chain = path.startsWith('/') ? [root] : [...start]
    const names = namesOf(path)
    for (const [index, name] of names.entries()) {
      const rest = names.slice(index + 1)
      if (name === '..') {
        if (chain.length > 1) chain.pop()
        continue
      }
      const here = chain.at(-1)!
      let node = here.entries.get(name)
      const wantsDirectory = meansDirectory(path)
      if (rest.length === 0 && (node === undefined || (node.kind === 'symlink' && !follow))) {
        if (node !== undefined && wantsDirectory) refuse('ERR_NOT_A_DIRECTORY')
        return { chain, name, node, wantsDirectory }
      }
      if (node === undefined) {
        if (!makesParents) refuse('ERR_FILE_NOT_FOUND')
        node = { kind: 'dir', entries: new Map() }
        here.entries.set(name, node)
      }
      if (node.kind === 'symlink') {
        if (links >= 40) refuse('ERR_FILE_REFUSED')
        const slash = rest.length === 0 && wantsDirectory && !meansDirectory(node.target) ? '/' : ''
        const onward =
          [node.target, ...rest].join('/') + (rest.length > 0 && wantsDirectory && rest.at(-1) !== '..' ? '/' : slash)
        return find(onward, follow, makesParents, chain, links + 1)
      }
      if (node.kind === 'file' && (rest.length > 0 || wantsDirectory)) refuse('ERR_NOT_A_DIRECTORY')
      if (rest.length === 0) return { chain, name, node, wantsDirectory }
      chain.push(node as Directory)
    }
    return { chain, name: undefined, node: chain.at(-1)!, wantsDirectory: true }
  }

  const existing = (found: Found): Node => found.node ?? refuse('ERR_FILE_NOT_FOUND')
  const holder = ({ chain }: Found): Map<string, Node> => chain.at(-1)!.entries

  const actions = {
    stat(path: string): string {
      if (meansDirectory(path)) return existing(find(path, true)).kind
      const retained = existing(find(path, false))
      if (retained.kind !== 'symlink') return retained.kind
      try {
        return existing(find(path, true)).kind
      } catch (error) {
        if (error instanceof Refused && error.message === 'ERR_FILE_NOT_FOUND') return 'symlink'
        throw error
      }
    },
    list(path: string): string {
      const node = existing(find(path, true))
      if (node.kind !== 'dir') return refuse('ERR_NOT_A_DIRECTORY')
      const sorted = [...node.entries].toSorted(([one], [other]) => (one < other ? -1 : 1))
      return sorted.map(([name, { kind }]) => `${name}:${kind}`).join()
    },
    read(path: string): string {
      const node = existing(find(path, true))
      return node.kind === 'file' ? node.text : refuse('ERR_NOT_A_FILE')
    },
    write(path: string, text: string): string {
      const found = find(path, true, true)
      if (found.name === undefined || found.wantsDirectory || found.node?.kind === 'dir')
        return refuse('ERR_NOT_A_FILE')
      holder(found).set(found.name, { kind: 'file', text })
      return String(text.length)
    },
    makeDirectory(path: string): string {
      const found = find(path, true, true)
      if (found.node?.kind === 'file') return refuse('ERR_ALREADY_EXISTS')
      if (found.node === undefined) holder(found).set(found.name!, { kind: 'dir', entries: new Map() })
      return 'done'
    },
    remove(path: string, recursive: boolean): string {
      const found = find(path, false)
      if (found.name === undefined) return refuse('ERR_INVALID_INPUT')
      const node = existing(found)
      if (node.kind === 'dir' && node.entries.size > 0 && !recursive) return refuse('ERR_ALREADY_EXISTS')
      holder(found).delete(found.name)
      return 'done'
    },
    rename(from: string, to: string): string {
      const source = find(from, false)
      if (source.name === undefined) return refuse('ERR_INVALID_INPUT')
      const moved = existing(source)
      const target = find(to, false)
      if (target.name === undefined) return refuse('ERR_INVALID_INPUT')
      if (target.wantsDirectory && moved.kind !== 'dir') return refuse('ERR_NOT_A_DIRECTORY')
      const replaced = target.node
      if (replaced === moved) return 'done'
      if (target.chain.includes(moved as Directory)) return refuse('ERR_INVALID_INPUT')
      if (source.chain.includes(replaced as Directory)) return refuse('ERR_ALREADY_EXISTS')
      if (replaced !== undefined && (replaced.kind === 'dir') !== (moved.kind === 'dir')) {
        return refuse(moved.kind === 'dir' ? 'ERR_NOT_A_DIRECTORY' : 'ERR_NOT_A_FILE')
      }
      if (replaced?.kind === 'dir' && replaced.entries.size > 0) return refuse('ERR_ALREADY_EXISTS')
      holder(source).delete(source.name)
      holder(target).set(target.name, moved)
      return 'done'
    },
    /** What a process inside would do: refused where the name is taken or its directory is missing. */
    link(path: string, target: string): string {
      const found = find(path, false)
      if (found.name === undefined || found.node !== undefined || found.wantsDirectory) return refuse('not made')
      holder(found).set(found.name, { kind: 'symlink', target })
      return 'done'
    },
  }

  return {
    /** The answer, or the code of the refusal. */
    answer(work: (model: typeof actions) => string): string {
      try {
        return work(actions)
      } catch (error) {
        if (error instanceof Refused) return error.message
        throw error
      }
    },
    tree: (): unknown => plain(root),
  }
}

export type FileModel = ReturnType<typeof createFileModel>

function plain(node: Node): unknown {
  if (node.kind === 'file') return node.text
  if (node.kind === 'symlink') return { to: node.target }
  return new Map(
    [...node.entries].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([name, entry]) => [name, plain(entry)]),
  )
}
