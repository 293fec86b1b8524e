import { describe, expect, it } from 'vitest'
import { limits } from '../../contract/limits.ts'
import type { MergeAnswer } from '../git/merge.ts'
import { boundedAnswer } from './merge-workers.ts'

const answerOf = (files: readonly string[]): MergeAnswer => ({
  success: false,
  strategy: 'sequential',
  total_commits_applied: 0,
  merged_sources: [],
  conflicts: [],
  head_before: 'a',
  head_after: 'a',
  results: Array.from({ length: 20 }, (_, index) => ({
    source_id: `id-${index}`,
    source_name: `worker-${index}`,
    success: false,
    commits_applied: 0,
    commits: [],
    conflict_files: files,
  })),
})

describe('the report of a merge', () => {
  it('is left whole when it is short, and gets shorter lists when it is long', () => {
    const short = answerOf(['a.txt', 'b.txt'])
    expect(boundedAnswer(short)).toBe(short)
    const long = Array.from({ length: limits.gitConflictFilesMax }, (_, index) => `${index}-${'x'.repeat(4_000)}`)
    const bounded = boundedAnswer(answerOf(long))
    expect(bounded.results[19]?.conflict_files).toEqual(long.slice(0, 10))
    expect(Buffer.byteLength(JSON.stringify(bounded))).toBeLessThan(limits.answerBytesMax / 4)
  })
})
