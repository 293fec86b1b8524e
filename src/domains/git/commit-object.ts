/**
 * Commits as git stores them. Texts are kept byte for byte, one character for each byte, because a commit may be in any
 * encoding: a replayed commit keeps its author, its encoding and its message exactly.
 */
export type CommitObject = Readonly<{
  tree: string
  parents: readonly string[]
  author: string
  encoding: string | undefined
  message: string
}>

export function parseCommit(bytes: Buffer): CommitObject {
  const text = bytes.toString('latin1')
  const end = text.indexOf('\n\n')
  const lines = (end < 0 ? text : text.slice(0, end)).split('\n')
  const headerOf = (name: string): string | undefined => {
    const line = lines.find((candidate) => candidate.startsWith(`${name} `))
    return line?.slice(name.length + 1)
  }
  return {
    tree: headerOf('tree') ?? '',
    parents: lines.filter((line) => line.startsWith('parent ')).map((line) => line.slice('parent '.length)),
    author: headerOf('author') ?? '',
    encoding: headerOf('encoding'),
    message: end < 0 ? '' : text.slice(end + 2),
  }
}

/** Signatures and other headers are not among the parts: they would not fit the new commit. */
export function formatCommit(commit: CommitObject & Readonly<{ committer: string }>): Buffer {
  const lines = [
    `tree ${commit.tree}`,
    ...commit.parents.map((parent) => `parent ${parent}`),
    `author ${commit.author}`,
    `committer ${commit.committer}`,
    ...(commit.encoding === undefined ? [] : [`encoding ${commit.encoding}`]),
  ]
  return Buffer.from(`${lines.join('\n')}\n\n${commit.message}`, 'latin1')
}

/** A text of ours, as one character for each byte. */
export const toByteText = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')

/** The message with the line that `git cherry-pick -x` adds. */
export function withOrigin(message: string, commitId: string): string {
  const body = message.replace(/\n*$/, '')
  const lastLine = body.slice(body.lastIndexOf('\n') + 1)
  const isTrailer = body.includes('\n') && /^(?:[A-Za-z0-9-]+: |\(cherry picked from commit )/.test(lastLine)
  return `${body}${isTrailer ? '\n' : '\n\n'}(cherry picked from commit ${commitId})\n`
}

/** The output of `git cat-file --batch` for existing objects, by id. */
export function parseBatch(output: Buffer): Map<string, Buffer> {
  const objects = new Map<string, Buffer>()
  for (let at = 0; at < output.length; ) {
    const lineEnd = output.indexOf(0x0a, at)
    const [id = '', , size = ''] = output.toString('latin1', at, lineEnd).split(' ')
    const begin = lineEnd + 1
    const end = begin + Number(size)
    if (lineEnd < 0 || !/^\d+$/.test(size) || end > output.length) break
    objects.set(id, output.subarray(begin, end))
    at = end + 1
  }
  return objects
}
