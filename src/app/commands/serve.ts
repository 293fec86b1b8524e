import { createServer } from 'node:net'
import { commonFlags } from '../../cli/command.ts'
import { AppError } from '../../contract/app-error.ts'
import { isLoopbackHost } from '../../http/peer-address.ts'
import type { Config } from '../config.ts'
import { createHttpRelay } from '../ownership/http-relay.ts'
import type { State } from '../state.ts'
import {
  type Command,
  type CommandContext,
  connectCommandClient,
  type OpenedState,
  openCommandState,
} from './context.ts'

export const command: Command = {
  spec: {
    name: 'serve',
    summary: 'Start the server: MCP over HTTP, REST and health.',
    flags: {
      host: { type: 'string', value: 'HOST', description: 'Address to listen on (127.0.0.1).' },
      port: { type: 'string', value: 'PORT', description: 'Port to listen on (7433); 0 takes a free one.' },
      tools: { type: 'string', value: 'WHICH', description: 'default, full, or names of toolsets and tools.' },
      ...commonFlags,
    },
    examples: ['castellan serve', 'castellan serve --port 8080 --data-dir ./state'],
  },
  run,
}

async function run(context: CommandContext): Promise<number> {
  const opened = await openCommandState(context)
  const { state, logger, failed } = opened
  const { config } = opened.loaded
  try {
    await Promise.race([state.local()?.app.ready ?? Promise.resolve(), failed])
    if (!isLoopbackHost(config.host)) await requireIdentity(context, opened)
    const listener = createServer(
      { allowHalfOpen: true, pauseOnConnect: true, noDelay: true },
      createHttpRelay({ attachment: state.attachment, logger, requireKeys: !isLoopbackHost(config.host) }),
    )
    const port = await listen(listener, config)
    announce(context, config, port, state)
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
      const next = cause.code === 'EADDRINUSE' ? 'Another program uses it: choose another with --port.' : cause.message
      const where = `${config.host}:${config.port}`
      reject(new AppError('ERR_INIT_FAILED', `Cannot listen on ${where}. ${next}`, { field: 'port' }, { cause }))
    })
    listener.listen(config.port, config.host, () => {
      const address = listener.address()
      resolve(typeof address === 'object' && address !== null ? address.port : config.port)
    })
  })
}

/** Whoever can reach a non-loopback address is a stranger until a key says otherwise; without keys nobody could use it. */
async function requireIdentity(context: CommandContext, opened: OpenedState): Promise<void> {
  const client = await connectCommandClient(context, opened)
  const { answer } = await client.callTool('api_key_list', {})
  client.close()
  const keys = answer['keys'] as { status: string }[]
  if (keys.some((key) => key.status === 'live')) return
  throw new AppError(
    'ERR_CONFIG_INVALID',
    "'host' is not a loopback address and no API key exists: everybody could reach the server and nobody could use it. Create a key first: castellan keys create NAME",
    { field: 'host', rule: 'a non-loopback address needs API keys' },
  )
}

function announce(context: CommandContext, config: Config, port: number, state: State): void {
  const host = config.host.includes(':') ? `[${config.host}]` : config.host
  const url = `http://${host}:${port}/mcp`
  const { terminal } = context
  if (context.json) {
    terminal.out(`${JSON.stringify({ url, port, pid: process.pid, owner_pid: state.attachment.ownerPid() })}\n`)
    return
  }
  const key = isLoopbackHost(config.host) ? '' : ' --header "Authorization: Bearer $CASTELLAN_API_KEY"'
  terminal.out(
    [
      `${terminal.style('bold', 'Castellan')} ${context.version} (${config.mode})`,
      `  MCP      ${url}`,
      `  health   http://${host}:${port}/health`,
      `  state    ${config.database_url === undefined ? config.data_dir : 'PostgreSQL'}`,
      '',
      'Connect a client:',
      `  Claude Code   claude mcp add --transport http castellan ${url}${key}`,
      `  Cursor        .cursor/mcp.json   { "mcpServers": { "castellan": { "url": "${url}" } } }`,
      `  VS Code       .vscode/mcp.json   { "servers": { "castellan": { "type": "http", "url": "${url}" } } }`,
      '  over stdio    castellan mcp',
      '',
      'End with Ctrl-C.',
      '',
    ].join('\n'),
  )
}
