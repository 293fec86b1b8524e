import { validateHeaderValue } from 'node:http'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { headerList, headerText } from './header-text.ts'

it('any text can be the value of a header', () => {
  const text = fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('a\n', '\ud800', 'a, b', '\u0000', 'é'))
  fc.assert(
    fc.property(fc.array(text), (names) => {
      for (const name of names) validateHeaderValue('x', headerText(name))
      validateHeaderValue('x', headerList(names))
    }),
  )
})

it('a list says each name, and stays short', () => {
  expect(headerList(['web_search', 'a, b', 'c\n'])).toBe('web_search, a%2C%20b, c%0A')
  expect(headerList(Array.from({ length: 50_000 }, () => 'é'.repeat(1_000))).length).toBeLessThan(15_000)
})
