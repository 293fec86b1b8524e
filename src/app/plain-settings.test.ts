import { expect, test } from 'vitest'
import { mentions } from './plain-settings.ts'

test.each([
  ['', false],
  ['# mode: FULL\n\nmodels:\n  providers:\n  - mode: x\n', false],
  ['models: { a: 1,\n  mode: x\n}\nskills:\n- mode\n', false],
  ['mode: FULL\n', true],
  ['models: {}\r\nmode : READONLY\r\n', true],
  ['{ models: {} }', true],
  ['  mode: FULL\n  port: 1\n', true],
  ['\ufeffmode: FULL\n', true],
  ['models: {}\n"mode": FULL\n', true],
  ['models: {}\n? mode\n: FULL\n', true],
  ['models: {}\n&anchor mode: FULL\n', true],
])('a file may set the mode: %j, %s', (text, expected) => {
  expect(mentions(text, ['mode'])).toBe(expected)
})
