import { existsSync, realpathSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { shellQuoted } from '../../cli/announcement.ts'
import { clientFlags, requirePositional } from '../../cli/command.ts'
import type { McpClient } from '../../cli/mcp-client.ts'
import { AppError } from '../../contract/app-error.ts'
import { counted } from '../../kernel/counted.ts'
import { withClient } from './client.ts'
import { type Command, type CommandContext, pathOf, printJson } from './context.ts'
import { logPages } from './log-pages.ts'

const spec = {
  name: 'export',
  positionals: 'FILE',
  positionalsMax: 1,
  summary: 'Write the log to a file that anyone can verify.',
  description:
    'Write the whole log, with a signed checkpoint, to FILE (- for standard output). `castellan verify FILE --key KEY` proves it without the server.',
  flags: clientFlags,
  examples: ['castellan export log.jsonl'],
} as const

export const command: Command = { spec, run }

async function run(context: CommandContext): Promise<number> {
  const file = requirePositional(context.parsed, 0, 'FILE', spec)
  const summary = await withClient(context, (client) => writeFile(context, client, file))
  if (file === '-') return 0
  if (context.json) printJson(context, { file, ...summary })
  else {
    context.terminal.out(`${counted(summary.entries, 'entry', 'entries')} in ${file}\n`)
    context.terminal.out(`Verify with: ${callable(context)} verify ${shellQuoted(file)} --key '${summary.key}'\n`)
  }
  return 0
}

/** How this program is called here: by its name only if the shell finds it. */
function callable({ program, env }: CommandContext): string {
  const isThis = (folder: string): boolean => {
    const path = join(folder, 'castellan')
    return existsSync(path) && realpathSync(path) === realpathSync(program)
  }
  const folders = (env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '')
  return folders.some(isThis) ? 'castellan' : shellQuoted(program)
}

type Summary = Readonly<{ entries: number; key: string }>

/** The former content of the file is replaced only once there is new content. */
async function writeFile(context: CommandContext, client: McpClient, file: string): Promise<Summary> {
  if (file === '-') {
    return await writeLog(context, client, async (text) => {
      context.terminal.data(text)
      const { errored } = context.stdout
      if (errored === null) return true
      if ((errored as NodeJS.ErrnoException).code !== 'EPIPE') throw notWritten('to standard output', errored)
      return false
    })
  }
  let output: FileHandle | undefined
  try {
    return await writeLog(context, client, async (text) => {
      output ??= await openOutput(context, file)
      await output.appendFile(text).catch((cause: unknown) => {
        throw notWritten(file, cause)
      })
      return true
    })
  } finally {
    await output?.close()
  }
}

const unwritable: Readonly<Record<string, string>> = {
  ENOENT: 'its folder does not exist. Create the folder first, or choose another.',
  ENOTDIR: 'its folder is a file. Choose another.',
  EISDIR: 'it is a folder. Name a file in it.',
  ENOSPC: 'its disk is full. Free space there, or choose another folder.',
  EACCES: 'you may not write there. Choose another folder.',
}

async function openOutput(context: CommandContext, file: string): Promise<FileHandle> {
  try {
    return await open(pathOf(context, file), 'w', 0o600)
  } catch (cause) {
    throw notWritten(file, cause)
  }
}

function notWritten(file: string, cause: unknown): AppError {
  const { code = '' } = cause as NodeJS.ErrnoException
  const reason = unwritable[code] ?? `the system refuses it (${code}).`
  const error = code === 'ENOSPC' ? 'ERR_DISK_FULL' : 'ERR_INVALID_INPUT'
  return new AppError(error, `Cannot write ${file}: ${reason}`, { field: 'FILE' }, { cause })
}

/** `write` answers whether anybody reads what comes next. */
async function writeLog(
  { terminal }: CommandContext,
  client: McpClient,
  write: (text: string) => Promise<boolean>,
): Promise<Summary> {
  let summary: Summary = { entries: 0, key: '' }
  for await (const { text, entries, size, key } of logPages(client)) {
    if (!(await write(text))) break
    summary = { entries: size, key }
    if (entries < size) terminal.progress(`${entries} of ${size} entries`)
  }
  terminal.progressDone()
  return summary
}
