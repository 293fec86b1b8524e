import { createServer, isIP, isIPv6, type Server } from 'node:net'
import { hostname, networkInterfaces } from 'node:os'
import { announcementText, shellQuoted } from '../../cli/announcement.ts'
import { commonFlags, zaruModeFlag } from '../../cli/command.ts'
import { AppError } from '../../contract/app-error.ts'
import { isLoopbackHost } from '../../http/peer-address.ts'
import { type Config, demandsKeys, exposureOfConfig, type LoadedConfig } from '../config.ts'
import { linkOrigin } from '../link-origin.ts'
import { createHttpRelay } from '../ownership/http-relay.ts'
import { connectCommandClient } from './client.ts'
import { type Command, type CommandContext, type OpenedState, openCommandState, pathOf } from './context.ts'

export const command: Command = {
  spec: {
    name: 'serve',
    summary: 'Start the server: MCP over HTTP, REST and health.',
    onlyHere:
      'serve starts a server on this machine. To connect a client to a server elsewhere, use castellan mcp --url URL; to set the address that clients use, --public-url',
    flags: {
      host: { type: 'string', value: 'HOST', description: 'Address to listen on (127.0.0.1).' },
      port: { type: 'string', value: 'PORT', description: 'Port to listen on (7433); 0 chooses a free port.' },
      'tls-cert': { type: 'string', value: 'FILE', description: 'Serve TLS with this certificate (PEM).' },
      'tls-key': { type: 'string', value: 'FILE', description: 'Private key of the certificate (PEM).' },
      'public-url': { type: 'string', value: 'URL', description: 'URL that clients use to reach the server.' },
      tools: { type: 'string', value: 'WHICH', description: 'default, full, or names of toolsets and tools.' },
      'zaru-mode': zaruModeFlag,
      ...commonFlags,
    },
    examples: [
      'castellan serve',
      'castellan serve --port 8080 --data-dir ~/castellan',
      'castellan serve --host 0.0.0.0 --tls-cert server.pem --tls-key server.key',
    ],
  },
  run,
}

async function run(context: CommandContext): Promise<number> {
  const opened = await openCommandState(context)
  const { state, logger, failed } = opened
  const { config } = opened.loaded
  try {
    await Promise.race([state.local()?.app.ready ?? Promise.resolve(), failed])
    const requireKeys = demandsKeys(config) || !isLoopbackHost(config.host)
    if (requireKeys) {
      await requireAddress(config)
      await requireIdentity(context, opened)
    }
    const listener = await createListener(opened, requireKeys)
    const port = await listen(listener, config)
    opened.listening.origin = linkOrigin({ ...config, port })
    await announce(context, opened, port, requireKeys)
    const signal = await Promise.race([context.ended, failed])
    logger.info('ending', { signal })
    listener.close()
    return 0
  } finally {
    await state.attachment.close()
  }
}

async function createListener({ state, logger, loaded }: OpenedState, requireKeys: boolean): Promise<Server> {
  const { config } = loaded
  const { tls_cert: cert, tls_key: key } = config
  const isSecure = cert !== undefined && key !== undefined
  const tools = exposureOfConfig(config)
  const serveHttp = createHttpRelay({ attachment: state.attachment, logger, requireKeys, isSecure, tools })
  if (!isSecure) return createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, serveHttp)
  const { createTlsListener } = await import('../tls-listener.ts')
  return createTlsListener({ cert, key }, logger, serveHttp)
}

