import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { type Git, gitFailed } from './git-command.ts'
import { readStatus } from './inspect.ts'
import { headCommit } from './merge-target.ts'
import type { GitRunner } from './ports.ts'

type SourceState = Readonly<{ head: string; warning: string | undefined }>

/** The current commit of the source. Uncommitted changes are not merged, and a warning says so. */
export async function readSource(source: Git): Promise<SourceState> {
  const head = await headCommit(source)
  if (head === undefined) throw new AppError('ERR_GIT_FAILED', 'The repository of the source has no commits.')
  const { found } = await readStatus(source, 'normal')
  const changed = [...new Set([...found.conflicted, ...found.staged, ...found.modified])]
  const parts = [
    ...(changed.length > 0 ? [named(changed, 'changed')] : []),
    ...(found.untracked.length > 0 ? [named(found.untracked, 'untracked')] : []),
  ]
  if (parts.length === 0) return { head, warning: undefined }
  return { head, warning: `Not merged: ${parts.join(' and ')} in the source; use git_commit there and merge again.` }
}

const NAMES_MAX = 10

/** The source chooses its paths; quoted as JSON they cannot look like our text. */
function named(paths: readonly string[], how: 'changed' | 'untracked'): string {
  const displayed = paths.slice(0, NAMES_MAX).map((path) => JSON.stringify(path.slice(0, 200).toWellFormed()))
  const more = paths.length > NAMES_MAX ? ` and ${paths.length - NAMES_MAX} more` : ''
  return `${paths.length} ${how} ${paths.length === 1 ? 'file' : 'files'} (${displayed.join(', ')}${more})`
}

/**
 * Transfers a commit with everything that it needs from the source's repository to the target's. The two share no
 * files: the source packs what the target lacks into a file beside its objects, which is streamed into the target and
 * removed. The target only gets objects that nothing refers to yet.
 */
export async function bringCommit(
  runner: GitRunner,
  source: Git,
  target: Git,
  head: string,
  token: string,
): Promise<void> {
  const known = await commitsOf(target)
  const shared = await presentIn(source, known)
  const directory = await source.plumbing.text(['rev-parse', '--path-format=absolute', '--git-dir'])
  const base = `${directory}/castellan-${token}`
  const revisions = `${head}\n${shared.map((id) => `^${id}\n`).join('')}`
  const args = ['pack-objects', '--revs', '--non-empty', '--delta-base-offset', '--quiet', base]
  const name = await source.plumbing.text(args, { stdin: revisions, timeoutMs: limits.gitLongTimeoutMs })
  if (name === '') return
  const pack = `${base}-${name}`
  try {
    const stdin = await runner.readFile(source.workspace, `${pack}.pack`)
    const timeoutMs = limits.gitLongTimeoutMs
    const output = await target.plumbing.run(['index-pack', '--stdin'], { stdin, timeoutMs })
    if (output.exitCode !== 0) throw gitFailed('index-pack', output)
  } finally {
    const files = ['pack', 'idx', 'rev'].map((extension) => `${pack}.${extension}`)
    await source.program(['rm', '-f', '--', ...files], { uninterrupted: true })
  }
}

/** The tips of the target, newest first: what they reach need not be sent. */
async function commitsOf(target: Git): Promise<readonly string[]> {
  const head = await headCommit(target)
  const args = [
    'for-each-ref',
    '--format=%(objectname)',
    '--sort=-creatordate',
    `--count=${limits.gitMergeTipsMax}`,
    'refs/heads',
    'refs/remotes',
    'refs/tags',
  ]
  const tips = (await target.plumbing.text(args)).split('\n')
  return [...new Set([...(head === undefined ? [] : [head]), ...tips])].filter((id) => id !== '')
}

async function presentIn(source: Git, ids: readonly string[]): Promise<readonly string[]> {
  const stdin = ids.map((id) => `${id}\n`).join('')
  const text = await source.plumbing.text(['cat-file', '--batch-check'], { stdin })
  return text
    .split('\n')
    .filter((line) => / (?:commit|tag) \d+$/.test(line))
    .map((line) => line.split(' ')[0]!)
}
