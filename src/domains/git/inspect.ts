import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { DETACHED } from './commit.ts'
import { type Git, type GitOutput, gitFailed } from './git-command.ts'
import { type ParsedStatus, parseStatus } from './parse-status.ts'
import { redact } from './redact.ts'
import { filePath } from './rules.ts'

export type StatusInput = Readonly<{ workspace_id: string; path?: string | undefined }>

export type StatusAnswer = Readonly<{
  branch: string
  commit_sha: string | null
  upstream: string | null
  ahead: number
  behind: number
  staged: readonly string[]
  modified: readonly string[]
  untracked: readonly string[]
  conflicted: readonly string[]
  dirty: boolean
  truncated: boolean
}>

export async function status(git: Git): Promise<StatusAnswer> {
  const { found, truncated } = await readStatus(git, 'normal')
  let left = limits.gitStatusPathsMax
  const bounded = (paths: readonly string[]): readonly string[] => {
    const displayed = paths.slice(0, left)
    left -= displayed.length
    return displayed
  }
  const changes = found.conflicted.length + found.staged.length + found.modified.length + found.untracked.length
  return {
    branch: found.branch ?? DETACHED,
    commit_sha: found.head ?? null,
    upstream: found.upstream ?? null,
    ahead: found.ahead,
    behind: found.behind,
    conflicted: bounded(found.conflicted),
    staged: bounded(found.staged),
    modified: bounded(found.modified),
    untracked: bounded(found.untracked),
    dirty: changes > 0,
    truncated: truncated || changes > limits.gitStatusPathsMax,
  }
}

export type UnsavedInput = StatusInput & Readonly<{ since: string; isMerged: boolean }>

/**
 * Whether anything would be lost with the repository: uncommitted changes, or commits since `since` that are on no
 * remote. With `isMerged`, the commits of the current branch exist elsewhere already.
 */
export async function hasUnsaved(git: Git, { since, isMerged }: UnsavedInput): Promise<boolean> {
  const { found } = await readStatus(git, 'normal')
  if (found.conflicted.length + found.staged.length + found.modified.length + found.untracked.length > 0) return true
  const known = ['--not', '--remotes', since, ...(isMerged ? ['HEAD'] : [])]
  const every = ['HEAD', '--branches', '--glob=refs/stas*']
  const commits = await git.text(['rev-list', '--max-count=1', ...every, ...known], {
    timeoutMs: limits.gitLongTimeoutMs,
  })
  return commits !== ''
}

export async function readStatus(
  git: Git,
  untracked: 'normal' | 'no',
): Promise<Readonly<{ found: ParsedStatus; truncated: boolean }>> {
  const args = ['status', '--porcelain=v2', '--branch', '-z', `--untracked-files=${untracked}`]
  const output = await git.run(args, { timeoutMs: limits.gitLongTimeoutMs })
  if (output.exitCode !== 0) throw gitFailed('status', output)
  const { stdout, truncated } = output
  return { found: parseStatus(truncated ? stdout.subarray(0, stdout.lastIndexOf(0) + 1) : stdout), truncated }
}

export type DiffInput = Readonly<{
  workspace_id: string
  path?: string | undefined
  staged?: boolean | undefined
  stat?: boolean | undefined
  file_path?: string | undefined
  max_bytes?: number | undefined
}>

export type DiffAnswer = Readonly<{ diff: string; truncated: boolean; stat?: string }>

/**
 * The text comes from git itself, without the drivers and converters that a repository names. Its filters are applied:
 * without them a file that they store in another form would seem changed.
 */
export async function diff(call: Call, git: Git, input: DiffInput): Promise<DiffAnswer> {
  const bytesMax = input.max_bytes ?? limits.gitDiffBytesDefault
  const which = [
    ...(input.staged === true ? ['--cached'] : []),
    '--',
    ...(input.file_path === undefined ? [] : [filePath(input.file_path)]),
  ]
  const read = async (format: string): Promise<GitOutput> => {
    const args = ['--literal-pathspecs', 'diff', '--no-ext-diff', '--no-textconv', '--no-color', format, ...which]
    const output = await git.run(args, {
      outputBytesMax: bytesMax + CUT_MARGIN_BYTES,
      timeoutMs: limits.gitLongTimeoutMs,
    })
    if (output.exitCode !== 0) throw gitFailed('diff', output)
    return output
  }
  const patch = cutText(await read('--patch'), bytesMax)
  if (patch.hasSecrets)
    call.warn('diff: text that looks like a secret is replaced by [redacted] here; the files are unchanged.')
  if (input.stat !== true) return { diff: patch.text, truncated: patch.truncated }
  return { diff: patch.text, truncated: patch.truncated, stat: cutText(await read('--stat'), bytesMax).text }
}

/** Longer than any token: what is cut off in the margin cannot be part of a displayed one. */
const CUT_MARGIN_BYTES = 8_192

/**
 * The beginning of an output, in whole characters. Secrets are removed before it is cut, and the last margin is never
 * shown: a secret that the output itself cut in two would not be recognised.
 */
export function cutText(
  output: Pick<GitOutput, 'stdout' | 'truncated'>,
  bytesMax: number,
): Readonly<{ text: string; truncated: boolean; hasSecrets: boolean }> {
  const raw = output.stdout.toString('utf8')
  const text = redact(raw)
  const hasSecrets = text !== raw
  const bytes = Buffer.from(text)
  if (!output.truncated && bytes.length <= bytesMax) return { text, truncated: false, hasSecrets }
  const end = Math.min(bytesMax, output.truncated ? Math.max(bytes.length - CUT_MARGIN_BYTES, 0) : bytes.length)
  return { text: `${wholeCharacters(bytes, end)}\n[TRUNCATED]`, truncated: true, hasSecrets }
}

function wholeCharacters(bytes: Buffer, end: number): string {
  let at = end
  while (at > 0 && at < bytes.length && (bytes[at]! & 0xc0) === 0x80) at--
  return bytes.toString('utf8', 0, at)
}
