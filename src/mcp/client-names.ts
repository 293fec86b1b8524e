/**
 * What known clients need, by their name in `clientInfo`. An unknown client gets the documented names, without pairs that become
 * equal when dots are replaced; the connection can override the spelling. A row's `name` is a prefix of the client's name, or all
 * of it if `whole`, in any case.
 */
type ClientRule = Readonly<{
  name: string
  whole?: true
  reason: string
  /** Safe names, unless the row says otherwise. */
  names?: 'documented'
  /** Fields that the client itself adds to the arguments of every call. */
  adds?: readonly string[]
}>

/**
 * `safe` for a client that cannot show dots or long names to a model, or that replaces the dots. `distinct`: documented names,
 * one for each tool, so that an unknown client that replaces dots never makes two names equal. `documented`: all documented
 * names.
 */
type NameChoice = 'safe' | 'distinct' | 'documented'

type ClientTraits = Readonly<{
  names: NameChoice
  addedArguments: readonly string[]
}>

const PASSES_ON = 'Passes names on to whichever model the user chose, most of which refuse dots.'
const REPLACES = 'Replaces dots by itself, so that two names of a list can become one.'

export const clientRules: readonly ClientRule[] = [
  {
    name: 'claude-ai',
    reason: 'Claude Desktop and claude.ai reject the list: names must match ^[a-zA-Z0-9_-]{1,64}$.',
  },
  { name: 'claude-desktop', reason: 'The same rule as claude-ai.' },
  {
    name: 'claude-code',
    reason: 'The Anthropic API takes ^[a-zA-Z0-9_-]{1,128}$ and the client adds mcp__server__ in front.',
  },
  { name: 'anthropic', reason: 'The MCP connector of the Anthropic API has the rule of that API.' },
  {
    name: 'cursor',
    reason: 'Only letters, digits and underscores; server and tool name together at most 60 characters.',
  },
  {
    name: 'visual studio code',
    reason: 'Warns on every name outside [a-z0-9_-]; models behind it stop at 64 characters.',
  },
  { name: 'visual-studio-code', reason: 'The same rule as Visual Studio Code.' },
  { name: 'vscode', reason: 'The same rule as Visual Studio Code.' },
  {
    name: 'github-copilot',
    reason: 'Sends names unchanged to an API that takes ^[a-zA-Z0-9_-]{1,128}$ and fails every prompt.',
  },
  { name: 'copilot', reason: 'The same rule as github-copilot.' },
  { name: 'jetbrains', reason: 'Copilot in the IDEs of JetBrains: the same rule as github-copilot.' },
  { name: 'xcode', reason: 'Copilot in Xcode: the same rule as github-copilot.' },
  { name: 'openai', reason: 'The OpenAI API takes ^[a-zA-Z0-9_-]{1,64}$.' },
  { name: 'codex', reason: 'Sends names unchanged to the OpenAI API.' },
  { name: 'chatgpt', reason: 'The rule of the OpenAI API.' },
  { name: 'stdio: ', reason: 'OpenAI Agents for JavaScript, with no name for the server: the rule of the OpenAI API.' },
  { name: 'streamable-http: ', reason: 'The same over HTTP.' },
  {
    name: 'castellan',
    whole: true,
    reason: 'OpenAI Agents for JavaScript introduces itself by the name that the user gave the server.',
  },
  { name: 'antigravity', reason: 'Refuses names outside ^[a-zA-Z0-9_-]{1,64}$.' },
  { name: 'windsurf', reason: 'Passes names on to models of Anthropic and OpenAI, whose APIs refuse dots.' },
  { name: 'zed', reason: 'Passes names on to models of Anthropic and OpenAI, whose APIs refuse dots.' },
  {
    name: 'gemini-cli',
    reason: 'Takes dots, but the Gemini API stops at 64 characters with the server name in front.',
    adds: ['wait_for_previous'],
  },
  {
    name: 'qwen',
    reason: 'Made from Gemini CLI, for models that refuse dots. Its name ends with that of the server.',
    adds: ['wait_for_previous'],
  },
  {
    name: 'mcp',
    whole: true,
    reason: 'The Python SDK, unless told otherwise: LangChain, OpenAI Agents and Pydantic AI pass names on unchanged.',
  },
  { name: 'pydantic', reason: PASSES_ON },
  { name: '@langchain/', reason: PASSES_ON },
  { name: 'langchain', reason: PASSES_ON },
  { name: 'mcp-use', reason: PASSES_ON },
  { name: 'ai-sdk', reason: 'The AI SDK: names become keys of the tools that it passes on unchanged.' },
  { name: 'continue', reason: PASSES_ON },
  { name: 'nanocoder', reason: PASSES_ON },
  { name: 'cline', reason: PASSES_ON },
  { name: '@cline/', reason: PASSES_ON },
  { name: 'roo', reason: PASSES_ON },
  { name: 'goose', reason: PASSES_ON },
  { name: 'amp', reason: PASSES_ON },
  { name: 'crush', reason: PASSES_ON },
  { name: 'factory', reason: PASSES_ON },
  { name: 'cherry studio', reason: PASSES_ON },
  { name: '@librechat/', reason: PASSES_ON },
  { name: '@n8n/', reason: PASSES_ON },
  { name: 'dify', reason: PASSES_ON },
  { name: 'lobehub', reason: PASSES_ON },
  { name: 'opencode', reason: REPLACES },
  { name: 'kilo', reason: REPLACES },
  { name: 'kimi', reason: REPLACES },
  {
    name: 'contract-check',
    whole: true,
    names: 'documented',
    reason: 'Compares the list with the documents, name by name, and shows it to no model.',
  },
]

const unknownClient: ClientTraits = { names: 'distinct', addedArguments: [] }

export function traitsOf(clientName: string | undefined): ClientTraits {
  if (clientName === undefined) return unknownClient
  const input = clientName.toLowerCase()
  const rule = clientRules.find(({ name, whole }) => (whole === true ? input === name : input.startsWith(name)))
  return rule === undefined ? unknownClient : { names: rule.names ?? 'safe', addedArguments: rule.adds ?? [] }
}

/** The connection's request decides; without one, the client's name does. */
export function spellingFor(traits: ClientTraits, requested: RequestedSpelling): Required<RequestedSpelling> {
  const safeNames = requested.safeNames ?? traits.names === 'safe'
  const byClient = requested.safeNames === undefined && traits.names === 'distinct'
  return { safeNames, distinctNames: requested.distinctNames ?? byClient }
}

export type RequestedSpelling = Readonly<{ safeNames?: boolean; distinctNames?: boolean }>
