import { type LayerRow, outerLayerRows } from './outer-layer-rows.ts'

/**
 * Who may import what, as data. One sentence: imports point inward — `kernel` ← `contract` ← core (`domains`, `audit`) ←
 * adapters (`stores`) and transports (`tools`, `mcp`, `http`, `cli`) ← `app` — adapters and transports never import each other,
 * and only `app` constructs. Types follow the same rule as values, or they would drag the layers together.
 *
 * The most specific row wins; `*` is one folder name. A folder may always import itself.
 */
export const layerRows: readonly LayerRow[] = [
  {
    folder: 'kernel',
    folders: [],
    packages: ['node:crypto', 'node:module', 'node:net', 'node:os', 're2js'],
    reason:
      'It is the bottom: pure words, and the only places that ask for time and chance. node:crypto hashes, node:net knows addresses, node:os those of this machine. Patterns of callers run on re2js, which cannot be made to hang and is loaded late.',
  },
  {
    folder: 'contract',
    folders: ['kernel'],
    packages: [],
    reason: 'The words that all layers share must load everywhere, so they depend on nothing that does anything.',
  },
  {
    folder: 'audit',
    folders: ['kernel', 'contract'],
    packages: ['node:crypto', 'node:buffer'],
    reason: 'The log and its proofs are also read without a server, so they know no domain, store or protocol.',
  },
  {
    folder: 'audit/fsck',
    folders: ['kernel', 'contract'],
    packages: ['node:crypto'],
    reason: 'The independent checker shares no code with the writer it judges, or both would have the same fault.',
  },
  {
    folder: 'domains/git',
    folders: ['kernel', 'contract', 'domains/workspaces'],
    packages: ['node:stream'],
    reason:
      'Runs git inside workspaces: a request and its outcome have the shape that a back end gives them, and a pack is a stream.',
  },
  {
    folder: 'domains/identity',
    folders: ['kernel', 'contract'],
    packages: ['node:crypto'],
    reason: 'Decides who somebody is. It compares secrets in constant time, which is what it needs node:crypto for.',
  },
  {
    folder: 'domains/log',
    folders: ['kernel', 'contract', 'audit'],
    packages: [],
    reason: 'Gives out the log and its proofs; the mathematics is in audit.',
  },
  {
    folder: 'domains/interactions',
    folders: ['kernel', 'contract'],
    packages: [],
    reason: 'Keeps what was asked of models; who asked, and what it cost, it is told.',
  },
  {
    folder: 'domains/limits',
    folders: ['kernel', 'contract'],
    packages: [],
    reason: 'Counts what is used against limits; who and what is limited comes through its port.',
  },
  {
    folder: 'domains/sanitising',
    folders: ['kernel', 'contract', 'domains/executions'],
    packages: [],
    reason: 'Has two models say what a result says. Models are a port of the executions.',
  },
  {
    folder: 'domains/secrets',
    folders: ['kernel', 'contract'],
    packages: ['node:crypto'],
    reason: 'Encrypts what nobody may see and gives out references to it; the cipher is what it needs node:crypto for.',
  },
  {
    folder: 'domains/server',
    folders: ['kernel', 'contract'],
    packages: [],
    reason: 'Reports on the process through what it is handed; it looks at nothing itself.',
  },
  {
    folder: 'domains/skills',
    folders: ['kernel', 'contract', 'domains/templating'],
    packages: ['yaml'],
    reason: 'Reads SKILL.md front matter, which is YAML; the files come through its port.',
  },
  {
    folder: 'domains/swarm',
    folders: ['kernel', 'contract', 'domains/git', 'domains/workspaces'],
    packages: [],
    reason: 'Puts workspaces and git together: it prepares, forks, runs and merges through their services.',
  },
  {
    folder: 'domains/tasks',
    folders: ['kernel', 'contract'],
    packages: [],
    reason: 'Rules of tasks and projects: no storage, no protocol, no other domain.',
  },
  {
    folder: 'domains/teams',
    folders: ['kernel', 'contract', 'domains/workspaces', 'domains/vault'],
    packages: [],
    reason: 'A team is workspaces that know of each other, and cards in the vault; neither knows of teams.',
  },
  {
    folder: 'domains/trail',
    folders: ['kernel', 'contract', 'audit', 'domains/tasks'],
    packages: [],
    reason: 'Records and audit sessions are about tasks and made of log entries; tasks know nothing of them.',
  },
  {
    folder: 'domains/vault',
    folders: ['kernel', 'contract', 'domains/templating'],
    packages: ['yaml'],
    reason: 'Rules and texts of notes: front matter is YAML. The files come through its port.',
  },
  {
    folder: 'domains/workspaces',
    folders: ['kernel', 'contract'],
    packages: ['node:stream'],
    reason:
      'Records, rules and operations of workspaces; what really happens is behind its port. Files pass as streams.',
  },
  {
    folder: 'engine',
    folders: ['kernel', 'contract', 'audit'],
    packages: ['node:util'],
    reason: 'Durable runs of programs that it is handed: it knows journals, not what is in them.',
  },
  {
    folder: 'domains/security-contexts',
    folders: ['kernel', 'contract'],
    packages: [],
    reason: 'Judges a call by security contexts; pure.',
  },
  {
    folder: 'domains/files',
    folders: ['kernel', 'contract', 'domains/workspaces'],
    packages: ['node:stream'],
    reason: 'What fs.* does to the files of a workspace.',
  },
  {
    folder: 'domains/commands',
    folders: ['kernel', 'contract', 'domains/workspaces'],
    packages: [],
    reason: 'One command in a workspace, checked word by word before it runs.',
  },
  {
    folder: 'domains/web',
    folders: ['kernel', 'contract'],
    packages: [],
    reason: 'What may be fetched and how an answer is shown; the fetching is behind its port.',
  },
  {
    folder: 'domains/templating',
    folders: ['kernel', 'contract'],
    packages: ['handlebars', 'yaml', 'node:module'],
    reason:
      'Templates of manifests, with their work counted; the library only parses, and is loaded late. YAML of strangers, with its tokens counted.',
  },
  {
    folder: 'domains/manifests',
    folders: ['kernel', 'contract', 'domains/templating'],
    packages: ['zod', 'semver', 'ajv', 'ajv-formats', 'croner', 'node:diagnostics_channel', 'node:module', 'node:vm'],
    reason:
      'What manifests of every kind have in common. Schemas, patterns, cron expressions and templates in a manifest are tried before it is accepted; node:vm ends a check that takes too long.',
  },
  {
    folder: 'domains/agents',
    folders: ['kernel', 'contract', 'engine', 'domains/manifests', 'domains/profiles', 'domains/templating'],
    packages: ['zod'],
    reason: 'Manifests of agents, their versions and their registry; what its agents did it sees in the runs.',
  },
  {
    folder: 'domains/profiles',
    folders: ['kernel', 'contract'],
    packages: [],
    reason: 'What agents, gateways and proxies have in common; whose it is comes from the contract.',
  },
  {
    folder: 'domains/mcp-servers',
    folders: ['kernel', 'contract', 'domains/secrets', 'domains/templating'],
    packages: [],
    reason:
      'MCP servers of others: the catalogue, what is deployed of it, and the tools that they list. What runs and reaches them is behind its port. A specification for a cluster is YAML.',
  },
  {
    folder: 'domains/gateways',
    folders: ['kernel', 'contract', 'domains/profiles', 'domains/mcp-servers'],
    packages: [],
    reason:
      'Gateways are profiles with tools of MCP servers: who has which tool, and with which deployment of its server it is called.',
  },
  {
    folder: 'domains/model-proxies',
    folders: ['kernel', 'contract', 'domains/identity', 'domains/profiles', 'domains/secrets'],
    packages: [],
    reason:
      'Model proxies are profiles; who may use which, and with which keys. What passes through them is a transport.',
  },
  {
    folder: 'domains/policies',
    folders: ['kernel', 'contract'],
    packages: [],
    reason: 'Rules for calls of tools and for what they answer.',
  },
  {
    folder: 'domains/approvals',
    folders: ['kernel', 'contract', 'engine'],
    packages: [],
    reason: 'Calls that a person must approve. An answer goes to the run that waits for it, which the engine knows.',
  },
  {
    folder: 'domains/trust',
    folders: ['kernel', 'contract'],
    packages: [],
    reason: 'Which contexts have read what anybody may have written.',
  },
  {
    folder: 'upstreams',
    folders: ['kernel', 'contract', 'domains/mcp-servers', 'web-client'],
    packages: ['@modelcontextprotocol/client', 'node:stream'],
    reason:
      'Connections to MCP servers, on the client of the SDK: over standard streams in a workspace, and over HTTP to checked addresses. It is loaded with the first use.',
  },
  {
    folder: 'domains/people',
    folders: ['kernel', 'contract', 'domains/secrets'],
    packages: ['node:crypto'],
    reason:
      'Decides who signed-in people are and what they may do. It hashes passwords and checks signed cookies, which is what it needs node:crypto for. Tokens of identity providers are secrets.',
  },
  {
    folder: 'domains/platform',
    folders: ['kernel', 'contract'],
    packages: [],
    reason: 'Tells about the installation: schemas of manifests, runtimes, tools, configuration.',
  },
  {
    folder: 'domains/runs',
    folders: ['kernel', 'contract', 'engine', 'domains/manifests'],
    packages: [],
    reason: 'What runs of agents, workflows and intents have in common: tools, workspaces, values, verdicts, handlers.',
  },
  {
    folder: 'domains/executions',
    folders: [
      'kernel',
      'contract',
      'engine',
      'domains/agents',
      'domains/manifests',
      'domains/runs',
      'domains/templating',
    ],
    packages: [],
    reason: 'The loop of one agent, as a program of the engine; models and tools are behind ports.',
  },
  {
    folder: 'domains/schedules',
    folders: ['kernel', 'contract', 'engine', 'domains/agents'],
    packages: ['croner', 'node:util'],
    reason:
      'Executions by the calendar and by the clock. Cron expressions and time zones need a library that knows them.',
  },
  {
    folder: 'domains/workflows',
    folders: [
      'kernel',
      'contract',
      'engine',
      'domains/agents',
      'domains/executions',
      'domains/manifests',
      'domains/runs',
      'domains/templating',
    ],
    packages: ['zod', '@marcbachmann/cel-js', 'node:module'],
    reason: 'State machines over agents, commands and people, as programs of the engine.',
  },
  {
    folder: 'domains/intents',
    folders: [
      'kernel',
      'contract',
      'engine',
      'domains/agents',
      'domains/executions',
      'domains/runs',
      'domains/workflows',
    ],
    packages: [],
    reason: 'From a wish to a result: agents and workflows put together.',
  },
  {
    folder: 'domains/seal',
    folders: ['kernel', 'contract'],
    packages: ['node:crypto'],
    reason: 'Sessions and signed envelopes of outside callers; signatures need node:crypto.',
  },
  {
    folder: 'seal-client',
    folders: ['kernel'],
    packages: ['node:crypto'],
    reason: 'What a program elsewhere uses to call a server; nothing of the server comes with it.',
  },
  {
    folder: 'models',
    folders: ['kernel', 'contract', 'domains/executions'],
    packages: ['ai', '@ai-sdk/openai', '@ai-sdk/anthropic', '@ai-sdk/google', '@ai-sdk/openai-compatible'],
    reason: 'The port of language models on the AI SDK, loaded when a model is first asked.',
  },
  {
    folder: 'web-client',
    folders: ['kernel', 'contract', 'domains/web'],
    packages: [
      '@mozilla/readability',
      'linkedom',
      'node-html-markdown',
      'node:dns',
      'node:http',
      'node:https',
      'node:net',
      'node:stream',
      'node:worker_threads',
      'node:zlib',
    ],
    reason:
      'The port of the web on HTTP: addresses checked after resolution, sizes and times bounded. Pages are read in a worker.',
  },
  {
    folder: 'search',
    folders: ['kernel', 'contract'],
    packages: ['node:fs', 'node:worker_threads', 'node:module'],
    reason: 'Texts as vectors, by a service that the operator names or by a model in a thread, loaded late.',
  },
  ...outerLayerRows,
]

export type { LayerRow } from './outer-layer-rows.ts'
