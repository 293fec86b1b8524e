import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createPieceEncoder } from './word-pieces.ts'

const numbers = {
  '[UNK]': 0,
  '[CLS]': 1,
  '[SEP]': 2,
  re: 3,
  resize: 4,
  '##size': 5,
  '##s': 6,
  image: 7,
  ',': 8,
  漢: 9,
  cafe: 10,
}
const encode = createPieceEncoder(numbers, 12)
const within = (text: string): number[] => encode(text).slice(1, -1)

it('takes the longest pieces from the beginning of each word, between the marks', () => {
  expect(encode('resize  images')).toEqual([1, 4, 7, 6, 2])
  expect(within('resizes re, resize')).toEqual([4, 6, 3, 8, 4])
})

it('knows neither case nor accents, and takes punctuation and Chinese characters by themselves', () => {
  expect(within('RESIZE,Café')).toEqual([4, 8, 10])
  expect(within('漢漢image')).toEqual([9, 9, 7])
})

it('makes one unknown piece of a word that it cannot spell', () => {
  expect(within('imagex re')).toEqual([0, 3])
  expect(within(`${'re'.repeat(60)} re`)).toEqual([0, 3])
})

it('drops what is not to be seen, and keeps what separates', () => {
  expect(within('re\u0000size\u200b\tre\nimage')).toEqual([4, 3, 7])
})

it('answers for any text with no more numbers than asked for, which are all there', () => {
  const known = new Set(Object.values(numbers))
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
      const found = encode(text)
      expect(found.length).toBeLessThanOrEqual(12)
      expect([found[0], found.at(-1)]).toEqual([1, 2])
      expect(found.every((number) => known.has(number))).toBe(true)
    }),
  )
})
