import { flag, group, listOf, wholeNumber } from './config-parts.ts'

export const modelProxySection = group(
  {
    caller_keys: flag(
      true,
      'Whether callers may bring keys of their own for a provider, which are passed on and not kept. They say who they are all the same.',
    ),
    mcp_server_names: listOf('a name')
      .default(['castellan'])
      .describe(
        'Under which names programs have this server among their MCP servers. Only behind one of these a tool name is taken for ours: `mcp__castellan__task_list`.',
      ),
    answer_timeout_secs: wholeNumber(600, 1, 86_400, 'Seconds that a provider may take to begin its answer.'),
    idle_timeout_secs: wholeNumber(300, 1, 86_400, 'Seconds that a provider may be silent in the middle of an answer.'),
  },
  'Requests of programs to language models, through `/v1/PROVIDER/PROXY`.',
)
