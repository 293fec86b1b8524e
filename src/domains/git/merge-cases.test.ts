import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { fingerprint, lines, mergeInto, prepareForks, targetFile } from '../../../test/support/git-merge.ts'
import { createGitLab, failureOf, gitCall, startRepository } from '../../../test/support/git-service.ts'
import { mergeStrategies } from './rules.ts'

describe('the target of workspace_merge', () => {
  it('must have no uncommitted changes, and is not touched', async () => {
    const lab = await prepareForks('fork')
    await lab.commitFiles('fork', 'f', { 'f.txt': 'f\n' })
    await lab.write('target', 'other.txt', 'changed\n')
    const before = await fingerprint(lab)
    const error = await failureOf(mergeInto(lab, 'sequential', ['fork']))
    expect(error).toMatchObject({ code: 'ERR_WORKTREE_DIRTY', details: { files: ['other.txt'] } })
    expect(error.message).toMatch(/uncommitted changes in 1 file; use git_commit/)
    expect(await fingerprint(lab)).toEqual(before)
  })

  it('must have no operation under way', async () => {
    const lab = await prepareForks('fork')
    await lab.commitFiles('target', 'later', { 'later.txt': 'l\n' })
    await lab.git('target', 'revert', '--no-commit', 'HEAD')
    await lab.git('target', 'reset', '--quiet', '--hard')
    await writeFile(
      join(await lab.folder('target'), '.git/CHERRY_PICK_HEAD'),
      await lab.git('target', 'rev-parse', 'HEAD'),
    )
    const error = await failureOf(mergeInto(lab, 'sequential', ['fork']))
    expect(error.message).toMatch(/a cherry-pick is in progress/)
  })

  it('must be a repository with a commit, and may be named by a folder inside it or have a detached HEAD', async () => {
    const lab = await prepareForks('fork')
    await lab.commitFiles('fork', 'f', { 'f.txt': 'f\n' })
    expect(
      await failureOf(
        lab.service.merge(gitCall(), {
          source_workspaces: ['fork'],
          target_workspace: 'empty',
          strategy: 'sequential',
        }),
      ),
    ).toMatchObject({ code: 'ERR_NOT_A_REPOSITORY' })
    await lab.git('unborn', 'init', '--quiet')
    expect(
      await failureOf(
        lab.service.merge(gitCall(), {
          source_workspaces: ['fork'],
          target_workspace: 'unborn',
          strategy: 'sequential',
        }),
      ),
    ).toMatchObject({ code: 'ERR_GIT_FAILED' })
    for (const workspaceId of ['target', 'fork']) await mkdir(join(await lab.folder(workspaceId), 'sub'))
    await lab.git('target', 'checkout', '--quiet', '--detach')
    expect(await mergeInto(lab, 'sequential', ['fork'], { path: '/workspace/sub' })).toMatchObject({
      success: true,
      total_commits_applied: 1,
    })
    expect(await targetFile(lab, 'f.txt')).toBe('f\n')
  })

  it('runs none of its hooks, and gets a default identity when nobody configured one', async () => {
    const lab = await prepareForks('fork')
    const hooks = join(await lab.folder('target'), '.git/hooks')
    await mkdir(hooks, { recursive: true })
    for (const hook of [
      'post-merge',
      'post-checkout',
      'pre-commit',
      'commit-msg',
      'reference-transaction',
      'pre-merge-commit',
      'post-commit',
    ]) {
      await writeFile(join(hooks, hook), '#!/bin/sh\ntouch "$(git rev-parse --git-dir)/ran"\nexit 0\n')
      await chmod(join(hooks, hook), 0o755)
    }
    await lab.commitFiles('fork', 'f', { 'f.txt': 'f\n' })
    await lab.git('target', 'config', '--unset', 'user.name')
    await lab.git('target', 'config', '--unset', 'user.email')
    await rm(join(await lab.folder('target'), '.git/ran'), { force: true })
    expect(await mergeInto(lab, 'branch-per-source', ['fork'])).toMatchObject({ success: true })
    expect(await lab.git('target', 'show', '-s', '--format=%an <%ae> %cn <%ce>')).toBe(
      'Castellan <castellan@localhost> Castellan <castellan@localhost>',
    )
    expect(await readdir(join(await lab.folder('target'), '.git'))).not.toContain('ran')
  })
})

