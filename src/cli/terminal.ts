import { AppError } from '../contract/app-error.ts'
import type { ErrorKind } from '../contract/error-codes.ts'
import { errorEnvelope } from '../contract/error-envelope.ts'
import { systemFault } from '../contract/system-fault.ts'
import type { Clock } from '../kernel/clock.ts'

/** What a command may do to the outside: write, and know whether a person is looking. */
export type Terminal = Readonly<{
  out(text: string): void
  error(text: string): void
  /** Colours of what goes out, only for a person at a terminal who did not ask for none. */
  style(kind: Style, text: string): string
  /** The same for what goes to `error`, which may be a file while the other is a terminal. */
  errorStyle(kind: Style, text: string): string
  /** How wide the terminal is that output goes to; undefined when it goes elsewhere. */
  width: number | undefined
  /** How far long work has come. Shown only once it has taken a second; the next line replaces it. */
  progress(text: string): void
  progressDone(): void
  /** What a person has to know while work goes on: shown at once, and it stays. The same again is not repeated. */
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
  const styleFor = (output: Output) => {
    const isColoured = output.isTTY === true && !streams.noColor
    return (kind: Style, text: string): string => (isColoured ? `\u001b[${codes[kind]}m${text}\u001b[0m` : text)
  }
  const repaintMs = streams.error.isTTY === true ? REPAINT_MS.terminal : REPAINT_MS.file
  let nextMs: number | undefined
  let displayed = false
  let noticed: string | undefined
  const clearLine = (): void => {
    if (displayed && streams.error.isTTY === true) streams.error.write('\r\u001b[2K')
    displayed = false
  }
  return {
    width: streams.out.isTTY === true ? streams.out.columns || USUAL_COLUMNS : undefined,
    out: (text) => streams.out.write(text),
    error: (text) => streams.error.write(text),
    style: styleFor(streams.out),
    errorStyle: styleFor(streams.error),
    progress(text) {
      const now = streams.clock.monotonicMs()
      nextMs ??= now + QUIET_MS
      if (now < nextMs) return
      nextMs = now + repaintMs
      if (streams.error.isTTY === true) streams.error.write(`\r\u001b[2K${text}`)
      else streams.error.write(`${text}\n`)
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

/** What a script can act on; each says who must act. */
export const exitCodes: Readonly<Record<ErrorKind, number>> = {
  internal: 1,
  input: 2,
  'not-found': 3,
  denied: 4,
  conflict: 5,
  unavailable: 6,
  cancelled: 130,
}

/** As shells tell the end by a signal. */
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

function unexpected(thrown: unknown, showsStack: boolean): AppError {
  const text = thrown instanceof Error ? thrown.message : String(thrown)
  const stack = showsStack && thrown instanceof Error && thrown.stack !== undefined ? `\n${thrown.stack}` : ''
  const next = stack === '' ? ' With --log-level debug it says where; report that.' : ''
  return new AppError('ERR_INTERNAL', `Something failed inside Castellan: ${text.split('\n')[0]}.${next}${stack}`)
}

/** The message tells the first of several problems; the reader wants the others too. */
function problemsIn({ errors }: Readonly<Record<string, unknown>>): string {
  if (!Array.isArray(errors) || errors.length < 2) return ''
  const lines = errors.filter((one): one is string => typeof one === 'string')
  return lines.map((line) => `  - ${harmless(line).replaceAll('\n', ' ')}\n`).join('')
}

/** Details in which an error carries the end of what a program printed. */
const outputDetails = ['stdout_tail', 'stderr_tail', 'git_output'] as const

/** Whatever else a terminal obeys, or that turns the direction of text: others wrote what is shown here. */
const OBEYED = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

export const harmless = (text: string): string => text.replaceAll('\r\n', '\n').replace(OBEYED, '\ufffd')

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

/** Columns as wide as their widest cell, two spaces apart. */
export function textTable(rows: readonly (readonly string[])[], indent = ''): string {
  const widths: number[] = []
  for (const row of rows)
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, cell.length)
  return rows
    .map((row) => row.map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index]!))).join('  '))
    .map((line) => `${indent}${line.trimEnd()}\n`)
    .join('')
}
