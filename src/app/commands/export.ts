import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { finished } from 'node:stream/promises'
import { commonFlags, requirePositional } from '../../cli/command.ts'
import { counted } from '../../cli/terminal.ts'
import { type Command, type CommandContext, printJson, withClient } from './context.ts'

const spec = {
  name: 'export',
  positionals: 'FILE',
  summary: 'Write the log to a file that anyone can verify.',
  description:
    'Write the whole log, with a signed checkpoint, to FILE (- for standard output). `castellan verify FILE --key KEY` proves it without the server.',
  flags: commonFlags,
  examples: ['castellan export log.jsonl'],
} as const

export const command: Command = { spec, run }

async function run(context: CommandContext): Promise<number> {
  const file = requirePositional(context.parsed, 0, 'FILE', spec)
  const summary = await withClient(context, async (client) => {
    const output = file === '-' ? undefined : createWriteStream(file, { mode: 0o600 })
    let size: number | undefined
    let key = ''
    for (let from: number | null = 0; from !== null; ) {
      const { answer } = await client.callTool('log_export', { from, ...(size === undefined ? {} : { size }) })
      const lines = answer['lines'] as string[]
      if (size === undefined) {
        size = answer['size'] as number
        key = (JSON.parse(lines[0]!) as { key: string }).key
      }
      const text = lines.map((line) => `${line}\n`).join('')
      if (output === undefined) context.terminal.out(text)
      else if (!output.write(text)) await once(output, 'drain')
      from = answer['next_from'] as number | null
      if (from !== null) context.terminal.progress(`${from} of ${size} entries`)
    }
    context.terminal.progressDone()
    if (output !== undefined) {
      output.end()
      await finished(output)
    }
    return { file, entries: size!, key }
  })
  if (file === '-') return 0
  if (context.json) printJson(context, summary)
  else {
    context.terminal.out(`${counted(summary.entries, 'entry', 'entries')} in ${file}\n`)
    context.terminal.out(`Verify with: castellan verify ${file} --key '${summary.key}'\n`)
  }
  return 0
}
