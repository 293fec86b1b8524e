import { join } from 'node:path'

/**
 * Agent programs that people use as clients, and how each is run once, offline, with a model of ours. They are installed when
 * `npm run test:clients` asks for them, and are no dependency.
 */
export type Server = Readonly<{ url: string }> | Readonly<{ command: string; args: readonly string[] }>
/** Where the program finds its models, by the protocol that it speaks. */
export type ModelAddresses = Readonly<{ anthropic: string; openai: string; gemini: string }>
export type Setup = Readonly<{ home: string; models: ModelAddresses; server: Server }>
export type Launch = Readonly<{
  env: Readonly<Record<string, string>>
  args: readonly string[]
  /** Path below the home → text. */
  files: Readonly<Record<string, string>>
}>
export type AgentProgram = Readonly<{
  name: string
  package: string
  version: string
  bin: string
  launch(setup: Setup): Launch
}>

export const PROMPT = 'Find a tool that creates tasks.'

const json = (value: unknown): string => JSON.stringify(value, null, 2)
const isRemote = (server: Server): server is Extract<Server, { url: string }> => 'url' in server

const claudeCode: AgentProgram = {
  name: 'claude-code',
  package: '@anthropic-ai/claude-code',
  version: '2.1.325',
  bin: 'claude',
  launch: ({ home, models, server }) => ({
    env: {
      ANTHROPIC_BASE_URL: models.anthropic,
      ANTHROPIC_API_KEY: 'x',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
      IS_SANDBOX: '1',
      ENABLE_TOOL_SEARCH: 'false',
    },
    args: [
      ...['-p', PROMPT, '--mcp-config', join(home, 'mcp.json'), '--strict-mcp-config'],
      ...['--dangerously-skip-permissions', '--output-format', 'stream-json', '--verbose'],
    ],
    files: { 'mcp.json': json({ mcpServers: { castellan: isRemote(server) ? { type: 'http', ...server } : server } }) },
  }),
}

const codex: AgentProgram = {
  name: 'codex',
  package: '@openai/codex',
  version: '0.166.0',
  bin: 'codex',
  launch: ({ home, models, server }) => ({
    env: { CODEX_HOME: join(home, '.codex'), MOCK_KEY: 'x' },
    args: ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', '--json', PROMPT],
    files: {
      '.codex/config.toml': [
        'model = "mock-model"',
        'model_provider = "mock"',
        '[model_providers.mock]',
        'name = "mock"',
        `base_url = "${models.openai}"`,
        'wire_api = "responses"',
        'env_key = "MOCK_KEY"',
        '[mcp_servers.castellan]',
        ...(isRemote(server)
          ? [`url = "${server.url}"`]
          : [`command = "${server.command}"`, `args = ${JSON.stringify(server.args)}`]),
        'required = true',
        'startup_timeout_sec = 60',
        '',
      ].join('\n'),
    },
  }),
}

const geminiCli: AgentProgram = {
  name: 'gemini-cli',
  package: '@google/gemini-cli',
  version: '0.61.0',
  bin: 'gemini',
  launch: ({ models, server }) => ({
    env: { GEMINI_API_KEY: 'x', GOOGLE_GEMINI_BASE_URL: models.gemini, GEMINI_CLI_TRUST_WORKSPACE: 'true' },
    args: ['--yolo', '-m', 'gemini-2.5-flash', '-p', PROMPT],
    files: {
      '.gemini/settings.json': json({
        mcpServers: { castellan: isRemote(server) ? { httpUrl: server.url } : server },
        security: { auth: { selectedType: 'gemini-api-key' } },
      }),
    },
  }),
}

const copilot: AgentProgram = {
  name: 'copilot',
  package: '@github/copilot',
  version: '1.0.102',
  bin: 'copilot',
  launch: ({ models, server }) => ({
    env: {
      COPILOT_OFFLINE: 'true',
      COPILOT_AUTO_UPDATE: 'false',
      COPILOT_PROVIDER_BASE_URL: models.openai,
      COPILOT_PROVIDER_API_KEY: 'x',
      COPILOT_MODEL: 'mock-model',
    },
    args: ['-p', PROMPT, '--allow-all-tools'],
    files: {
      '.copilot/mcp-config.json': json({
        mcpServers: { castellan: { type: isRemote(server) ? 'http' : 'local', ...server, tools: ['*'] } },
      }),
    },
  }),
}

const opencode: AgentProgram = {
  name: 'opencode',
  package: 'opencode-ai',
  version: '1.18.33',
  bin: 'opencode',
  launch: ({ home, models, server }) => ({
    env: {
      OPENCODE_CONFIG: join(home, 'opencode.json'),
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_AUTOUPDATE: '1',
    },
    args: ['run', '--format', 'json', '--model', 'mock/mock-model', PROMPT],
    files: {
      'opencode.json': json({
        provider: {
          mock: {
            npm: '@ai-sdk/openai-compatible',
            name: 'mock',
            options: { baseURL: models.openai, apiKey: 'x' },
            models: { 'mock-model': { name: 'mock-model', tool_call: true } },
          },
        },
        mcp: {
          castellan: isRemote(server)
            ? { type: 'remote', url: server.url, enabled: true }
            : { type: 'local', command: [server.command, ...server.args], enabled: true },
        },
      }),
    },
  }),
}

const continueCli: AgentProgram = {
  name: 'continue',
  package: '@continuedev/cli',
  version: '1.5.47',
  bin: 'cn',
  launch: ({ home, models, server }) => ({
    env: { CONTINUE_TELEMETRY_ENABLED: '0' },
    args: ['-p', PROMPT, '--config', join(home, 'config.yaml'), '--auto'],
    files: {
      'config.yaml': json({
        name: 'test',
        version: '1.0.0',
        schema: 'v1',
        models: [
          {
            name: 'mock',
            provider: 'openai',
            model: 'mock-model',
            apiKey: 'x',
            apiBase: models.openai,
            roles: ['chat'],
            capabilities: ['tool_use'],
          },
        ],
        mcpServers: [{ name: 'castellan', ...(isRemote(server) ? { type: 'streamable-http', ...server } : server) }],
      }),
    },
  }),
}

export const agentPrograms: readonly AgentProgram[] = [claudeCode, codex, geminiCli, copilot, opencode, continueCli]
