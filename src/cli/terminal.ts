import { AppError } from '../contract/app-error.ts'
import type { ErrorKind } from '../contract/error-codes.ts'
import { errorEnvelope } from '../contract/error-envelope.ts'
import { systemFault } from '../contract/system-fault.ts'
import type { Clock } from '../kernel/clock.ts'

/**
 * What a command may do to the outside: write, and know whether a person is looking. Others wrote much of what is printed, so
 * everything passes here without what a terminal obeys, but for our own colours.
 */
export type Terminal = Readonly<{
  out(text: string): void
  error(text: string): void
  /** What to do if what was printed is lost: it is not printed twice. */
  ifLost(advice: string): void
  readonly adviceIfLost: string
  /** What a program reads, byte for byte; for a person who looks at it, as `out`. */
  data(text: string): void
  /** Colours for standard output, only at a terminal whose user did not disable them. */
  style(kind: Style, text: string): string
  /** The same for standard error, which may be a file while the other is a terminal. */
  errorStyle(kind: Style, text: string): string
  /** The width of the terminal; undefined if output goes elsewhere. */
  width: number | undefined
  /** Progress of long work. Shown only after a second; the next line replaces it. */
  progress(text: string): void
  progressDone(): void
  /** A message during the work: shown at once, and permanent. Repetitions are dropped. */
  notice(text: string): void
}>

type Style = keyof typeof codes

type Output = Readonly<{ write(text: string): unknown; isTTY?: boolean; columns?: number }>

const USUAL_COLUMNS = 80

const codes = { good: '32', bad: '31', dim: '2', bold: '1' } as const

/** At a terminal a line is repainted this often; in a file each line stays, so there are fewer. */
const REPAINT_MS = { terminal: 100, file: 5_000 } as const
const QUIET_MS = 1_000

export function createTerminal(streams: { out: Output; error: Output; noColor: boolean; clock: Clock }): Terminal {
  const ownStyles = new Set<string>()
  const styleFor = (output: Output) => {
    const isColoured = output.isTTY === true && !streams.noColor
    return (kind: Style, text: string): string => {
      if (!isColoured) return text
      const styled = `\u001b[${codes[kind]}m${harmless(text)}\u001b[0m`
      ownStyles.add(styled)
      return styled
    }
  }
  const cleaned = (text: string): string => {
    const parts: string[] = []
    let from = 0
    for (const { 0: styled, index } of text.matchAll(STYLED)) {
      if (!ownStyles.has(styled)) continue
      parts.push(harmless(text.slice(from, index)), styled)
      from = index + styled.length
    }
    return parts.join('') + harmless(text.slice(from))
  }
  const repaintMs = streams.error.isTTY === true ? REPAINT_MS.terminal : REPAINT_MS.file
  let nextMs: number | undefined
  let displayed = false
  let noticed: string | undefined
  let adviceIfLost = ''
  const clearLine = (): void => {
    if (displayed && streams.error.isTTY === true) streams.error.write('\r\u001b[2K')
    displayed = false
  }
  return {
    width: streams.out.isTTY === true ? streams.out.columns || USUAL_COLUMNS : undefined,
    out: (text) => streams.out.write(cleaned(text)),
    error: (text) => streams.error.write(cleaned(text)),
    ifLost(advice) {
      adviceIfLost = advice
    },
    get adviceIfLost() {
      return adviceIfLost
    },
    data: (text) => streams.out.write(streams.out.isTTY === true ? cleaned(text) : text),
    style: styleFor(streams.out),
    errorStyle: styleFor(streams.error),
    progress(text) {
      const now = streams.clock.monotonicMs()
      nextMs ??= now + QUIET_MS
      if (now < nextMs) return
      nextMs = now + repaintMs
      if (streams.error.isTTY === true) streams.error.write(`\r\u001b[2K${harmless(text)}`)
      else streams.error.write(`${harmless(text)}\n`)
      displayed = true
    },
    progressDone() {
      clearLine()
      nextMs = undefined
    },
    notice(text) {
      if (text === noticed) return
      noticed = text
      clearLine()
      streams.error.write(`${harmless(text)}\n`)
    },
  }
}

