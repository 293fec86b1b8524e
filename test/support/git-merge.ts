import { createHash } from 'node:crypto'
import { lstat, readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { MergeStrategy } from '../../src/domains/git/rules.ts'
import type { MergeInput, MergeOptions } from '../../src/domains/git/service.ts'
import { createGitLab, type GitLab, gitCall, startRepository } from './git-service.ts'

/** What the tests of merging share: a target to fork from, and a way to see whether anything of it changed. */
export const lines = (...changes: readonly [number, string][]): string => {
  const all = Array.from({ length: 40 }, (_, index) => `line ${index + 1}`)
  for (const [at, text] of changes) all[at - 1] = text
  return `${all.join('\n')}\n`
}

/** A target with several commits, a longer file and a binary one; forks begin from here. */
export async function prepareForks(...forks: string[]): Promise<GitLab> {
  const lab = await createGitLab()
  await startRepository(lab, 'target')
  await lab.commitFiles('target', 'second', { 'long.txt': lines(), '.gitignore': '*.log\n' })
  await lab.commitFiles('target', 'third', { 'data.bin': Buffer.from([0, 1, 2, 255, 254]), 'other.txt': 'other\n' })
  for (const fork of forks) await lab.fork('target', fork)
  return lab
}

export const mergeInto = (
  lab: GitLab,
  strategy: MergeStrategy,
  sources: string[],
  rest: Partial<MergeInput> = {},
  options: MergeOptions = {},
  call = gitCall(),
) => lab.service.merge(call, { source_workspaces: sources, target_workspace: 'target', strategy, ...rest }, options)

export const targetFile = async (lab: GitLab, file: string): Promise<string> =>
  readFile(join(await lab.folder('target'), file), 'utf8')

/** All that must not change: refs, HEAD, index, and every file beside git's own objects and logs. */
export async function fingerprint(lab: GitLab, workspaceId = 'target'): Promise<Record<string, string>> {
  const top = await lab.folder(workspaceId)
  const found: Record<string, string> = {
    refs: await lab.git(workspaceId, 'for-each-ref'),
    head: await readFile(join(top, '.git/HEAD'), 'utf8'),
    index: createHash('sha256')
      .update(await readFile(join(top, '.git/index')))
      .digest('hex'),
    status: await lab.git(workspaceId, 'status', '--porcelain', '--ignored'),
    gitFolder: (await readdir(join(top, '.git'))).sort().join(' '),
  }
  for (const entry of await readdir(top, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (path.startsWith(join(top, '.git'))) continue
    const state = await lstat(path)
    const content = state.isSymbolicLink() ? await readlink(path) : state.isFile() ? await readFile(path, 'base64') : ''
    found[path.slice(top.length)] = `${state.mode} ${content}`
  }
  return found
}
