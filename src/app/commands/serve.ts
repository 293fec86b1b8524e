import { createServer, isIPv6 } from 'node:net'
import { hostname, networkInterfaces } from 'node:os'
import { resolve } from 'node:path'
import { announcementText, shellQuoted } from '../../cli/announcement.ts'
import { commonFlags, zaruModeFlag } from '../../cli/command.ts'
import { AppError } from '../../contract/app-error.ts'
import { isLoopbackHost } from '../../http/peer-address.ts'
import { type Config, exposureOfConfig, type LoadedConfig } from '../config.ts'
import { createHttpRelay } from '../ownership/http-relay.ts'
import { connectCommandClient } from './client.ts'
import { type Command, type CommandContext, type OpenedState, openCommandState } from './context.ts'

export const command: Command = {
  spec: {
    name: 'serve',
    summary: 'Start the server: MCP over HTTP, REST and health.',
    flags: {
      host: { type: 'string', value: 'HOST', description: 'Address to listen on (127.0.0.1).' },
      port: { type: 'string', value: 'PORT', description: 'Port to listen on (7433); 0 takes a free one.' },
      tools: { type: 'string', value: 'WHICH', description: 'default, full, or names of toolsets and tools.' },
      'zaru-mode': zaruModeFlag,
      ...commonFlags,
    },
    examples: ['castellan serve', 'castellan serve --port 8080 --data-dir ~/castellan'],
  },
  run,
}

async function run(context: CommandContext): Promise<number> {
  const opened = await openCommandState(context)
  const { state, logger, failed } = opened
  const { config } = opened.loaded
  try {
    await Promise.race([state.local()?.app.ready ?? Promise.resolve(), failed])
    const requireKeys = config.require_keys || !isLoopbackHost(config.host)
    if (requireKeys) await requireIdentity(context, opened)
    const listener = createServer(
      { allowHalfOpen: true, pauseOnConnect: true, noDelay: true },
      createHttpRelay({ attachment: state.attachment, logger, requireKeys, tools: exposureOfConfig(config) }),
    )
    const port = await listen(listener, config)
    announce(context, opened, port, requireKeys)
    const signal = await Promise.race([context.ended, failed])
    logger.info('ending', { signal })
    listener.close()
    return 0
  } finally {
    await state.attachment.close()
  }
}

function listen(listener: ReturnType<typeof createServer>, config: Config): Promise<number> {
  return new Promise((resolve, reject) => {
    listener.once('error', (cause: NodeJS.ErrnoException) => {
      const next =
        cause.code === 'EADDRINUSE'
          ? 'Another program uses it, perhaps another castellan serve: choose another with --port.'
          : cause.message
      const where = `${config.host}:${config.port}`
      reject(new AppError('ERR_INIT_FAILED', `Cannot listen on ${where}. ${next}`, { field: 'port' }, { cause }))
    })
    listener.listen(config.port, config.host, () => {
      const address = listener.address()
      resolve(typeof address === 'object' && address !== null ? address.port : config.port)
    })
  })
}

/** Without the local owner, whoever comes is a stranger until a key says otherwise; without keys nobody could use it. */
async function requireIdentity(context: CommandContext, opened: OpenedState): Promise<void> {
  const client = await connectCommandClient(context, opened)
  const { answer } = await client.callTool('api_key_list', {})
  client.close()
  const keys = answer['keys'] as { status: string }[]
  if (keys.some((key) => key.status === 'live')) return
  const next = 'Create a key first: castellan keys create NAME'
  if (!isLoopbackHost(opened.loaded.config.host)) {
    throw new AppError(
      'ERR_CONFIG_INVALID',
      `'host' is not a loopback address and no API key is live: everybody could reach the server and nobody could use it. ${next}`,
      { field: 'host', rule: 'a non-loopback address needs API keys' },
    )
  }
  throw new AppError(
    'ERR_CONFIG_INVALID',
    `'require_keys' is on and no API key is live: nobody could use the server. ${next}`,
    { field: 'require_keys', rule: 'needs an API key' },
  )
}

function announce(context: CommandContext, { state, loaded }: OpenedState, port: number, requireKeys: boolean): void {
  const { config } = loaded
  const isEverywhere = WILDCARDS.includes(config.host)
  const origin = originOf(isEverywhere ? 'localhost' : config.host, port)
  const otherOrigins = isEverywhere ? machineNames(config).map((name) => originOf(name, port)) : []
  const { terminal } = context
  if (context.json) {
    const owner_pid = state.attachment.ownerPid()
    const other_urls = otherOrigins.map((other) => `${other}/mcp`)
    terminal.out(`${JSON.stringify({ url: `${origin}/mcp`, port, pid: process.pid, owner_pid, other_urls })}\n`)
    return
  }
  terminal.out(
    announcementText({
      title: terminal.style('bold', 'Castellan'),
      version: context.version,
      mode: config.mode,
      origin,
      otherOrigins,
      state: config.database_url === undefined ? config.data_dir : 'PostgreSQL',
      requireKeys,
      stdioCommand: stdioCommand(context, loaded),
    }),
  )
}

const WILDCARDS: readonly string[] = ['0.0.0.0', '::', '[::]']

const originOf = (host: string, port: number): string => `http://${isIPv6(host) ? `[${host}]` : host}:${port}`

/** What others may call a server that listens on every address: the names it answers to, and the machine's addresses. */
function machineNames(config: Config): string[] {
  const names = config.allowed_hosts.length > 0 ? config.allowed_hosts.map((host) => host.split(':')[0]!) : [hostname()]
  const addresses = Object.values(networkInterfaces())
    .flatMap((found) => found ?? [])
    .filter(({ internal, family }) => !internal && (family === 'IPv4' || config.host !== '0.0.0.0'))
    .map(({ address }) => address)
    .filter((address) => !address.startsWith('fe80:'))
  return [...new Set([...names, ...addresses])]
}

/** The same state for a client that starts its server itself. A database URL is secret: it has to come from elsewhere. */
function stdioCommand({ program, parsed }: CommandContext, { config, sources }: LoadedConfig): string {
  const file = parsed.text('config')
  const isElsewhere = (sources.get('data_dir') ?? 'default') !== 'default'
  const args = [
    program,
    'mcp',
    ...(file === undefined ? [] : ['--config', resolve(file)]),
    ...(isElsewhere ? ['--data-dir', config.data_dir] : []),
  ]
  return args.map(shellQuoted).join(' ')
}
