import { commonFlags, zaruModeFlag } from '../../cli/command.ts'
import { answerEarly } from '../../mcp/early-answer.ts'
import type { Command, CommandContext } from './context.ts'

export const command: Command = {
  spec: {
    name: 'mcp',
    summary: 'Serve one client over standard input and output.',
    description:
      'Serve one MCP client over standard input and output. Several of these, and a `serve`, may share one data directory: one owns the state and the others go through it.',
    flags: {
      tools: { type: 'string', value: 'WHICH', description: 'default, full, or names of toolsets and tools.' },
      'zaru-mode': zaruModeFlag,
      names: {
        type: 'string',
        value: 'SPELLING',
        description: 'safe or documented tool names; else what the client is known to accept.',
      },
      ...commonFlags,
    },
    examples: ['castellan mcp', 'castellan mcp --tools full', 'claude mcp add castellan -- castellan mcp'],
  },
  run,
}

async function run(context: CommandContext): Promise<number> {
  const answered = await answerEarly({
    input: context.stdin,
    output: context.stdout,
    version: context.version,
    waitMs: EARLY_WAIT_MS,
  })
  const { serveClient } = await import('../serve-client.ts')
  return await serveClient(context, answered)
}

const EARLY_WAIT_MS = 25
