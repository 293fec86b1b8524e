import { outputFlags, remoteFlags } from '../../cli/command.ts'
import { AppError } from '../../contract/app-error.ts'
import { createHttpClient } from '../remote/http-client.ts'
import { listLogins, readLogin, removeLogin } from '../remote/logins.ts'
import { readAuthorities } from '../remote/remote-server.ts'
import { withLoginLock } from '../remote/renew-login.ts'
import { revokeLogin } from '../remote/revoke-login.ts'
import { parseAddress } from '../remote/server-address.ts'
import { type Command, type CommandContext, printJson } from './context.ts'
import { remoteChoice } from './remote-choice.ts'

const { url, ca, 'allow-plain-http': allowPlainHttp } = remoteFlags

const spec = {
  name: 'logout',
  summary: 'End a sign-in to a server elsewhere.',
  description:
    'End the sign-in to the server that --url or CASTELLAN_URL names, there and here. If neither is set and there is only one sign-in, end that one. --all ends all of them.',
  flags: {
    all: { type: 'boolean', description: 'End every sign-in of this user.' },
    url,
    ca,
    'allow-plain-http': allowPlainHttp,
    ...outputFlags,
  },
  examples: ['castellan logout --url https://castellan.example', 'castellan logout --all'],
} as const

export const command: Command = { spec, run }

async function run(context: CommandContext): Promise<number> {
  const ended: string[] = []
  for (const resource of chosen(context)) {
    await end(context, resource)
    ended.push(resource)
  }
  if (context.json) printJson(context, { ended })
  else for (const resource of ended) context.terminal.out(`Signed out of ${resource}.\n`)
  return 0
}

function chosen(context: CommandContext): string[] {
  const { parsed, env } = context
  if (parsed.isSet('all') && parsed.text('url') !== undefined) {
    const message = '--all and --url cannot be combined: --all ends every sign-in. Leave one of them out.'
    throw new AppError('ERR_INVALID_INPUT', message, { field: 'url' })
  }
  if (parsed.isSet('all')) return listLogins(env).map(({ resource }) => resource)
  const choice = remoteChoice(context)
  if (choice !== undefined) return [parseAddress(choice.url, choice).resource]
  const logins = listLogins(env)
  if (logins.length === 1) return [logins[0]!.resource]
  const there = logins.map(({ resource }) => resource).join(', ')
  throw logins.length === 0
    ? new AppError('ERR_NOT_FOUND', 'There is no sign-in to end.')
    : new AppError('ERR_INVALID_INPUT', `--url is missing. Name the sign-in to end (${there}), or use --all.`, {
        field: 'url',
      })
}

/** The local sign-in always ends. If the server cannot be reached, the user is told. */
async function end(context: CommandContext, resource: string): Promise<void> {
  const { env, terminal } = context
  await withLoginLock(env, resource, async () => {
    const login = readLogin(env, resource)
    if (login === undefined) throw new AppError('ERR_NOT_FOUND', `There is no sign-in to ${resource}.`, { resource })
    try {
      const authorities = context.parsed.text('ca') ?? login.ca
      await revokeLogin(createHttpClient(authorities === undefined ? {} : { ca: readAuthorities(authorities) }), login)
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      terminal.error(`${error.message} The sign-in is removed here. To end it there too: castellan users revoke\n`)
    }
    removeLogin(env, resource)
  })
}
