import { describe, expect, it } from 'vitest'
import { isTestFile, listPaths } from './source-files.ts'
import { mirrors, misplaced } from './test-folders.ts'

const folderOf = (path: string): string => path.slice('src/'.length, Math.max(path.lastIndexOf('/'), 'src/'.length))
const sources = listPaths('src', (path) => path.endsWith('.ts') && !isTestFile(path))
const tests = [...listPaths('src'), ...listPaths('test')].filter((path) => path.endsWith('.test.ts'))
const folders = [...new Set(sources.map(folderOf))].filter((folder) => folder !== '')

describe('tests', () => {
  it('are beside their source or in a folder that mirrors it', () => {
    expect(misplaced(tests, folders)).toEqual([])
  })
})

describe('the check of their mirrored', () => {
  const without = (folder: string): string[] => tests.filter((path) => !path.startsWith(`test/${folder}/`))

  it('notices a folder of tests that mirrors nothing, and a source that went', () => {
    expect(misplaced([...tests, 'test/other/x.test.ts'], folders)).toHaveLength(1)
    const removed = folders.filter((folder) => folder !== 'engine')
    expect(misplaced(tests, removed)).toEqual(['test/engine mirrors src/engine, which is not there.'])
  })

  it('notices a source without tests', () => {
    expect(misplaced(tests, [...folders, 'plugins'])).toHaveLength(1)
    expect(misplaced(without('engine'), folders)).toEqual([
      'src/engine has no tests beside it, and no folder of test/ mirrors it.',
    ])
    expect(Object.keys(mirrors)).toContain('engine')
  })
})
