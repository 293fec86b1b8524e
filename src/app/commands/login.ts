import { outputFlags, remoteFlags } from '../../cli/command.ts'
import { AppError } from '../../contract/app-error.ts'
import { URL_VARIABLE } from '../config-paths.ts'
import { createHttpClient } from '../remote/http-client.ts'
import { type Login, loginPath, readLogin, writeLogin } from '../remote/logins.ts'
import { openBrowser } from '../remote/open-browser.ts'
import { type RemoteChoice, readAuthorities } from '../remote/remote-server.ts'
import { withLoginLock } from '../remote/renew-login.ts'
import { revokeLogin } from '../remote/revoke-login.ts'
import { parseAddress } from '../remote/server-address.ts'
import { signIn } from '../remote/sign-in.ts'
import { signInByCode } from '../remote/sign-in-by-code.ts'
import { withClient } from './client.ts'
import { type Command, type CommandContext, printJson } from './context.ts'
import { remoteChoice } from './remote-choice.ts'

const { key: _, ...flags } = remoteFlags

const spec = {
  name: 'login',
  summary: 'Sign in to a server elsewhere.',
  description:
    'Sign in to the server that --url or CASTELLAN_URL names. A browser opens the page of the server, where you sign in and allow this program to act for you. On a machine without a browser, as over SSH, use --device: it prints a code to type on that page with a browser elsewhere. The sign-in is stored in a file that only you can read. Commands with --url or CASTELLAN_URL use it, unless there is an API key. castellan logout ends it.',
  flags: {
    'no-browser': { type: 'boolean', description: 'Only print the address; open it yourself, on this machine.' },
    device: {
      type: 'boolean',
      description: 'Print an address and a code, to be opened and typed in a browser on any machine.',
    },
    ...flags,
    ...outputFlags,
  },
  examples: [
    'castellan login --url https://castellan.example',
    'castellan login --url https://castellan.example --device',
    'castellan call whoami --url https://castellan.example',
  ],
} as const

export const command: Command = { spec, run }

async function run(context: CommandContext): Promise<number> {
  const { env, terminal } = context
  const choice = requireChoice(context)
  const address = parseAddress(choice.url, choice)
  const http = createHttpClient(choice.ca === undefined ? {} : { ca: readAuthorities(choice.ca) })
  const cancel = new AbortController()
  void context.ended.then(() => cancel.abort())
  const show = (url: string): void => {
    const isOpened = !context.parsed.isSet('no-browser') && openBrowser(url, env)
    const elsewhere = isOpened ? '' : 'It must be a browser on this machine. With one elsewhere, use --device.\n'
    terminal.error(`${isOpened ? 'If no browser opens, open' : 'Open'} this address to sign in:\n${url}\n${elsewhere}`)
  }
  const showCode = ({ url, code }: Readonly<{ url: string; code: string }>): void =>
    terminal.error(
      `Open this address in a browser, on any machine:\n${url}\nSign in there, and type this code:\n${code}\n`,
    )
  const { signal } = cancel
  const signedIn = context.parsed.isSet('device')
    ? await signInByCode({ http, address, show: showCode, signal })
    : await signIn({ http, address, show, signal })
  const login: Login = { ...signedIn, ...(choice.ca === undefined ? {} : { ca: choice.ca }) }
  const { resource } = address
  const former = await withLoginLock(env, resource, async () => {
    const before = readFormer(context, resource)
    await writeLogin(env, login)
    return before
  })
  // The former sign-in is no longer used; if the server cannot be reached now, it expires.
  if (former !== undefined) await revokeLogin(http, former).catch(() => {})
  const identity = await withClient({ ...context, env: { ...env, CASTELLAN_API_KEY: undefined } }, async (client) => {
    // A gateway need not have whoami. Its list shows that the sign-in works.
    if (!address.isGateway) return String((await client.callTool('whoami', {})).answer['agentName'])
    await client.listTools()
    return null
  })
  const file = loginPath(env, resource)
  if (context.json) printJson(context, { url: address.isGateway ? resource : address.origin, identity, file })
  else terminal.out(`Signed in to ${address.isGateway ? resource : `${address.origin} as ${identity}`}.\n`)
  return 0
}

/** An unreadable file is replaced; that is the purpose of signing in again. */
function readFormer({ env }: CommandContext, resource: string): Login | undefined {
  try {
    return readLogin(env, resource)
  } catch {
    return undefined
  }
}

function requireChoice(context: CommandContext): RemoteChoice {
  const choice = remoteChoice(context)
  if (choice !== undefined) return choice
  const message = `--url is missing. Name the server, such as --url https://castellan.example, or set ${URL_VARIABLE}. The state of this machine needs no sign-in.`
  throw new AppError('ERR_INVALID_INPUT', message, { field: 'url' })
}
