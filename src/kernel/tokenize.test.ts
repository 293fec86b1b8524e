import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { documentWords, foldWord, splitPieces } from './tokenize.ts'

describe('documentWords', () => {
  it.each([
    ['fs.multi_edit', ['fs', 'multi', 'edit']],
    ['github__search-repos', ['github', 'search', 'repos']],
    ['mcpServerId', ['mcp', 'server', 'id', 'mcpserverid']],
    ['HTTPFetch', ['http', 'fetch', 'httpfetch']],
    ["the app's HTML", ['the', 'app', 'html']],
    ['Ｆｉｌｅ', ['file']],
    ['Créer une tâche', ['creer', 'une', 'tache']],
    ['Straße ΟΔΟΣ İstanbul', ['strasse', 'οδοσ', 'istanbul']],
    ['прочитать ЁЛКИ', ['прочитать', 'елки']],
    ['हिन्दी', ['हिन्दी']],
    ['读取文件', ['读取', '取文', '文件', '读', '取', '文', '件']],
    ['API文件', ['api', '文件', '文', '件']],
    ['파일 읽기', ['파일', '파', '일', '읽기', '읽', '기']],
    ['字', ['字']],
    ['… — !', []],
  ])('%s', (text, words) => {
    expect(documentWords(text)).toEqual(words)
  })

  it('gives folded, non-empty words for any text, the same ones for any Unicode normal form', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), (text) => {
        const words = documentWords(text)
        for (const word of words) {
          expect(word).not.toBe('')
          expect(foldWord(word)).toBe(word)
        }
        expect(documentWords(text.normalize('NFC'))).toEqual(documentWords(text.normalize('NFD')))
      }),
      { numRuns: 500 },
    )
  })
})

describe('splitPieces', () => {
  it('keeps what was typed beside what is searched', () => {
    expect(splitPieces('taskCreate')).toEqual([
      { kind: 'word', text: 'taskCreate', whole: 'taskcreate', parts: ['task', 'create'] },
    ])
    expect(splitPieces('タスクを')[0]).toEqual({
      kind: 'pairs',
      text: 'タスクを',
      whole: 'タスクを',
      parts: ['タス', 'スク', 'クを'],
    })
  })
})
