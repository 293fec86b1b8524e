import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createPieceEncoder, type Vocabulary } from './sentence-pieces.ts'

const vocabulary: Vocabulary = [
  ['�', 0],
  ['<s>', 0],
  ['</s>', 0],
  ['a', 0],
  ['b', 0],
  ['c', 0],
  ['▁', -5],
  ['▁resize', -3],
  ['▁re', -4],
  ['size', -4],
  ['s', -2],
  ['▁image', -3],
]
const encode = createPieceEncoder(vocabulary)

it('takes the likeliest pieces', () => {
  expect(encode('resize  images')).toEqual([7, 11, 10])
  expect(encode('re size')).toEqual([8, 6, 9])
})

it('makes one unknown piece of what it cannot spell, and never takes a reserved one', () => {
  expect(encode('resize 漢字!')).toEqual([7, 6, 0])
  expect(encode('abc')).toEqual([6, 0])
})

it('answers for any text with pieces that there are', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
      const pieces = encode(text)
      expect(pieces.length).toBeGreaterThan(0)
      expect(pieces.every((piece) => piece === 0 || (piece >= 6 && piece < vocabulary.length))).toBe(true)
    }),
  )
})
