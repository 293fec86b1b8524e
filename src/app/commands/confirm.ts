import { createInterface } from 'node:readline/promises'
import { AppError } from '../../contract/app-error.ts'
import type { CommandContext } from './context.ts'

export const yesFlag = { type: 'boolean', description: 'Do not ask at a terminal.' } as const

/**
 * Asks a person at a terminal before something that cannot be undone, and throws unless they agree. A script is not asked, and
 * neither is who passed --yes.
 */
export async function requireAgreement(context: CommandContext, question: string): Promise<void> {
  const { parsed, stdin, terminal } = context
  if (parsed.isSet('yes') || (stdin as Readonly<{ isTTY?: boolean }>).isTTY !== true) return
  terminal.error(`${question} [y/N] `)
  const lines = createInterface({ input: stdin })
  // Without a line the input has ended, or the person pressed Ctrl-C.
  void context.ended.then(() => lines.close())
  let answer = ''
  for await (const line of lines) {
    answer = line
    break
  }
  if (/^y(?:es)?$/i.test(answer.trim())) return
  throw new AppError('ERR_CANCELLED', 'Nothing was changed.')
}
