import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  targetFile as fileOf,
  fingerprint,
  lines,
  mergeInto,
  prepareForks as prepare,
} from '../../../test/support/git-merge.ts'
import type { GitLab } from '../../../test/support/git-service.ts'
import { mergeStrategies } from './rules.ts'

const subjects = (lab: GitLab, ...args: string[]): Promise<string> => lab.git('target', 'log', '--format=%s', ...args)

describe.each(mergeStrategies)('workspace_merge, %s', (strategy) => {
  it('brings the commits of several forks from the fork point on, over a history of many commits', async () => {
    const lab = await prepare('one', 'two')
    await lab.commitFiles('one', 'one a', { 'long.txt': lines([2, 'from one']) })
    await lab.commitFiles('one', 'one b', { 'one.txt': '1\n' })
    await lab.commitFiles('two', 'two a', { 'long.txt': lines([38, 'from two']) })
    const answer = await mergeInto(lab, strategy, ['one', 'two'])
    expect(answer).toMatchObject({
      success: true,
      strategy,
      total_commits_applied: 3,
      merged_sources: ['one', 'two'],
      conflicts: [],
      results: [
        { source_id: 'one', source_name: 'one', success: true, commits_applied: 2, conflict_files: [] },
        { source_id: 'two', success: true, commits_applied: 1 },
      ],
    })
    expect(await fileOf(lab, 'long.txt')).toBe(lines([2, 'from one'], [38, 'from two']))
    expect(await lab.git('target', 'status', '--porcelain')).toBe('')
    expect(await lab.git('target', 'rev-parse', 'HEAD')).toBe(answer.head_after)
    expect(await lab.git('target', 'symbolic-ref', 'HEAD')).toBe('refs/heads/main')
    for (const { commits } of answer.results) {
      for (const id of commits) await lab.git('target', 'merge-base', '--is-ancestor', id, 'HEAD')
    }
    const brought = await subjects(lab, '--no-merges', `${answer.head_before}..HEAD`)
    expect(brought.split('\n').sort()).toEqual(['one a', 'one b', 'two a'])
    await lab.git('target', 'fsck', '--strict')
  })

  it('follows renames, carries binary files, and modes, and keeps authors and messages', async () => {
    const lab = await prepare('fork')
    await lab.git('fork', 'mv', 'long.txt', 'moved.txt')
    await lab.git('fork', 'update-index', '--chmod=+x', 'other.txt')
    await lab.git('fork', 'commit', '--quiet', '--author=Ünal <u@example.org>', '-m', 'move\n\nbody – ü\n\n# kept')
    await lab.git('fork', 'checkout', '--quiet', '--', '.')
    await lab.commitFiles('fork', 'binary', {
      'data.bin': Buffer.from([0, 9, 9, 255]),
      'new.bin': Buffer.alloc(70_000, 7),
    })
    await lab.commitFiles('target', 'target edits', { 'long.txt': lines([20, 'edited in the target']) })
    const answer = await mergeInto(lab, strategy, ['fork'])
    expect(answer).toMatchObject({ success: true, total_commits_applied: 2 })
    expect(await fileOf(lab, 'moved.txt')).toBe(lines([20, 'edited in the target']))
    expect(await lab.git('target', 'ls-files', 'long.txt')).toBe('')
    expect(await lab.git('target', 'ls-files', '--stage', 'other.txt')).toMatch(/^100755/)
    expect(await readFile(join(await lab.folder('target'), 'data.bin'))).toEqual(Buffer.from([0, 9, 9, 255]))
    expect(await readFile(join(await lab.folder('target'), 'new.bin'))).toEqual(Buffer.alloc(70_000, 7))
    const moved = answer.results[0]!.commits[0]!
    expect(await lab.git('target', 'show', '-s', '--format=%an <%ae>', moved)).toBe('Ünal <u@example.org>')
    expect(await lab.git('target', 'show', '-s', '--format=%B', moved)).toContain('move\n\nbody – ü\n\n# kept')
  })

  it('leaves no trace of a source that conflicts, names its files, and goes on with the next', async () => {
    const lab = await prepare('bad', 'good')
    await lab.commitFiles('bad', 'fine so far', { 'bad.txt': 'b\n' })
    const clash = await lab.commitFiles('bad', 'clash', {
      'long.txt': lines([5, 'bad']),
      'data.bin': Buffer.from([0, 5]),
    })
    await lab.commitFiles('good', 'good', { 'good.txt': 'g\n' })
    await lab.commitFiles('target', 'moved on', { 'long.txt': lines([5, 'target']), 'data.bin': Buffer.from([0, 6]) })
    await lab.write('target', 'untracked.txt', 'mine\n')
    const before = await fingerprint(lab)
    const alone = await mergeInto(lab, strategy, ['bad'])
    expect(await fingerprint(lab)).toEqual(before)
    expect(alone).toMatchObject({
      success: false,
      total_commits_applied: 0,
      merged_sources: [],
      head_after: alone.head_before,
      conflicts: [{ source_id: 'bad', files: ['data.bin', 'long.txt'] }],
      results: [{ source_id: 'bad', success: false, commits_applied: 0, commits: [] }],
    })
    expect(alone.results[0]!.conflict_files).toEqual(['data.bin', 'long.txt'])
    if (strategy !== 'branch-per-source') expect(alone.results[0]!.failed_commit).toBe(clash)
    const both = await mergeInto(lab, strategy, ['bad', 'good'])
    expect(both).toMatchObject({ success: false, merged_sources: ['good'], total_commits_applied: 1 })
    expect(await fileOf(lab, 'good.txt')).toBe('g\n')
    expect(await fileOf(lab, 'untracked.txt')).toBe('mine\n')
    expect(await lab.git('target', 'ls-files', 'bad.txt')).toBe('')
  })

  it('reports what a source has not committed, and does not merge it', async () => {
    const lab = await prepare('fork')
    await lab.commitFiles('fork', 'done', { 'done.txt': 'd\n' })
    await lab.write('fork', 'other.txt', 'not committed\n')
    await lab.write('fork', 'new.txt', 'n\n')
    const answer = await mergeInto(lab, strategy, ['fork'])
    expect(answer.results[0]!.warning).toContain(
      'Not merged: 1 changed file ("other.txt") and 1 untracked file ("new.txt") in the source',
    )
    expect(await fileOf(lab, 'other.txt')).toBe('other\n')
    expect(
      (await readdir(join(await lab.folder('fork'), '.git'))).filter((name) => name.startsWith('castellan')),
    ).toEqual([])
  })

  it('finds nothing to do the second time, and only the new commits after that', async () => {
    const lab = await prepare('fork')
    await lab.commitFiles('target', 'ahead', { 'ahead.txt': 'a\n' })
    await lab.commitFiles('fork', 'f1', { 'f.txt': '1\n' })
    await mergeInto(lab, strategy, ['fork'])
    const again = await mergeInto(lab, strategy, ['fork'])
    expect(again).toMatchObject({ success: true, total_commits_applied: 0, head_after: again.head_before })
    await lab.commitFiles('fork', 'f2', { 'f.txt': '2\n' })
    expect(await mergeInto(lab, strategy, ['fork'])).toMatchObject({ success: true, total_commits_applied: 1 })
    expect(await fileOf(lab, 'f.txt')).toBe('2\n')
  })

  it('overwrites no file that the target does not track, ignored ones included', async () => {
    const lab = await prepare('fork')
    await lab.commitFiles('fork', 'adds', { 'mine.txt': 'theirs\n' })
    await lab.git('fork', 'add', '--force', '--all')
    await lab.write('fork', 'debug.log', 'theirs\n')
    await lab.git('fork', 'add', '--force', 'debug.log')
    await lab.git('fork', 'commit', '--quiet', '-m', 'log')
    await lab.write('target', 'mine.txt', 'mine\n')
    await lab.write('target', 'debug.log', 'mine\n')
    const before = await fingerprint(lab)
    const answer = await mergeInto(lab, strategy, ['fork'])
    expect(answer.conflicts).toMatchObject([{ source_id: 'fork', files: ['debug.log', 'mine.txt'] }])
    expect(await fingerprint(lab)).toEqual(before)
  })

  it('takes back a checkout that fails half-way', async () => {
    const lab = await prepare('fork')
    await lab.git('target', 'config', 'filter.broken.smudge', 'false')
    await lab.git('target', 'config', 'filter.broken.required', 'true')
    await lab.commitFiles('fork', 'breaks', {
      '.gitattributes': '*.zzz filter=broken\n',
      'a-first.txt': 'a\n',
      'long.txt': lines([1, 'changed']),
      'z.zzz': 'content\n',
      'other.txt': null,
    })
    await lab.git('target', 'status')
    const { index: _, ...before } = await fingerprint(lab)
    const answer = await mergeInto(lab, strategy, ['fork'])
    expect(answer).toMatchObject({ success: false, head_after: answer.head_before })
    expect(lab.requests.some(({ request }) => request.argv.includes('reset'))).toBe(true)
    const { index: _again, gitFolder, ...after } = await fingerprint(lab)
    expect({ ...after, gitFolder: gitFolder!.replace('ORIG_HEAD ', '') }).toEqual(before)
  })
})
