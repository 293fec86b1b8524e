import { spawnSync } from 'node:child_process'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { shellRisksOf } from '../templating/shell-lines.ts'
import { renderTemplate } from '../templating/templates.ts'

const risks = (text: string) => shellRisksOf(text).map(({ kind, expression }) => `${kind} ${expression}`)

it.each([
  ['echo {{input.name}}', ['raw input.name']],
  ['echo "{{{A.stdout}}}"', ['raw A.stdout']],
  ['echo {{json input}} {{trim A.stdout}}', ['raw (json input)', 'raw (trim A.stdout)']],
  ['{{#if a}}echo {{b}}{{else}}echo {{c}}{{/if}}', ['raw b', 'raw c']],
  ['echo {{shell input.name}} > {{shell file}}', []],
  ['echo {{shell (trim A.stdout)}} {{length list}}', []],
  ['echo "{{shell a}}" && echo {{shell b}}', ['quoted a']],
  ["sh -c 'echo {{shell a}}'", ['quoted a']],
  ['echo \\" {{shell a}} "x" {{shell b}}', []],
  ['echo "it\'s" {{shell a}}', []],
  ['{{#if a}}yes{{/if}} {{! {{x}} }}', []],
  ['echo plain', []],
  ['{{input.command}}', ['whole input.command']],
  [' {{{workflow.test_command}}}\n', ['whole workflow.test_command']],
  ['head -n {{input.lines + 1}}', []],
])('%s', (text, expected) => {
  expect(risks(text)).toEqual(expected)
})

it('a quoted value is one word to a real shell, whatever it is', () => {
  const value = fc.string({ unit: fc.constantFrom(...`'"\\$\`;&|<>(){}[]*?~#!\n\t a-`) })
  fc.assert(
    fc.property(value, (text) => {
      const line = renderTemplate('printf "%s|" {{shell v}} end', { v: text }, { field: 'f' })
      expect(spawnSync('sh', ['-c', line], { encoding: 'utf8' }).stdout).toBe(`${text}|end|`)
    }),
    { numRuns: 30 },
  )
})
