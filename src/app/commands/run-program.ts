import { commandHelp, parseCommand } from '../../cli/command.ts'
import { overview, unknownCommand } from '../../cli/overview.ts'
import { exitCodes, printError } from '../../cli/terminal.ts'
import { AppError } from '../../contract/app-error.ts'
import type { CommandContext } from './context.ts'
import { commands } from './index.ts'

/** The environment of the program. */
type ProgramContext = Omit<CommandContext, 'spec' | 'parsed' | 'json' | 'ended'> &
  Readonly<{
    /** Called only by a command that runs: from then on a signal no longer ends the process by itself. */
    ended(): Promise<NodeJS.Signals>
  }>

/** The whole program, with these arguments; returns the exit code. */
export async function runProgram(args: readonly string[], context: ProgramContext): Promise<number> {
  const { terminal, env, version } = context
  const [name, ...rest] = args
  const json = rest.includes('--json')
  try {
    if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
      const topic = name === 'help' ? rest[0] : undefined
      if (topic === undefined) terminal.out(overview(commands, version))
      else terminal.out(commandHelp((await findCommand(topic).load()).command.spec, rest[1], terminal.width))
      return name === undefined ? exitCodes.input : 0
    }
    if (name === '--version' || name === '-v') {
      terminal.out(`${version}\n`)
      return 0
    }
    const entry = await findCommandOrTool(name)
    const planned = env['CASTELLAN_FAULT']
    if (planned !== undefined) (await import('../fault-plan.ts')).planFaults(planned)
    const { command } = await entry.load()
    if (rest.includes('--help') || rest.includes('-h')) {
      const special = await command.help?.({ parsed: parseCommand(command.spec, rest), terminal })
      terminal.out(
        special ??
          commandHelp(
            command.spec,
            rest.find((word) => !word.startsWith('-')),
            terminal.width,
          ),
      )
      return 0
    }
    return await command.run({
      ...context,
      spec: command.spec,
      parsed: parseCommand(command.spec, rest, (flag) => command.unknownFlag?.(flag, rest)),
      json,
      ended: context.ended(),
    })
  } catch (error) {
    const isDebugging = rest.join(' ').includes('--log-level debug') || rest.includes('--log-level=debug')
    return printError(terminal, error, json, isDebugging)
  }
}

/** A person who takes a tool for a command is told how tools are called. */
async function findCommandOrTool(name: string): Promise<ReturnType<typeof findCommand>> {
  if (Object.hasOwn(commands, name)) return findCommand(name)
  const { preparedTools } = await import('../../tools/runtime/prepared-tools.ts')
  const tool = preparedTools().tools.find((one) => one.name === name || one.safeName === name)
  if (tool === undefined) return findCommand(name)
  const next = `castellan call ${tool.name}`
  throw new AppError('ERR_INVALID_INPUT', `'${tool.name}' is a tool, not a command. Call it with: ${next}`, {
    field: 'command',
  })
}

function findCommand(name: string): NonNullable<(typeof commands)[string]> {
  const entry = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (name.startsWith('-')) {
    const message = `${name}: flags come after the command, as in castellan call TOOL ${name}. castellan --help lists the commands.`
    throw new AppError('ERR_INVALID_INPUT', message, { field: 'command' })
  }
  if (entry === undefined) throw unknownCommand(name, Object.keys(commands))
  return entry
}
