import { describe, expect, it } from 'vitest'
import { limits } from '../../contract/limits.ts'
import { createParseCache } from './parse-cache.ts'

describe('parsed manifests', () => {
  const counted = (isCacheable = true) => {
    const parsed: string[] = []
    const read = createParseCache(
      (text) => {
        parsed.push(text)
        return { text, list: [{ a: 1 }] }
      },
      () => isCacheable,
    )
    return { parsed, read }
  }

  it('are parsed once, and nobody can change them for the others', () => {
    const { parsed, read } = counted()
    expect(read('a')).toBe(read('a'))
    expect(parsed).toEqual(['a'])
    expect(() => {
      read('a').list[0]!.a = 2
    }).toThrow(TypeError)
  })

  it('are not kept when they are refused', () => {
    const { parsed, read } = counted(false)
    read('a')
    read('a')
    expect(parsed).toEqual(['a', 'a'])
  })

  it('make room by number, the one that was not used for longest first', () => {
    const { parsed, read } = counted()
    read('a')
    read('b')
    for (let index = 2; index < limits.parsedManifestsMax; index++) read(`n${index}`)
    read('a')
    read('one more')
    parsed.length = 0
    read('a')
    expect(parsed).toEqual([])
    read('b')
    expect(parsed).toEqual(['b'])
  })

  it('make room by size', () => {
    const { parsed, read } = counted()
    const large = (letter: string) => letter.repeat(Math.ceil(limits.parsedManifestCharsMax / 3))
    for (const letter of 'abcd') read(large(letter))
    parsed.length = 0
    read(large('d'))
    expect(parsed).toEqual([])
    read(large('a'))
    expect(parsed).toHaveLength(1)
  })

  it('keep nothing that is larger than all of the room', () => {
    const { parsed, read } = counted()
    const text = 'x'.repeat(limits.parsedManifestCharsMax + 1)
    read(text)
    read(text)
    expect(parsed).toHaveLength(2)
  })
})
