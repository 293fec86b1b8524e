/** The output of `git status --porcelain=v2 --branch -z`. Paths that are not UTF-8 contain replacement characters. */
export type ParsedStatus = Readonly<{
  /** Undefined when HEAD is detached. */
  branch: string | undefined
  /** Undefined before the first commit. */
  head: string | undefined
  upstream: string | undefined
  ahead: number
  behind: number
  staged: readonly string[]
  modified: readonly string[]
  untracked: readonly string[]
  conflicted: readonly string[]
}>

/** Fields before the path, in a record of each kind. */
const FIELDS_BEFORE_PATH = { '1': 8, '2': 9, u: 10 } as const

/** The caller must have left out a truncated record, the last one of a truncated output. */
export function parseStatus(output: Buffer): ParsedStatus {
  const headers = new Map<string, string>()
  const lists = {
    staged: [] as string[],
    modified: [] as string[],
    untracked: [] as string[],
    conflicted: [] as string[],
  }
  const records = output.toString('utf8').split('\0')
  for (let at = 0; at < records.length; at++) {
    const record = records[at]!
    const kind = record[0]
    if (kind === '#') {
      const [, name = '', value = ''] = /^# (\S+) (.*)$/s.exec(record) ?? []
      headers.set(name, value)
    } else if (kind === '?') lists.untracked.push(record.slice(2))
    else if (kind === '1' || kind === '2' || kind === 'u') {
      addChange(lists, kind, record)
      // A rename is followed by the previous path.
      if (kind === '2') at++
    }
  }
  return { ...lists, ...parseHeaders(headers) }
}

function addChange(
  lists: { staged: string[]; modified: string[]; conflicted: string[] },
  kind: '1' | '2' | 'u',
  record: string,
): void {
  const path = afterFields(record, FIELDS_BEFORE_PATH[kind])
  if (kind === 'u') {
    lists.conflicted.push(path)
    return
  }
  if (record[2] !== '.') lists.staged.push(path)
  if (record[3] !== '.') lists.modified.push(path)
}

function afterFields(record: string, count: number): string {
  let at = 0
  for (let field = 0; field < count; field++) at = record.indexOf(' ', at) + 1
  return record.slice(at)
}

function parseHeaders(headers: ReadonlyMap<string, string>) {
  const head = headers.get('branch.oid')
  const branch = headers.get('branch.head')
  const [, ahead = '0', behind = '0'] = /^\+(\d+) -(\d+)$/.exec(headers.get('branch.ab') ?? '') ?? []
  return {
    head: head === '(initial)' ? undefined : head,
    branch: branch === '(detached)' ? undefined : branch,
    upstream: headers.get('branch.upstream'),
    ahead: Number(ahead),
    behind: Number(behind),
  }
}
