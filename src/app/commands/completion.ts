import { commonFlags, requirePositional } from '../../cli/command.ts'
import { type CompletionSource, completionScript, completions, type Shell, shells } from '../../cli/completions.ts'
import { AppError } from '../../contract/app-error.ts'
import { preparedTools } from '../../tools/runtime/prepared-tools.ts'
import type { Command, CommandContext } from './context.ts'
import { commands } from './index.ts'

const spec = {
  name: 'completion',
  positionals: 'bash | zsh | fish',
  positionalsMax: Number.POSITIVE_INFINITY,
  summary: 'Print a script that lets a shell complete commands, tools and their fields.',
  description:
    'Print a script that lets a shell complete commands, flags, tools and the fields of tools. `completion words -- WORD…` prints the candidates for the last word, which is what the scripts ask.',
  flags: { json: commonFlags['json']!, help: commonFlags['help']! },
  examples: [
    'source <(castellan completion bash)    # in ~/.bashrc',
    'source <(castellan completion zsh)     # in ~/.zshrc, after compinit',
    'castellan completion fish > ~/.config/fish/completions/castellan.fish',
  ],
} as const

export const command: Command = { spec, run }

async function run({ parsed, terminal, json }: CommandContext): Promise<number> {
  const wanted = requirePositional(parsed, 0, 'bash|zsh|fish', spec)
  if (wanted === 'words') {
    const found = completions(await completionSource(), parsed.positionals.slice(1))
    terminal.out(json ? `${JSON.stringify(found)}\n` : found.map((word) => `${word}\n`).join(''))
    return 0
  }
  if (!isShell(wanted)) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      `'${wanted}' is no shell that can be completed. Use ${shells.join(', ')}.`,
      {
        field: 'SHELL',
        accepted: shells,
      },
    )
  }
  const script = completionScript(wanted)
  terminal.out(json ? `${JSON.stringify({ shell: wanted, script })}\n` : script)
  return 0
}

const isShell = (text: string): text is Shell => (shells as readonly string[]).includes(text)

type FieldSchema = Readonly<{ enum?: readonly unknown[]; type?: unknown }>

async function completionSource(): Promise<CompletionSource> {
  const specs = await Promise.all(
    Object.entries(commands).map(async ([name, { load }]) => [name, (await load()).command.spec] as const),
  )
  const { tools } = preparedTools()
  return {
    commands: Object.fromEntries(
      specs.map(([name, { flags, positionals = '' }]) => [
        name,
        { flags: Object.keys(flags).map((flag) => `--${flag}`), words: wordsIn(positionals) },
      ]),
    ),
    tools: Object.fromEntries(
      tools.map(({ name, listed }) => {
        const fields = Object.entries((listed.inputSchema['properties'] ?? {}) as Record<string, FieldSchema>)
        return [name, Object.fromEntries(fields.map(([key, schema]) => [key, valuesOf(schema)]))]
      }),
    ),
  }
}

/** The words of a usage line that are typed as they stand. */
const wordsIn = (positionals: string): string[] => positionals.match(/(?<=^|\| )[a-z]+/g) ?? []

const valuesOf = ({ enum: values, type }: FieldSchema): string[] =>
  type === 'boolean' ? ['true', 'false'] : (values ?? []).map(String)
