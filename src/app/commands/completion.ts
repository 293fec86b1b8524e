import { setTimeout } from 'node:timers/promises'
import { flagsOfAll, outputFlags, parseCommand, requirePositional } from '../../cli/command.ts'
import { type CompletionSource, completionScript, completions, type Shell, shells } from '../../cli/completions.ts'
import type { ListedToolView } from '../../cli/mcp-client.ts'
import { AppError } from '../../contract/app-error.ts'
import { preparedTools } from '../../tools/runtime/prepared-tools.ts'
import type { Command, CommandContext } from './context.ts'
import { commands } from './index.ts'
import { remoteChoice } from './remote-choice.ts'

const spec = {
  name: 'completion',
  onlyHere:
    'completion prints a script for this machine. The script itself asks the server that --url or CASTELLAN_URL names.',
  positionals: 'bash | zsh | fish',
  positionalsMax: Number.POSITIVE_INFINITY,
  summary: 'Print a script that lets a shell complete commands, tools and their fields.',
  description:
    'Print a script that lets a shell complete commands, flags, tools and the fields of tools. `completion words -- WORD…` prints the candidates for the last word; the scripts call it.',
  flags: outputFlags,
  examples: [
    'source <(castellan completion bash)    # in ~/.bashrc',
    'source <(castellan completion zsh)     # in ~/.zshrc, after compinit',
    'castellan completion fish > ~/.config/fish/completions/castellan.fish',
  ],
} as const

export const command: Command = { spec, run }

async function run(context: CommandContext): Promise<number> {
  const { parsed, terminal, json } = context
  const shell = requirePositional(parsed, 0, 'bash|zsh|fish', spec)
  if (shell === 'words') {
    const words = parsed.positionals.slice(1)
    const found = completions(await completionSource(context, words), words)
    terminal.out(json ? `${JSON.stringify(found)}\n` : found.map((word) => `${word}\n`).join(''))
    return 0
  }
  if (!isShell(shell)) {
    throw new AppError('ERR_INVALID_INPUT', `'${shell}' is not a supported shell. Use ${shells.join(', ')}.`, {
      field: 'SHELL',
      accepted: shells,
    })
  }
  const script = completionScript(shell)
  terminal.out(json ? `${JSON.stringify({ shell: shell, script })}\n` : script)
  return 0
}

const isShell = (text: string): text is Shell => (shells as readonly string[]).includes(text)

type FieldSchema = Readonly<{ enum?: readonly unknown[]; type?: unknown }>

async function completionSource(context: CommandContext, words: readonly string[]): Promise<CompletionSource> {
  const specs = await Promise.all(
    Object.entries(commands).map(async ([name, { load }]) => [name, (await load()).command.spec] as const),
  )
  const tools = (await remoteTools(context, words)) ?? preparedTools().tools.map(({ listed }) => listed)
  return {
    commands: Object.fromEntries(
      specs.map(([name, spec]) => [
        name,
        {
          flags: Object.keys(spec.flags).map((flag) => `--${flag}`),
          valued: Object.entries(flagsOfAll(spec)).flatMap(([flag, { type }]) =>
            type === 'string' ? [`--${flag}`] : [],
          ),
          words: Object.keys(spec.actions ?? {}),
          flagsOfWords: Object.fromEntries(
            Object.entries(spec.actions ?? {}).map(([action, { flags = {} }]) => [
              action,
              Object.keys(flags).map((flag) => `--${flag}`),
            ]),
          ),
        },
      ]),
    ),
    tools: Object.fromEntries(
      tools.map(({ name, inputSchema }) => {
        const fields = Object.entries((inputSchema['properties'] ?? {}) as Record<string, FieldSchema>)
        return [name, Object.fromEntries(fields.map(([key, schema]) => [key, valuesOf(schema)]))]
      }),
    ),
  }
}

/** A person waits for this, so a slow server is skipped, and the local definitions are used. */
const ASK_MS = 2_000

/** The tools of the remote server of the typed command; undefined for a local command, or without an answer. */
async function remoteTools(context: CommandContext, words: readonly string[]): Promise<ListedToolView[] | undefined> {
  const [name] = words
  if (name !== 'call' && name !== 'tools') return undefined
  try {
    const { spec } = (await commands[name]!.load()).command
    const commandContext = { ...context, spec, parsed: parseCommand(spec, words.slice(1, -1)) }
    if (remoteChoice(commandContext) === undefined) return undefined
    const { withClient } = await import('./client.ts')
    const listing = withClient(commandContext, (client) => client.listTools())
    return await Promise.race([listing, setTimeout(ASK_MS, undefined, { ref: false })])
  } catch {
    return undefined
  }
}

const valuesOf = ({ enum: values, type }: FieldSchema): string[] =>
  type === 'boolean' ? ['true', 'false'] : (values ?? []).map(String)
