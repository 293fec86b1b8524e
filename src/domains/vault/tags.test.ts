import { describe, expect, it } from 'vitest'
import { addTag, hasTag, removeTag, tagName, tagsOf } from './tags.ts'

describe('the tags of a note', () => {
  it('are those of its front matter and of its text, each once', () => {
    expect(
      tagsOf('---\ntags: [one, "#two", 3, null]\n---\n#two (#three) x#not #zürich/alt, #2024 #2024-plan\n'),
    ).toEqual([...['one', 'two', '3', 'three', 'zürich/alt', '2024-plan']])
    expect(tagsOf('---\ntags: one, two three\n---\n')).toEqual(['one', 'two', 'three'])
    expect(tagsOf('---\ntags: {a: 1}\n---\n# Heading\nhttps://x/#part')).toEqual([])
    expect(tagsOf('---\nbroken: [\n---\n#text')).toEqual(['text'])
  })

  it('are not taken from code', () => {
    const note = [
      '#a',
      '```sh',
      '#b',
      '~~~',
      '#c',
      '```',
      '#d `#e` #f',
      '~~~~',
      '```',
      '#g',
      '~~~',
      '#h',
      '~~~~',
      '#i',
    ].join('\n')
    expect(tagsOf(note)).toEqual(['a', 'd', 'f', 'i'])
  })

  it('cover those below them, and capitals do not matter', () => {
    expect(hasTag('#Area/Home', 'area')).toBe(true)
    expect(hasTag('#area', 'Area')).toBe(true)
    expect(hasTag('#areas', 'area')).toBe(false)
    expect(hasTag('#area', 'area/home')).toBe(false)
  })

  it('are names of letters, digits and a few signs', () => {
    expect(['#a', 'a/b-c_d', 'ä1'].map(tagName)).toEqual(['a', 'a/b-c_d', 'ä1'])
    expect(['', '#', '123', 'a b', 'a,b', '##a', '1/2', 'a\n'].map(tagName)).toEqual(Array(8).fill(undefined))
  })
})

describe('adding and removing a tag', () => {
  it('touches the front matter alone', () => {
    expect(addTag('text #a', 'a')).toBe('---\ntags:\n  - a\n---\ntext #a')
    expect(addTag('---\nx: 1 # y\ntags: a, b\n---\n', 'c')).toBe('---\nx: 1 # y\ntags:\n  - a\n  - b\n  - c\n---\n')
    expect(addTag('---\ntags: [A]\n---\n', 'a')).toBeUndefined()
    expect(removeTag('---\ntags: [a, "#b", c]\n---\n#b', 'b')).toBe('---\ntags:\n  - a\n  - c\n---\n#b')
    expect(removeTag('---\nx: 1\ntags: [a]\n---\ntext', 'a')).toBe('---\nx: 1\n---\ntext')
    expect(removeTag('---\ntags: a\n---\ntext', 'a')).toBe('text')
    expect(removeTag('text #a', 'a')).toBeUndefined()
  })

  it('refuses front matter that it cannot read', () => {
    for (const yaml of ['tags: [', 'tags: {a: 1}']) {
      const refusal = expect.objectContaining({ code: 'ERR_FRONTMATTER_INVALID' })
      expect(() => addTag(`---\n${yaml}\n---\n`, 'a')).toThrow(refusal)
      expect(() => removeTag(`---\n${yaml}\n---\n`, 'a')).toThrow(refusal)
    }
  })
})
