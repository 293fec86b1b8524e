import { shellQuoted } from '../../cli/announcement.ts'
import { answerTable } from '../../cli/answer-table.ts'
import { clientFlags, requirePositional } from '../../cli/command.ts'
import type { McpClient } from '../../cli/mcp-client.ts'
import { exitCodes, printError, signalExitCode } from '../../cli/terminal.ts'
import { AppError } from '../../contract/app-error.ts'
import { pause } from '../../kernel/pause.ts'
import { statedFailure } from '../../tools/runtime/stated-failure.ts'
import { type FieldSchemas, fieldsIn, knownFields, readArguments } from './call-arguments.ts'
import { type ClientState, withClient } from './client.ts'
import { type Command, type CommandContext, printJson } from './context.ts'
import { preparedTool } from './prepared-tool.ts'

const spec = {
  name: 'call',
  positionals: 'NAME [key=value…]',
  positionalsMax: Number.POSITIVE_INFINITY,
  summary: 'Call a tool and print its answer.',
  description:
    'Call a tool and print its answer as JSON; at a terminal a list is a table, unless you pass --json. Pass arguments as --args JSON or as key=value. If the parameter is a string, the value is used as written. Otherwise it is parsed as JSON (a number, true, a list). key=@FILE reads the value from a file, key=@- from standard input, and key=@@text is a string that begins with @. The exit code says whether the call succeeded; an answer such as `deployed: false` counts as a failure. If a command that exec ran fails, the call still succeeds; --exit-code exits with the exit_code of that command. Ctrl-C or SIGTERM cancels the call; a second one exits at once.',
  flags: {
    args: {
      type: 'string',
      value: 'JSON',
      description: 'All arguments as one JSON object; - reads it from standard input.',
    },
    wait: { type: 'boolean', description: 'Wait until the run that the call starts has ended, and print its outcome.' },
    'exit-code': { type: 'boolean', description: 'Exit with the exit_code of the answer, such as that of exec.' },
    ...clientFlags,
  },
  examples: [
    'castellan call task_create title="Write the docs" project=castellan priority=high',
    `castellan call exec workspace_id=box command='make test' --exit-code`,
    'castellan call aegis.agent.create manifest_yaml=@agent.yaml',
    'castellan call aegis.task.execute agent_id=writer --wait',
    `castellan call task_list --args '{"status":["todo"]}'`,
  ],
} as const

export const command: Command = { spec, run, help, unknownFlag }

/** For one tool, its parameters: a user who knows its name wants those. */
async function help({ parsed, terminal }: Parameters<NonNullable<Command['help']>>[0]): Promise<string | undefined> {
  const name = parsed.positionals[0]
  if (name === undefined) return undefined
  const { toolHelp } = await import('./tools.ts')
  const { preparedTools } = await import('../../tools/runtime/prepared-tools.ts')
  return `${toolHelp({ terminal }, preparedTools(), name)}\nHow to pass arguments, and the flags: castellan call --help\n`
}

/** A parameter that is written as a flag. */
function unknownFlag(flag: string, words: readonly string[]): string | undefined {
  const tool = words.find((word) => !word.startsWith('-')) ?? ''
  const field = flag.replaceAll('-', '_')
  if (!Object.hasOwn(knownFields(tool) ?? {}, field)) return undefined
  const at = words.findIndex((word) => word === `--${flag}` || word.startsWith(`--${flag}=`))
  const [, written] = /^[^=]*=(.*)$/s.exec(words[at] ?? '') ?? []
  const value = written ?? (words[at + 1]?.startsWith('-') === false ? words[at + 1] : undefined)
  return `It is a parameter of ${tool}: write ${shellQuoted(`${field}=${value ?? '…'}`)}.`
}

async function run(context: CommandContext): Promise<number> {
  const cancel = new AbortController()
  let signal: NodeJS.Signals | undefined
  const interrupted = context.ended.then((received): never => {
    signal = received
    cancel.abort()
    throw new AppError('ERR_CANCELLED', 'The call was cancelled before it began.')
  })
  interrupted.catch(() => {})
  try {
    const code = await callTool(context, interrupted, cancel.signal)
    return signal === undefined ? code : signalExitCode(signal)
  } catch (error) {
    if (signal === undefined) throw error
    printError(context.terminal, error, context.json)
    return signalExitCode(signal)
  }
}

/**
 * `interrupted` rejects when the process is told to end; a call that has not started yet is then not made. `signal` cancels a
 * call in progress.
 */
