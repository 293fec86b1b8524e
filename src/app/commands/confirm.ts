import type { Readable } from 'node:stream'
import { AppError } from '../../contract/app-error.ts'
import type { CommandContext } from './context.ts'

export const yesFlag = { type: 'boolean', description: 'Do not ask at a terminal.' } as const

/** Whether a person at a terminal is asked before something that cannot be undone. */
export const isConfirming = ({ parsed, stdin }: Pick<CommandContext, 'parsed' | 'stdin'>): boolean =>
  !parsed.isSet('yes') && (stdin as Readonly<{ isTTY?: boolean }>).isTTY === true

/**
 * Asks a person at a terminal before something that cannot be undone, and throws unless the person agrees. A script, and a
 * command with --yes, is not asked.
 */
export async function requireAgreement(context: CommandContext, question: string): Promise<void> {
  const { stdin, terminal } = context
  if (!isConfirming(context)) return
  terminal.error(`${question} [y/N] `)
  // Without a line the input has ended, or the person pressed Ctrl-C.
  const answer = await Promise.race([firstLine(stdin), context.ended.then(() => '')])
  if (/^y(?:es)?$/i.test(answer.trim())) return
  throw new AppError('ERR_CANCELLED', 'Nothing was changed.')
}

async function firstLine(input: Readable): Promise<string> {
  let typed = ''
  for await (const piece of input) {
    typed += String(piece)
    if (typed.includes('\n')) break
  }
  return typed.split('\n', 1)[0]!
}
