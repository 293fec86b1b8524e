import { describe, expect, it } from 'vitest'
import { AppError } from '../contract/app-error.ts'
import { systemClock } from '../kernel/clock.ts'
import { counted } from '../kernel/counted.ts'
import { createTerminal, printError, textTable } from './terminal.ts'

function terminalOf(options: { outIsTTY: boolean; errorIsTTY: boolean; noColor?: boolean }) {
  const written = { out: '', error: '' }
  const output = (name: 'out' | 'error', isTTY: boolean) => ({
    isTTY,
    write: (text: string) => {
      written[name] += text
    },
  })
  const terminal = createTerminal({
    out: output('out', options.outIsTTY),
    error: output('error', options.errorIsTTY),
    noColor: options.noColor ?? false,
    clock: systemClock,
  })
  return { terminal, written }
}

describe('what a terminal would obey', () => {
  const evil = '\u001b]0;owned\u0007\u001b[2J\u009b31m\u202egnp.exe'
  const obeyed = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/

  it.each([
    ['an error', new AppError('ERR_UNKNOWN_TOOL', `There is no tool '${evil}'.`, { tool: evil }), false],
    ['an error as JSON', new AppError('ERR_UNKNOWN_TOOL', `There is no tool '${evil}'.`, { tool: evil }), true],
    ['a failure of ours', new Error(evil), false],
    ['a failure of ours as JSON', new Error(evil), true],
  ])('is not in %s that echoes an argument', (_, error, json) => {
    const { terminal, written } = terminalOf({ outIsTTY: false, errorIsTTY: false })
    printError(terminal, error, json)
    expect(written.error).not.toMatch(obeyed)
    expect(written.error).toContain('owned')
  })

  it.each([false, true])('is in nothing that a command prints, at a terminal: %s', (isTTY) => {
    const { terminal, written } = terminalOf({ outIsTTY: isTTY, errorIsTTY: isTTY, noColor: true })
    terminal.out(`${evil}\n`)
    terminal.out(terminal.style('good', evil))
    terminal.error(evil)
    terminal.error(terminal.errorStyle('bad', evil))
    terminal.notice(evil)
    expect(written.out + written.error).not.toMatch(obeyed)
    expect(written.out.match(/owned/g)).toHaveLength(2)
    expect(written.error.match(/owned/g)).toHaveLength(3)
  })

  it('is in no colour of others, beside our own', () => {
    const { terminal, written } = terminalOf({ outIsTTY: true, errorIsTTY: true })
    const good = terminal.style('good', `fine${evil}`)
    terminal.out(`\u001b[31mred\u001b[0m\u001b[32m ${good} \u001b[32mother\u001b[0m`)
    expect(written.out).toBe(
      '\ufffd[31mred\ufffd[0m\ufffd[32m \u001b[32mfine\ufffd]0;owned\ufffd\ufffd[2J\ufffd31m\ufffdgnp.exe\u001b[0m \ufffd[32mother\ufffd[0m',
    )
  })

  it('stays in what a program reads, which is exact', () => {
    const piped = terminalOf({ outIsTTY: false, errorIsTTY: false })
    piped.terminal.data(evil)
    expect(piped.written.out).toBe(evil)
    const seen = terminalOf({ outIsTTY: true, errorIsTTY: false })
    seen.terminal.data(evil)
    expect(seen.written.out).not.toMatch(obeyed)
  })

  it('is no line of its own in a table', () => {
    expect(textTable([['a\n  forged', 'b']])).toBe('a forged  b\n')
  })
})