/** Exit codes for scripts; each says who must act. */
export const exitCodes: Readonly<Record<ErrorKind, number>> = {
  internal: 1,
  input: 2,
  'not-found': 3,
  denied: 4,
  conflict: 5,
  unavailable: 6,
  cancelled: 130,
}

/** A shell's exit code for a signal. */
export const signalExitCode = (signal: NodeJS.Signals): number => signalExitCodes[signal] ?? exitCodes.cancelled

const signalExitCodes: Partial<Record<NodeJS.Signals, number>> = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 }

/** `showsStack` is for debugging: an unexpected error is printed with its stack. */
export function printError(terminal: Terminal, thrown: unknown, json: boolean, showsStack = false): number {
  const error = thrown instanceof AppError ? thrown : (systemFault(thrown) ?? unexpected(thrown, showsStack))
  const { code, message, details, entry } = error
  if (json) terminal.error(`${harmlessJson(errorEnvelope(error))}\n`)
  else
    terminal.error(
      `${terminal.errorStyle('bad', 'error')}: ${harmless(message)} (${code})\n${problemsIn(details)}${outputsIn(details)}`,
    )
  return exitCodes[entry.kind]
}

/** The exit code of a command that did what it should; `cause` is why its output could not be written. A reader may leave early. */
export function reportLost(terminal: Terminal, cause: Error | null): number {
  if (cause === null) return 0
  const { code = 'unknown' } = cause as NodeJS.ErrnoException
  if (code === 'EPIPE') return 0
  const advice = terminal.adviceIfLost || 'The command itself is done.'
  const message = `The output could not be written (${code}), and is lost. ${advice}`
  return printError(terminal, new AppError(code === 'ENOSPC' ? 'ERR_DISK_FULL' : 'ERR_INTERNAL', message), false)
}

function unexpected(thrown: unknown, showsStack: boolean): AppError {
  const text = thrown instanceof Error ? thrown.message : String(thrown)
  const stack = showsStack && thrown instanceof Error && thrown.stack !== undefined ? `\n${thrown.stack}` : ''
  const next = stack === '' ? 'Run the command again with --log-level debug to get the stack trace, and report it.' : ''
  return new AppError('ERR_INTERNAL', `Internal error: ${text.split('\n')[0]}.${next}${stack}`)
}

/** The message names the first of several problems; the others are listed too. */
function problemsIn({ errors }: Readonly<Record<string, unknown>>): string {
  if (!Array.isArray(errors) || errors.length < 2) return ''
  const lines = errors.filter((one): one is string => typeof one === 'string')
  return lines.map((line) => `  - ${harmless(line).replaceAll('\n', ' ')}\n`).join('')
}

/** Details in which an error carries the end of what a program printed. */
const outputDetails = ['stdout_tail', 'stderr_tail', 'git_output'] as const

/** Other control characters, and those that change text direction: the displayed text is untrusted. */
const OBEYED = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** What `style` makes; others can write the same. */
const STYLED = /\u001b\[\d+m[^\u001b]*\u001b\[0m/g

const harmless = (text: string): string => text.replaceAll('\r\n', '\n').replace(OBEYED, '\ufffd')

/** JSON escapes what is below U+0020 itself. */
export const harmlessJson = (value: unknown, indent?: number): string =>
  JSON.stringify(value, null, indent).replace(
    /[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

function outputsIn(details: Readonly<Record<string, unknown>>): string {
  return outputDetails
    .map((name) => [name, details[name]] as const)
    .filter((pair): pair is readonly [(typeof outputDetails)[number], string] => {
      return typeof pair[1] === 'string' && pair[1].trim() !== ''
    })
    .map(([name, text]) => {
      const displayed = harmless(text).trimEnd()
      return `${name}:\n${displayed.replace(/^/gm, '  ')}\n`
    })
    .join('')
}

/** Columns as wide as their widest cell, two spaces apart. A cell stays in its line, whatever its text. */
export function textTable(table: readonly (readonly string[])[], indent = ''): string {
  const rows = table.map((row) => row.map((cell) => cell.replace(/\s*[\r\n\u2028\u2029]\s*/g, ' ')))
  const widths: number[] = []
  for (const row of rows)
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, cell.length)
  return rows
    .map((row) => row.map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index]!))).join('  '))
    .map((line) => `${indent}${line.trimEnd()}\n`)
    .join('')
}
