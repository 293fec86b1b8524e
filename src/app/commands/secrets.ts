import { clientFlags } from '../../cli/command.ts'
import { counted } from '../../kernel/counted.ts'
import { actionCommand, argumentOf, ask, printOutcome, printRows } from './action-command.ts'
import type { CommandContext } from './context.ts'

export const command = actionCommand({
  name: 'secrets',
  summary: 'List or delete secrets, or rotate the key that encrypts them.',
  flags: clientFlags,
  actions: {
    list: { summary: 'Show the secrets without their values.', run: list },
    delete: { arguments: 'ID', summary: 'Remove a secret to which nothing refers.', run: remove },
    rotate: { summary: 'Encrypt all secrets with a new key.', run: rotate },
  },
  examples: ['castellan secrets list', 'castellan secrets delete sec_…', 'castellan secrets rotate'],
})

async function list(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'secret_list')
  return printRows(context, answer, 'secrets', ['id', 'purpose', 'owner', 'entered', 'updated_at'])
}

async function remove(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'secret_delete', { id: argumentOf(context) })
  return printOutcome(context, answer, `The secret ${answer['id']} is deleted.`)
}

async function rotate(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'secret_rotate')
  printOutcome(
    context,
    answer,
    `${counted(Number(answer['rotated']), 'secret is', 'secrets are')} encrypted with the key ${answer['key']}.`,
  )
  return answer['unreadable'] === 0 ? 0 : 1
}