describe('colours', () => {
  it.each([
    ['both terminals', { outIsTTY: true, errorIsTTY: true }, [true, true]],
    ['errors into a file', { outIsTTY: true, errorIsTTY: false }, [true, false]],
    ['output into a pipe', { outIsTTY: false, errorIsTTY: true }, [false, true]],
    ['both elsewhere', { outIsTTY: false, errorIsTTY: false }, [false, false]],
    ['NO_COLOR', { outIsTTY: true, errorIsTTY: true, noColor: true }, [false, false]],
  ])('%s', (_, options, expected) => {
    const { terminal, written } = terminalOf(options)
    terminal.out(terminal.style('good', 'fine'))
    printError(terminal, new AppError('ERR_NOT_FOUND', 'gone'), false)
    expect([written.out, written.error].map((text) => text.includes('\u001b['))).toEqual(expected)
  })

  it('are never in JSON', () => {
    const { terminal, written } = terminalOf({ outIsTTY: true, errorIsTTY: true })
    expect(printError(terminal, new AppError('ERR_NOT_FOUND', 'gone', { id: 1 }), true)).toBe(3)
    expect(JSON.parse(written.error)).toEqual({ error: { code: 'ERR_NOT_FOUND', message: 'gone', details: { id: 1 } } })
  })
})

it('shows what a failed program printed, and nothing in it that a terminal would obey', () => {
  const { terminal, written } = terminalOf({ outIsTTY: true, errorIsTTY: false })
  const details = { stdout_tail: 'one\r\ntwo\n', stderr_tail: 'bad \u001b[2Jscreen\u009b\n\n', exit_code: 1 }
  printError(terminal, new AppError('ERR_COMMAND_FAILED', 'It failed', details), false)
  expect(written.error).toBe(
    'error: It failed (ERR_COMMAND_FAILED)\nstdout_tail:\n  one\n  two\nstderr_tail:\n  bad \ufffd[2Jscreen\ufffd\n',
  )
  const quiet = terminalOf({ outIsTTY: true, errorIsTTY: false })
  printError(quiet.terminal, new AppError('ERR_COMMAND_FAILED', 'It failed', { stdout_tail: '' }), false)
  expect(quiet.written.error).toBe('error: It failed (ERR_COMMAND_FAILED)\n')
})

it('shows every problem where there are several', () => {
  const { terminal, written } = terminalOf({ outIsTTY: true, errorIsTTY: false })
  const errors = ['kind: is wrong', 'spec: is\nmissing\u001b[2J']
  printError(terminal, new AppError('ERR_MANIFEST_INVALID', 'kind: is wrong (and 1 more)', { errors }), false)
  expect(written.error).toBe(
    'error: kind: is wrong (and 1 more) (ERR_MANIFEST_INVALID)\n  - kind: is wrong\n  - spec: is missing\ufffd[2J\n',
  )
  const one = terminalOf({ outIsTTY: true, errorIsTTY: false })
  printError(
    one.terminal,
    new AppError('ERR_MANIFEST_INVALID', 'kind: is wrong', { errors: ['kind: is wrong'] }),
    false,
  )
  expect(one.written.error).toBe('error: kind: is wrong (ERR_MANIFEST_INVALID)\n')
})

it('shows a notice at once, on a line of its own, without what a terminal would obey, and once', () => {
  const { terminal, written } = terminalOf({ outIsTTY: true, errorIsTTY: false })
  terminal.progress('in state A')
  terminal.notice('Go on?\u001b[2J\nAnswer with: x')
  terminal.notice('Go on?\u001b[2J\nAnswer with: x')
  terminal.notice('And now?')
  expect(written.error).toBe('Go on?\ufffd[2J\nAnswer with: x\nAnd now?\n')
})

it('counts in words', () => {
  expect([counted(0, 'finding'), counted(1, 'finding'), counted(2, 'entry', 'entries')]).toEqual([
    '0 findings',
    '1 finding',
    '2 entries',
  ])
})

it('lays out columns without blanks at the end', () => {
  expect(
    textTable(
      [
        ['a', 'bb', ''],
        ['aaa', 'b', 'c'],
      ],
      '  ',
    ),
  ).toBe('  a    bb\n  aaa  b   c\n')
})
