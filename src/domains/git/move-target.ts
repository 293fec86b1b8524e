import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { type Git, type GitOutput, gitFailed } from './git-command.ts'
import { headCommit } from './merge-target.ts'

export type Move = Readonly<{
  from: string
  to: string
  /** A branch that is created or moved together with HEAD. */
  branch?: Readonly<{ ref: string; to: string; from: string | undefined }> | undefined
}>

type MoveOutcome = Readonly<{ moved: true } | { moved: false; error: string; files: readonly string[] }>

/** Steps that a cancelled call does not interrupt, and that run no hooks. */
const wholly = { uninterrupted: true, timeoutMs: limits.gitLongTimeoutMs, config: ['core.hooksPath=/dev/null'] }

/**
 * Moves HEAD, index and working tree to a descendant commit. If anything fails, all three are as before. Untracked
 * files, ignored ones included, are never overwritten. `git` works at the top of the working tree.
 */
export async function moveTarget(git: Git, move: Move): Promise<MoveOutcome> {
  if ((await headCommit(git)) !== move.from) {
    return { moved: false, error: 'The target received new commits during the merge; call again.', files: [] }
  }
  if (move.branch !== undefined) {
    const set = await setRef(git, move.branch.ref, move.branch.to, move.branch.from)
    if (set.exitCode !== 0) return { moved: false, error: 'The branch of the source could not be created.', files: [] }
  }
  const outcome = await fastForward(git, move)
  if (!outcome.moved && move.branch !== undefined) await unsetRef(git, move.branch)
  return outcome
}

const inTheWay = 'Files that the target does not track, or changed meanwhile, would be overwritten.'
const notWritten = 'The files of the target could not be updated to the merged commit; the target is unchanged.'

async function fastForward(git: Git, move: Move): Promise<MoveOutcome> {
  const added = await addedFiles(git, move)
  const untracked = await untrackedAmong(git, added)
  if (untracked.length > 0) return { moved: false, error: inTheWay, files: bounded(untracked) }
  const flags = ['--ff-only', '--no-overwrite-ignore', '--no-autostash', '--no-stat', '--quiet']
  const output = await git.run(['merge', ...flags, move.to], wholly).catch((error: unknown) => {
    if (error instanceof AppError) return error
    throw error
  })
  if (output instanceof AppError) {
    await removeIndexLock(git)
    await restore(git, move, added)
    return { moved: false, error: notWritten, files: [] }
  }
  if (output.exitCode === 0) return { moved: true }
  const refused = [...output.stderr.matchAll(/^\t(.+)$/gm)].map(([, file]) => file!)
  // A merge that names files in its way has checked them before it touched anything.
  if (refused.length > 0) return { moved: false, error: inTheWay, files: bounded(refused) }
  await restore(git, move, added)
  return { moved: false, error: notWritten, files: [] }
}

const bounded = (files: readonly string[]): readonly string[] => files.slice(0, limits.gitConflictFilesMax)

/** The entries that the new commit has and the old one lacks, as lines for `git update-index --index-info`. */
type AddedFile = Readonly<{ indexLine: string; path: Buffer }>

async function addedFiles(git: Git, { from, to }: Move): Promise<readonly AddedFile[]> {
  const args = ['diff-tree', '-r', '-z', '--no-renames', '--diff-filter=A', '--end-of-options', from, to]
  const output = await git.run(args, { ...wholly, outputBytesMax: limits.gitFileListBytesMax })
  if (output.exitCode !== 0) throw gitFailed('diff-tree', output)
  if (output.truncated) throw new AppError('ERR_TOO_LARGE', 'The source adds more files than one merge can take.')
  const fields = output.stdout.toString('latin1').split('\0')
  const files: AddedFile[] = []
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [, mode = '', , id = ''] = fields[at]!.split(' ')
    const path = fields[at + 1]!
    files.push({ indexLine: `${mode} ${id} 0\t${path}`, path: Buffer.from(path, 'latin1') })
  }
  return files
}

/** Passed in parts that fit into the arguments of a command. */
async function untrackedAmong(git: Git, files: readonly AddedFile[]): Promise<readonly string[]> {
  const found: string[] = []
  for (let at = 0; at < files.length; at += PATHS_PER_COMMAND) {
    const paths = files.slice(at, at + PATHS_PER_COMMAND).map(({ path }) => path.toString('utf8'))
    const args = ['--literal-pathspecs', 'ls-files', '-z', '--others', '--', ...paths]
    const output = await git.run(args, wholly)
    if (output.exitCode !== 0) throw gitFailed('ls-files', output)
    found.push(
      ...output.stdout
        .toString('utf8')
        .split('\0')
        .filter((name) => name !== ''),
    )
  }
  return found
}
const PATHS_PER_COMMAND = 200

/**
 * Undoes a merge that failed half-way. The files that only the new commit has are added to the index, so that git
 * removes them with their empty folders; none of them existed before. Git itself knows of all other changes.
 */
async function restore(git: Git, { from }: Move, added: readonly AddedFile[]): Promise<void> {
  const stdin = Buffer.from(added.map(({ indexLine }) => `${indexLine}\0`).join(''), 'latin1')
  const steps = [
    () => git.run(['update-index', '-z', '--add', '--replace', '--index-info'], { ...wholly, stdin }),
    () => git.run(['reset', '--hard', '--quiet', from], wholly),
  ]
  for (const step of steps) {
    const output = await step()
    if (output.exitCode === 0) continue
    const { details } = gitFailed('reset', output)
    throw new AppError('ERR_GIT_FAILED', `target_workspace: could not be reset to commit ${from}.`, details)
  }
}

/** A killed git leaves its lock, which nobody else can have held. */
async function removeIndexLock(git: Git): Promise<void> {
  const lock = await git.text(['rev-parse', '--path-format=absolute', '--git-path', 'index.lock'], wholly)
  await git.program(['rm', '-f', '--', lock], wholly)
}

/** `from` undefined: the ref must not exist yet. */
const setRef = (git: Git, ref: string, to: string, from: string | undefined): Promise<GitOutput> =>
  git.run(['update-ref', '-m', 'workspace_merge', ref, to, from ?? '0'.repeat(to.length)], wholly)

async function unsetRef(git: Git, branch: NonNullable<Move['branch']>): Promise<void> {
  if (branch.from !== undefined) await setRef(git, branch.ref, branch.from, branch.to)
  else await git.run(['update-ref', '-d', branch.ref, branch.to], wholly)
}
