import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { stem } from './stem.ts'

describe('stem', () => {
  it.each([
    'execute executes executed executing execution executions',
    'create creates created creating creation',
    'delete deleted deletes deleting deletion',
    'deploy deploys deployed deployment deployments',
    'install installs installed installing installation',
    'configure configured configuration configurations',
    'policy policies',
    'query queries queried querying',
    'run runs running ran',
    'commit commits committed committing',
    'cancel cancels cancelled canceled cancelling',
    'search searches searched searching',
    'write writes writing written',
    'verify verifies verified verification',
    'validate validates validation',
    'finalize finalise finalized finalising',
    'merge merges merged merging',
    'stop stops stopped stopping',
    'call calls called calling',
    'organisation organization organisations',
    'directory directories',
    'process processes processed',
  ])('joins the forms: %s', (forms) => {
    expect(new Set(forms.split(' ').map(stem)).size).toBe(1)
  })

  it.each([
    ['policy', 'police'],
    ['task', 'team'],
    ['server', 'service'],
    ['status', 'state'],
    ['universe', 'unit'],
    ['note', 'not'],
    ['news', 'new'],
    ['agent', 'agency'],
  ])('keeps %s and %s apart', (one, other) => {
    expect(stem(one)).not.toBe(stem(other))
  })

  it('leaves short words and other scripts alone', () => {
    for (const word of ['', 'a', 'is', 'k8s', 'größe', '文件', '__proto__']) expect(stem(word)).toBe(word)
    expect(stem('файлы')).toBe('файлы')
  })

  it('never grows a word by more than the one letter that it restores, and never empties it', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(...'abcdeghilmnorstuvyz'), minLength: 1, maxLength: 14 }),
        (word) => {
          const result = stem(word)
          expect(result.length).toBeGreaterThan(0)
          expect(result.length).toBeLessThanOrEqual(word.length + 1)
          expect(result).toBe(result.toLowerCase())
        },
      ),
      { numRuns: 2_000 },
    )
  })
})