describe('the sources of workspace_merge', () => {
  it('are all looked up before anything is done', async () => {
    const lab = await prepareForks('fork')
    expect(await failureOf(mergeInto(lab, 'sequential', ['fork', 'missing']))).toMatchObject({
      code: 'ERR_WORKSPACE_NOT_FOUND',
    })
    expect((await failureOf(mergeInto(lab, 'sequential', ['fork', 'fork']))).message).toMatch(/twice/)
    expect((await failureOf(mergeInto(lab, 'sequential', ['target']))).message).toMatch(/target itself/)
    expect(lab.requests).toEqual([])
  })

  it('fail each for itself when they are no repository or have an unrelated history', async () => {
    const lab = await prepareForks('fork')
    await startRepository(lab, 'other-history')
    await lab.git('other-history', 'commit', '--quiet', '--amend', '-m', 'another beginning')
    await lab.commitFiles('other-history', 'unrelated', { 'x.txt': 'x\n' })
    await lab.commitFiles('fork', 'f', { 'f.txt': 'f\n' })
    const answer = await mergeInto(lab, 'cherry-pick', ['nowhere', 'other-history', 'fork'])
    expect(answer).toMatchObject({ success: false, merged_sources: ['fork'], total_commits_applied: 1 })
    expect(answer.conflicts.map(({ source_id, error }) => `${source_id}: ${error}`)).toEqual([
      expect.stringMatching(/^nowhere: .*no git repository/),
      expect.stringMatching(/^other-history: .*no common commit/),
    ])
  })

  it.each(mergeStrategies)(
    'are merged from a recorded fork point after the target was rewritten: %s',
    async (strategy) => {
      const lab = await prepareForks('fork')
      const forkPoint = await lab.git('target', 'rev-parse', 'HEAD')
      await lab.commitFiles('fork', 'f1', { 'f.txt': '1\n' })
      await lab.commitFiles('fork', 'f2', { 'long.txt': lines([3, 'fork']) })
      await lab.git('target', 'commit', '--quiet', '--amend', '-m', 'third, rewritten')
      await lab.commitFiles('target', 'fourth', { 'other.txt': 'changed\n' })
      const forkPoints = new Map([['fork', forkPoint]])
      const answer = await mergeInto(lab, strategy, ['fork'], {}, { forkPoints })
      expect(answer).toMatchObject({ success: true, total_commits_applied: 2, results: [{ fork_point: forkPoint }] })
      const log = await lab.git('target', 'log', '--topo-order', '--no-merges', '--format=%s')
      expect(log.split('\n')).toEqual(['f2', 'f1', 'fourth', 'third, rewritten', 'second', 'first'])
      expect(await targetFile(lab, 'long.txt')).toBe(lines([3, 'fork']))
    },
  )

  it.each(mergeStrategies)('keep what their own merges resolved: %s', async (strategy) => {
    const lab = await prepareForks('fork')
    await lab.git('fork', 'checkout', '--quiet', '-b', 'side')
    await lab.commitFiles('fork', 'side', { 'long.txt': lines([7, 'side']) })
    await lab.git('fork', 'checkout', '--quiet', 'main')
    await lab.commitFiles('fork', 'main', { 'long.txt': lines([7, 'main']) })
    await lab.git('fork', 'merge', '--quiet', 'side').catch(() => '')
    await lab.commitFiles('fork', 'resolved', { 'long.txt': lines([7, 'both']) })
    await lab.commitFiles('target', 'meanwhile', { 'other.txt': 'changed\n' })
    expect(await mergeInto(lab, strategy, ['fork'])).toMatchObject({ success: true })
    expect(await targetFile(lab, 'long.txt')).toBe(lines([7, 'both']))
    expect(await targetFile(lab, 'other.txt')).toBe('changed\n')
  })

  it('send large histories whole, and only what the target lacks', async () => {
    const lab = await prepareForks('fork')
    const large = randomBytes(12 * 1024 * 1024)
    await lab.commitFiles('fork', 'large', { 'large.bin': large })
    expect(await mergeInto(lab, 'sequential', ['fork'])).toMatchObject({ success: true })
    expect((await readFile(join(await lab.folder('target'), 'large.bin'))).equals(large)).toBe(true)
    await lab.commitFiles('fork', 'small', { 'small.txt': 's\n' })
    await mergeInto(lab, 'sequential', ['fork'])
    const packs = await readdir(join(await lab.folder('target'), '.git/objects/pack'))
    const sizes = await Promise.all(
      packs
        .filter((name) => name.endsWith('.pack'))
        .map(async (name) => (await readFile(join(await lab.folder('target'), '.git/objects/pack', name))).length),
    )
    expect(sizes.filter((size) => size > 1024 * 1024)).toHaveLength(1)
    expect(sizes).toHaveLength(2)
  })

  it('may be shallow, as the target is', async () => {
    const lab = await createGitLab()
    await startRepository(lab, 'origin')
    for (const name of ['a', 'b', 'c']) await lab.commitFiles('origin', name, { [`${name}.txt`]: name })
    await lab.git('target', 'clone', '--quiet', '--depth=1', `file://${await lab.folder('origin')}`, '.')
    await lab.git('target', 'config', 'user.email', 't@example.org')
    await lab.fork('target', 'fork')
    await lab.git('fork', 'config', 'user.name', 'T')
    await lab.commitFiles('fork', 'f', { 'f.txt': 'f\n' })
    expect(await mergeInto(lab, 'cherry-pick', ['fork'])).toMatchObject({ success: true, total_commits_applied: 1 })
    expect(await targetFile(lab, 'f.txt')).toBe('f\n')
  })
})

