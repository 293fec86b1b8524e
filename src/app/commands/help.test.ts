import { expect, test } from 'vitest'
import { commandHelp } from '../../cli/command.ts'
import { commands } from './index.ts'

const oneLine = (text: string): string => text.replace(/\s+/g, ' ')
/** Commands are written to be copied, so they are not wrapped. */
const prose = (help: string): string[] => help.split('\n\nExamples:')[0]!.split('\n')

test.each(Object.keys(commands))('the help of %s fits a terminal, and says the same as elsewhere', async (name) => {
  const { spec } = (await commands[name]!.load()).command
  for (const chosen of [undefined, ...Object.keys(spec.actions ?? {})]) {
    const narrow = commandHelp(spec, chosen, 80)
    expect(prose(narrow).filter((line) => line.length > 80)).toEqual([])
    expect(oneLine(narrow)).toBe(oneLine(commandHelp(spec, chosen, undefined)))
  }
})

test('what goes to a pipe has one line for each flag', async () => {
  const { spec } = (await commands['serve']!.load()).command
  expect(commandHelp(spec, undefined, undefined)).toMatch(/^ {6}--host HOST +\S.*\n {6}--port PORT +\S/m)
})
