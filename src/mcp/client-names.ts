/**
 * Clients that refuse a tool list with dots or long names in it, by the name they give themselves in `clientInfo`.
 * A row matches when the client's name begins with it, without regard to case. A client that is not here gets the
 * documented names; the connection can override the table either way.
 */
type ClientNameRule = Readonly<{ prefix: string; reason: string }>

export const clientNameRules: readonly ClientNameRule[] = [
  {
    prefix: 'claude-ai',
    reason: 'Claude Desktop and claude.ai reject the list: names must match ^[a-zA-Z0-9_-]{1,64}$.',
  },
  { prefix: 'claude-desktop', reason: 'The same rule as claude-ai.' },
  {
    prefix: 'claude-code',
    reason: 'The Anthropic API takes ^[a-zA-Z0-9_-]{1,128}$ and the client adds mcp__server__ in front.',
  },
  { prefix: 'anthropic', reason: 'The MCP connector of the Anthropic API has the rule of that API.' },
  {
    prefix: 'cursor',
    reason: 'Only letters, digits and underscores; server and tool name together at most 60 characters.',
  },
  {
    prefix: 'visual studio code',
    reason: 'Warns on every name outside [a-z0-9_-]; models behind it stop at 64 characters.',
  },
  { prefix: 'vscode', reason: 'The same rule as Visual Studio Code.' },
  {
    prefix: 'github-copilot',
    reason: 'Sends names unchanged to an API that takes ^[a-zA-Z0-9_-]{1,128}$ and fails every prompt.',
  },
  { prefix: 'copilot', reason: 'The same rule as github-copilot.' },
  { prefix: 'openai', reason: 'The OpenAI API takes ^[a-zA-Z0-9_-]{1,64}$.' },
  { prefix: 'codex', reason: 'Sends names unchanged to the OpenAI API.' },
  { prefix: 'chatgpt', reason: 'The rule of the OpenAI API.' },
  { prefix: 'antigravity', reason: 'Refuses names outside ^[a-zA-Z0-9_-]{1,64}$.' },
  { prefix: 'windsurf', reason: 'Passes names on to models of Anthropic and OpenAI, whose APIs refuse dots.' },
  { prefix: 'cline', reason: 'Passes names on to whichever model the user chose, most of which refuse dots.' },
  { prefix: 'roo', reason: 'The same as cline.' },
  { prefix: 'zed', reason: 'Passes names on to models of Anthropic and OpenAI, whose APIs refuse dots.' },
  {
    prefix: 'gemini-cli',
    reason: 'Takes dots, but the Gemini API stops at 64 characters with the server name in front.',
  },
]

export function needsSafeNames(clientName: string | undefined): boolean {
  if (clientName === undefined) return false
  const name = clientName.toLowerCase()
  return clientNameRules.some((rule) => name.startsWith(rule.prefix))
}