async function callTool(context: CommandContext, interrupted: Promise<never>, signal: AbortSignal): Promise<number> {
  const name = requirePositional(context.parsed, 0, 'NAME', spec)
  const known = knownFields(name)
  const isWaiting = context.parsed.isSet('wait')
  if (isWaiting && beginsOf(name) === undefined) throw beginsNothing(name)
  const read = (fieldsOf: () => Promise<FieldSchemas>) => Promise.race([readArguments(context, fieldsOf), interrupted])
  const early = known && (await read(async () => known))
  // Its answer says which logs were halted, and why.
  const problems = name === 'log_recover' ? 'in-answer' : 'print'
  const { answer, isError } = await withClient(
    context,
    async (client, state) => {
      const args = early ?? (await read(() => listedFields(client, name)))
      const first = await client.callTool(name, args, signal)
      const started = runStartedBy(name, first.answer)
      if (started === undefined || !isWaiting) {
        tell(context, first.warnings)
        // The process that owns the state runs its runs, and this process ends now.
        if (started !== undefined && state.ownsState()) context.terminal.error(goesOnLater(started))
        return first
      }
      tell(context, [...first.warnings, `Started ${started.id}.`])
      return { answer: await waitFor(context, { client, state }, started, signal), isError: false }
    },
    problems,
  )
  printAnswer(context, answer)
  if (context.parsed.isSet('exit-code')) return exitCodeIn(answer)
  if (isWaiting) return answer['status'] === 'completed' ? 0 : 1
  const failure = statedFailure(preparedTool(name)?.definition ?? {}, answer)
  return failure !== undefined ? exitCodes[failure] : isError ? exitCodes.conflict : 0
}

/** The schema that the server lists for a tool that this program does not know; empty for an unknown tool. */
async function listedFields(client: McpClient, name: string): Promise<FieldSchemas> {
  const tool = (await client.listTools()).find((listed) => listed.name === name)
  return tool === undefined ? {} : fieldsIn(tool.inputSchema)
}

/** At a terminal a list is printed as a table; one thing is printed as JSON, in the order of its fields. */
function printAnswer(context: CommandContext, answer: Record<string, unknown>): void {
  const { width } = context.terminal
  const table = context.json || width === undefined ? undefined : answerTable(answer, width)
  if (table === undefined) printJson(context, answer)
  else context.terminal.out(table)
}

type StartedRun = Readonly<{ id: string; waitTool: string }>

/** The definition is looked up only for an answer that names something. */
function runStartedBy(tool: string, answer: Record<string, unknown>): StartedRun | undefined {
  if (answer['execution_id'] === undefined && answer['pipeline_execution_id'] === undefined) return undefined
  const begins = beginsOf(tool)
  return begins && { id: String(answer[begins.field]), waitTool: begins.waitTool }
}

const beginsOf = (tool: string) => preparedTool(tool)?.definition.begins

/** One call waits for less than a minute; the run's progress is shown meanwhile. */
async function waitFor(
  context: CommandContext,
  { client, state }: Readonly<{ client: McpClient; state: ClientState }>,
  { id, waitTool }: StartedRun,
  signal: AbortSignal,
): Promise<Record<string, unknown>> {
  const request = { execution_id: id, timeout_seconds: WAIT_SECS }
  let current: McpClient | undefined = client
  while (!signal.aborted) {
    try {
      current ??= await state.connect()
      const waited = await current.callTool(waitTool, request, signal)
      tell(context, waited.warnings)
      if (waited.answer['timed_out'] !== true) return waited.answer
    } catch (error) {
      if (!hasOwnerEnded(error)) throw error
      // Waiting again changes nothing, and needs a connection to the process that owns the state now.
      current?.close()
      current = undefined
      await pause(RETRY_MS, signal).catch(() => {})
    }
  }
  throw new AppError('ERR_CANCELLED', `The wait was cancelled. The run ${id} continues while a server runs.`)
}

const WAIT_SECS = 3_600
const RETRY_MS = 200

const hasOwnerEnded = (error: unknown): boolean =>
  error instanceof AppError && ['ERR_SHUTTING_DOWN', 'ERR_OWNER_LOST'].includes(error.code)

function tell({ terminal }: CommandContext, warnings: readonly string[]): void {
  for (const warning of warnings) terminal.error(`${warning}\n`)
}

const goesOnLater = ({ id }: StartedRun): string =>
  `The run ${id} has started, and continues only while a server runs. Start one with castellan serve, or pass --wait to wait here until the run ends.\n`

const beginsNothing = (tool: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `--wait: ${tool} starts no run to wait for. Leave the flag out.`, {
    field: 'wait',
  })

/** The exit code in the answer; an answer without one is refused, since it would look like success. */
function exitCodeIn({ exit_code: code }: Record<string, unknown>): number {
  if (typeof code === 'number') return code >= 0 && code <= 255 ? code : 1
  throw new AppError('ERR_INVALID_INPUT', '--exit-code: the answer has no exit_code. Leave the flag out.', {
    field: 'exit-code',
  })
}
