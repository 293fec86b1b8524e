import { join } from 'node:path'

/**
 * Agent programs that people use as clients, and how each is run once, offline, with a model of ours. They are installed when
 * `npm run test:clients` asks for them, and are no dependency.
 */
export type Server =
  | Readonly<{ url: string; headers: Readonly<Record<string, string>> }>
  | Readonly<{ command: string; args: readonly string[] }>
/** Where the program finds its models, by the protocol that it speaks. */
export type ModelAddresses = Readonly<{ anthropic: string; openai: string; gemini: string }>
type Setup = Readonly<{ home: string; models: ModelAddresses; server: Server }>
type Launch = Readonly<{
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

const PROMPT = 'Find a tool that creates tasks.'

const json = (value: unknown): string => JSON.stringify(value, null, 2)
const isRemote = (server: Server): server is Extract<Server, { url: string }> => 'url' in server
const tomlTable = (values: Readonly<Record<string, string>>): string =>
  `{ ${Object.entries(values)
    .map(([name, value]) => `${json(name)} = ${json(value)}`)
    .join(', ')} }`

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
          ? [`url = "${server.url}"`, `http_headers = ${tomlTable(server.headers)}`]
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
        mcpServers: { castellan: isRemote(server) ? { httpUrl: server.url, headers: server.headers } : server },
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

/** Programs that are made from opencode have its settings, under names of their own. */
const opencodeLike =
  (prefix: string, file: string): AgentProgram['launch'] =>
  ({ home, models, server }) => ({
    env: {
      [`${prefix}_CONFIG`]: join(home, file),
      [`${prefix}_DISABLE_MODELS_FETCH`]: '1',
      [`${prefix}_DISABLE_AUTOUPDATE`]: '1',
    },
    args: ['run', '--format', 'json', '--model', 'mock/mock-model', PROMPT],
    files: {
      [file]: json({
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
            ? { type: 'remote', ...server, oauth: false, enabled: true }
            : { type: 'local', command: [server.command, ...server.args], enabled: true },
        },
      }),
    },
  })

const opencode: AgentProgram = {
  name: 'opencode',
  package: 'opencode-ai',
  version: '1.18.33',
  bin: 'opencode',
  launch: opencodeLike('OPENCODE', 'opencode.json'),
}

const kilo: AgentProgram = {
  name: 'kilo',
  package: '@kilocode/cli',
  version: '7.7.7',
  bin: 'kilo',
  launch: opencodeLike('KILO', 'kilo.json'),
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
        mcpServers: [
          {
            name: 'castellan',
            ...(isRemote(server)
              ? { type: 'streamable-http', url: server.url, requestOptions: { headers: server.headers } }
              : server),
          },
        ],
      }),
    },
  }),
}

const qwenCode: AgentProgram = {
  name: 'qwen-code',
  package: '@qwen-code/qwen-code',
  version: '0.24.4',
  bin: 'qwen',
  launch: ({ models, server }) => ({
    env: { OPENAI_BASE_URL: models.openai, OPENAI_API_KEY: 'x', OPENAI_MODEL: 'mock-model' },
    args: ['--yolo', '-p', PROMPT],
    files: {
      '.qwen/settings.json': json({
        mcpServers: { castellan: isRemote(server) ? { httpUrl: server.url, headers: server.headers } : server },
        security: { auth: { selectedType: 'openai' } },
        tools: { toolSearch: { enabled: false } },
        memory: { enableManagedAutoMemory: false },
      }),
    },
  }),
}

const kimiCode: AgentProgram = {
  name: 'kimi-code',
  package: '@moonshot-ai/kimi-code',
  version: '2.1.0',
  bin: 'kimi',
  launch: ({ home, models, server }) => ({
    env: { KIMI_CODE_HOME: join(home, '.kimi') },
    args: ['-p', PROMPT],
    files: {
      '.kimi/config.toml': [
        'default_model = "mock"',
        '[providers.mock]',
        'type = "openai"',
        `base_url = "${models.openai}"`,
        'api_key = "x"',
        '[models.mock]',
        'provider = "mock"',
        'model = "mock-model"',
        'max_context_size = 200000',
        'capabilities = ["tool_use"]',
        '',
      ].join('\n'),
      '.kimi/mcp.json': json({
        mcpServers: { castellan: { transport: isRemote(server) ? 'http' : 'stdio', ...server } },
      }),
    },
  }),
}

const cline: AgentProgram = {
  name: 'cline',
  package: 'cline',
  version: '3.0.65',
  bin: 'cline',
  launch: ({ models, server }) => ({
    env: {},
    args: ['--json', '-P', 'openai-compatible', '-m', 'mock-model', PROMPT],
    files: {
      '.cline/data/settings/providers.json': json({
        version: 1,
        lastUsedProvider: 'openai-compatible',
        modes: {},
        providers: {
          'openai-compatible': {
            settings: { provider: 'openai-compatible', apiKey: 'x', model: 'mock-model', baseUrl: models.openai },
            updatedAt: '2026-01-01T00:00:00.000Z',
            tokenSource: 'manual',
          },
        },
      }),
      '.cline/data/settings/cline_mcp_settings.json': json({
        mcpServers: {
          castellan: { ...(isRemote(server) ? { type: 'streamableHttp', ...server } : server), timeout: 60 },
        },
      }),
    },
  }),
}

const nanocoder: AgentProgram = {
  name: 'nanocoder',
  package: '@nanocollective/nanocoder',
  version: '1.30.0',
  bin: 'nanocoder',
  launch: ({ models, server }) => ({
    env: { NANOCODER_CONFIG_DIR: '.' },
    args: [
      '--plain',
      '--trust-directory',
      '--mode',
      'yolo',
      '--provider',
      'mock',
      '--model',
      'mock-model',
      'run',
      PROMPT,
    ],
    files: {
      'agents.config.json': json({
        nanocoder: { providers: [{ name: 'mock', baseUrl: models.openai, apiKey: 'x', models: ['mock-model'] }] },
      }),
      '.mcp.json': json({
        mcpServers: { castellan: { transport: isRemote(server) ? 'http' : 'stdio', ...server } },
      }),
    },
  }),
}

export const agentPrograms: readonly AgentProgram[] = [
  claudeCode,
  codex,
  geminiCli,
  copilot,
  opencode,
  kilo,
  qwenCode,
  kimiCode,
  cline,
  continueCli,
  nanocoder,
]
