import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { runProgram } from './app/commands/run-program.ts'
import { createTerminal, reportLost, signalExitCode } from './cli/terminal.ts'
import { systemClock } from './kernel/clock.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }

let isInterrupted = false
const terminal = createTerminal({
  out: process.stdout,
  error: process.stderr,
  clock: systemClock,
  noColor: (process.env['NO_COLOR'] ?? '') !== '' || process.env['TERM'] === 'dumb',
})
// Whether everything was written is asked at the end. A log that nobody reads any more ends nothing.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
process.exitCode = await runProgram(process.argv.slice(2), {
  terminal,
  env: process.env,
  workingDirectory: process.cwd(),
  version,
  program: fileURLToPath(new URL('../bin/castellan', import.meta.url)),
  // To read one of these properties opens the stream.
  get stdin() {
    return process.stdin
  },
  get stdout() {
    return process.stdout
  },
  ended: endSignal,
})
// A pipe takes only so much at a time, and what it has not taken would be lost. A process that was told to end does not wait.
if (!isInterrupted) await Promise.all([process.stdout, process.stderr].map(taken))
if (!isInterrupted && process.exitCode === 0) process.exitCode = reportLost(terminal, process.stdout.errored)
// Sockets of others may still hold the event loop.
process.exit()

/** Resolves once everything is with the reader, or the reader is gone. */
function taken(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    if (stream.writableLength === 0) resolve()
    else stream.once('error', () => resolve()).write('', () => resolve())
  })
}

function endSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(signal, () => {
        // A second signal means now, whichever it is.
        if (isInterrupted) process.exit(signalExitCode(signal))
        isInterrupted = true
        resolve(signal)
      })
    }
  })
}
