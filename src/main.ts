import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { commands } from './app/commands/index.ts'
import { commandHelp, parseCommand } from './cli/command.ts'
import { overview, unknownCommand } from './cli/overview.ts'
import { createTerminal, exitCodes, printError, signalExitCode } from './cli/terminal.ts'
import { systemClock } from './kernel/clock.ts'

const version = (JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string })
  .version
const terminal = createTerminal({
  out: process.stdout,
  error: process.stderr,
  clock: systemClock,
  noColor: (process.env['NO_COLOR'] ?? '') !== '' || process.env['TERM'] === 'dumb',
})

let isAsked = false
process.exitCode = await main(process.argv.slice(2))
// A pipe takes only so much at a time, and what it has not taken would be lost. A process that was told to end does not wait.
if (!isAsked) await Promise.all([process.stdout, process.stderr].map(taken))
// Sockets of others may still hold the event loop.
process.exit()

/** Resolves once everything is with the reader, or the reader is gone. */
function taken(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    if (stream.writableLength === 0) resolve()
    else stream.once('error', () => resolve()).write('', () => resolve())
  })
}

async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args
  const json = rest.includes('--json')
  try {
    if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
      const topic = name === 'help' ? rest[0] : undefined
      if (topic === undefined) terminal.out(overview(commands, version))
      else terminal.out(commandHelp((await findCommand(topic).load()).command.spec))
      return name === undefined ? exitCodes.input : 0
    }
    if (name === '--version' || name === '-v') {
      terminal.out(`${version}\n`)
      return 0
    }
    const entry = findCommand(name)
    const planned = process.env['CASTELLAN_FAULT']
    if (planned !== undefined) (await import('./app/fault-plan.ts')).planFaults(planned)
    const { command } = await entry.load()
    if (rest.includes('--help') || rest.includes('-h')) {
      const special = await command.help?.({ parsed: parseCommand(command.spec, rest), terminal })
      terminal.out(special ?? commandHelp(command.spec))
      return 0
    }
    return await command.run({
      spec: command.spec,
      parsed: parseCommand(command.spec, rest),
      terminal,
      json,
      env: process.env,
      workingDirectory: process.cwd(),
      version,
      program: fileURLToPath(new URL('../bin/castellan', import.meta.url)),
      stdin: process.stdin,
      stdout: process.stdout,
      ended: endSignal(),
    })
  } catch (error) {
    const isDebugging = rest.join(' ').includes('--log-level debug') || rest.includes('--log-level=debug')
    return printError(terminal, error, json, isDebugging)
  }
}

function findCommand(name: string): NonNullable<(typeof commands)[string]> {
  const entry = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (entry === undefined) throw unknownCommand(name, Object.keys(commands))
  return entry
}

function endSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(signal, () => {
        // A second signal means now, whichever it is.
        if (isAsked) process.exit(signalExitCode(signal))
        isAsked = true
        resolve(signal)
      })
    }
  })
}