function listen(listener: Server, config: Config): Promise<number> {
  return new Promise((resolve, reject) => {
    listener.once('error', (cause: NodeJS.ErrnoException) => {
      const next =
        cause.code === 'EADDRINUSE'
          ? 'Another program uses it, perhaps another castellan serve. Choose another port with --port.'
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

/** A name that cannot be resolved is refused before any advice on keys, which would not help. */
async function requireAddress({ host }: Config): Promise<void> {
  const bare = host.replace(/^\[(.*)\]$/, '$1')
  if (isIP(bare) !== 0) return
  const problem = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
    const probe = createServer().once('error', resolve)
    probe.listen(0, bare, () => probe.close(() => resolve(undefined)))
  })
  if (problem?.code !== 'ENOTFOUND' && problem?.code !== 'EAI_AGAIN') return
  const message = `'host': '${host}' is neither an IP address nor a name that this machine can resolve. Use 127.0.0.1 for this machine alone, or 0.0.0.0 for all its addresses.`
  const details = { field: 'host', rule: 'an address or a known name' }
  throw new AppError('ERR_CONFIG_INVALID', message, details, { cause: problem })
}

/** Without the local owner, a caller is untrusted until it shows a key; without keys nobody could use the server. */
async function requireIdentity(context: CommandContext, opened: OpenedState): Promise<void> {
  const client = await connectCommandClient(context, opened)
  const keys = (await client.callTool('api_key_list', {})).answer['keys'] as { status: string }[]
  const users = (await client.callTool('user_list', {})).answer['users'] as unknown[]
  client.close()
  const hasPeople = users.length > 0 || opened.loaded.config.oidc_providers.length > 0
  if (hasPeople) requireSecurePasswords(opened.loaded.config)
  if (hasPeople || keys.some((key) => key.status === 'live')) return
  const next = 'Create a key first: castellan keys create NAME; or a user: castellan users create EMAIL --admin'
  const { config } = opened.loaded
  if (isLoopbackHost(config.host) && demandsKeys(config) && !config.require_keys) {
    const field = config.trusted_proxies.length > 0 ? 'trusted_proxies' : 'public_url'
    throw new AppError(
      'ERR_CONFIG_INVALID',
      `'${field}' makes the server reachable for others, but there is no valid API key and no user, so nobody could use it. ${next}`,
      { field, rule: 'a server that others can reach needs API keys' },
    )
  }
  if (!isLoopbackHost(config.host)) {
    throw new AppError(
      'ERR_CONFIG_INVALID',
      `'host' is not a loopback address, but there is no valid API key and no user, so nobody could use the server. ${next}`,
      { field: 'host', rule: 'a non-loopback address needs API keys' },
    )
  }
  throw new AppError(
    'ERR_CONFIG_INVALID',
    `'require_keys' is true, but there is no valid API key and no user, so nobody could use the server. ${next}`,
    { field: 'require_keys', rule: 'needs an API key' },
  )
}

/** People send their passwords where they sign in; over plain HTTP others could read them. */
function requireSecurePasswords(config: Config): void {
  if (!isReadable(config) || config.allow_plain_http) return
  throw new AppError(
    'ERR_CONFIG_INVALID',
    "'host' is not a loopback address, so people would send their passwords over plain HTTP. Pass --tls-cert and --tls-key, list the proxy that speaks TLS in trusted_proxies, or set allow_plain_http: true.",
    { field: 'host', rule: 'people need TLS on a non-loopback address' },
  )
}

/** Whether others on the network can read what passes. */
const isReadable = ({ host, tls_cert, trusted_proxies }: Config): boolean =>
  !isLoopbackHost(host) && tls_cert === undefined && trusted_proxies.length === 0

async function announce(
  context: CommandContext,
  opened: OpenedState,
  port: number,
  requireKeys: boolean,
): Promise<void> {
  const { state, loaded } = opened
  const { config } = loaded
  const isEverywhere = WILDCARDS.includes(config.host)
  const scheme = config.tls_cert === undefined ? 'http' : 'https'
  const origin = originOf(scheme, isEverywhere ? 'localhost' : config.host, port)
  const others = isEverywhere ? machineNames(config).map((name) => originOf(scheme, name, port)) : []
  const otherOrigins = config.public_url === undefined ? others : [new URL(config.public_url).origin, ...others]
  const { terminal } = context
  if (context.json) {
    const owner_pid = state.attachment.ownerPid()
    const other_urls = otherOrigins.map((other) => `${other}/mcp`)
    terminal.out(`${JSON.stringify({ url: `${origin}/mcp`, port, pid: process.pid, owner_pid, other_urls })}\n`)
    return
  }
  const publicOrigin = config.public_url === undefined ? origin : new URL(config.public_url).origin
  const isBehind = publicOrigin !== origin
  terminal.out(
    announcementText({
      title: terminal.style('bold', 'Castellan'),
      version: context.version,
      mode: config.mode,
      origin: publicOrigin,
      otherOrigins: isBehind ? [] : others,
      listensAt: isBehind ? [origin, ...others] : [],
      isReadable: isReadable(config),
      state: config.database_url === undefined ? config.data_dir : 'PostgreSQL',
      requireKeys,
      hasPeople: await hasPeople(context, opened),
      stdioCommand: stdioCommand(context, loaded),
    }),
  )
}

/** Whether anybody could sign in. The process that owns the state knows. */
async function hasPeople(context: CommandContext, opened: OpenedState): Promise<boolean> {
  const { state, loaded } = opened
  const local = state.local()
  if (local !== undefined) return (await (await local.app.ready).people?.hasPeople()) ?? false
  if (loaded.config.oidc_providers.length > 0) return true
  const client = await connectCommandClient(context, opened)
  try {
    return ((await client.callTool('user_list', {})).answer['users'] as unknown[]).length > 0
  } catch {
    // It serves all the same; each call will say what is wrong.
    return false
  } finally {
    client.close()
  }
}

const WILDCARDS: readonly string[] = ['0.0.0.0', '::', '[::]']

const originOf = (scheme: string, host: string, port: number): string =>
  `${scheme}://${isIPv6(host) ? `[${host}]` : host}:${port}`

/** Names of a server that listens on every address: the names it answers to, and the machine's addresses. */
function machineNames(config: Config): string[] {
  const names = config.allowed_hosts.length > 0 ? config.allowed_hosts.map((host) => host.split(':')[0]!) : [hostname()]
  const addresses = Object.values(networkInterfaces())
    .flatMap((found) => found ?? [])
    .filter(({ internal, family }) => !internal && (family === 'IPv4' || config.host !== '0.0.0.0'))
    .map(({ address }) => address)
    .filter((address) => !address.startsWith('fe80:'))
  return [...new Set([...names, ...addresses])]
}

/** The same state for a client that starts its server itself. A database URL is secret, so it is omitted. */
function stdioCommand(context: CommandContext, { config, sources }: LoadedConfig): string {
  const file = context.parsed.text('config')
  const isElsewhere = (sources.get('data_dir') ?? 'default') !== 'default'
  const args = [
    context.program,
    'mcp',
    ...(file === undefined ? [] : ['--config', pathOf(context, file)]),
    ...(isElsewhere ? ['--data-dir', config.data_dir] : []),
  ]
  return args.map(shellQuoted).join(' ')
}
