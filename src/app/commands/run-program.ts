import { commandHelp, parseCommand } from '../../cli/command.ts'
import { overview, unknownCommand } from '../../cli/overview.ts'
import { exitCodes, printError } from '../../cli/terminal.ts'
import type { CommandContext } from './context.ts'
import { commands } from './index.ts'

/** What the program is run in. */
type ProgramContext = Omit<CommandContext, 'spec' | 'parsed' | 'json' | 'ended'> &
  Readonly<{
    /** Called only by a command that runs: from then on the process no longer ends at a signal by itself. */
    ended(): Promise<NodeJS.Signals>
  }>

/** The whole program, with these arguments; answers the exit code. */
export async function runProgram(args: readonly string[], context: ProgramContext): Promise<number> {
  const { terminal, env, version } = context
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
    const planned = env['CASTELLAN_FAULT']
    if (planned !== undefined) (await import('../fault-plan.ts')).planFaults(planned)
    const { command } = await entry.load()
    if (rest.includes('--help') || rest.includes('-h')) {
      const special = await command.help?.({ parsed: parseCommand(command.spec, rest), terminal })
      terminal.out(special ?? commandHelp(command.spec))
      return 0
    }
    return await command.run({
      ...context,
      spec: command.spec,
      parsed: parseCommand(command.spec, rest),
      json,
      ended: context.ended(),
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