describe('the strategies of workspace_merge', () => {
  it('sequential keeps commits that fit as they are; cherry-pick says where they come from', async () => {
    const lab = await prepareForks('fork', 'again')
    const commit = await lab.commitFiles('fork', 'f\n\nSigned-off-by: Ann <ann@example.org>', { 'f.txt': 'f\n' })
    expect((await mergeInto(lab, 'sequential', ['fork'])).results[0]!.commits).toEqual([commit])
    const picked = await lab.commitFiles('again', 'g', { 'g.txt': 'g\n' })
    const answer = await mergeInto(lab, 'cherry-pick', ['again'])
    expect(answer.results[0]!.commits).not.toEqual([picked])
    expect(await lab.git('target', 'show', '-s', '--format=%B', 'HEAD')).toBe(
      `g\n\n(cherry picked from commit ${picked})\n`,
    )
  })

  it('branch-per-source keeps a branch for each source and uses commit_message', async () => {
    const lab = await prepareForks('one', 'two')
    const one = await lab.commitFiles('one', 'o', { 'o.txt': 'o\n' })
    await lab.commitFiles('two', 't', { 't.txt': 't\n' })
    const answer = await mergeInto(lab, 'branch-per-source', ['one', 'two'], { commit_message: 'Join – ü\n\nBody' })
    expect(answer.results.map(({ branch }) => branch)).toEqual(['merge/one', 'merge/two'])
    expect(await lab.git('target', 'rev-parse', 'merge/one')).toBe(one)
    expect(await lab.git('target', 'show', '-s', '--format=%B', 'HEAD')).toBe('Join – ü (from two)\n\nBody\n')
    expect(await lab.git('target', 'rev-parse', 'HEAD^2')).toBe(await lab.git('two', 'rev-parse', 'HEAD'))
    const more = await lab.commitFiles('one', 'o2', { 'o.txt': 'o2\n' })
    await mergeInto(lab, 'branch-per-source', ['one'])
    expect(await lab.git('target', 'rev-parse', 'merge/one')).toBe(more)
    await lab.git('target', 'branch', '--force', 'merge/one', 'HEAD~3')
    await lab.git('target', 'checkout', '--quiet', 'merge/one')
    const last = await mergeInto(lab, 'branch-per-source', ['one'])
    expect(last.results[0]!.branch).toBe('merge/one-2')
  })

  it('branch-per-source fails without a trace when the branch cannot be made', async () => {
    const lab = await prepareForks('fork')
    await lab.commitFiles('fork', 'f', { 'f.txt': 'f\n' })
    await lab.git('target', 'branch', 'merge')
    const before = await fingerprint(lab)
    expect((await mergeInto(lab, 'branch-per-source', ['fork'])).conflicts[0]!.error).toMatch(/branch/)
    expect(await fingerprint(lab)).toEqual(before)
  })

  it('warn about a message that has no merge commit to stand in', async () => {
    const lab = await prepareForks('fork')
    const call = gitCall()
    await mergeInto(lab, 'sequential', ['fork'], { commit_message: 'unused' }, {}, call)
    expect(call.warnings).toEqual([expect.stringMatching(/^commit_message: only branch-per-source/)])
    expect(call.effects).toMatchObject([{ kind: 'workspace_merged', body: { workspace_id: 'target' } }])
  })
})

describe('a cancelled workspace_merge', () => {
  it('that changed nothing is cancelled; one that did says what', async () => {
    const lab = await prepareForks('one', 'two')
    await lab.commitFiles('one', 'o', { 'o.txt': 'o\n' })
    await lab.commitFiles('two', 't', { 't.txt': 't\n' })
    const before = await fingerprint(lab)
    const early = gitCall()
    early.abort()
    expect(await failureOf(mergeInto(lab, 'sequential', ['one', 'two'], {}, {}, early))).toMatchObject({
      code: 'ERR_CANCELLED',
    })
    expect(await fingerprint(lab)).toEqual(before)
    const late = gitCall((update, abort) => update.message === 'merging two' && abort())
    const answer = await mergeInto(lab, 'sequential', ['one', 'two'], {}, {}, late)
    expect(answer).toMatchObject({ success: false, merged_sources: ['one'], conflicts: [{ source_id: 'two' }] })
    expect(await lab.git('target', 'status', '--porcelain')).toBe('')
  })
})
