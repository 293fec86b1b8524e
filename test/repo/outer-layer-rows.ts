export type LayerRow = Readonly<{
  folder: string
  /** Folders of other rows; `domains/*` means any of them. */
  folders: readonly string[]
  /** npm packages with all their entry points, and Node built-ins. */
  packages: readonly string[]
  reason: string
}>

/** Adapters, transports and the composition root: what is around the core. */
export const outerLayerRows: readonly LayerRow[] = [
  {
    folder: 'stores/sql',
    folders: ['kernel', 'contract', 'audit', 'audit/fsck', 'engine', 'domains/*'],
    packages: ['kysely', 'node:module'],
    reason:
      'The stores that SQLite and PostgreSQL share. They implement the ports of the core and know no driver. Kysely is required late, by node:module.',
  },
  {
    folder: 'stores/sqlite',
    folders: ['kernel', 'contract', 'stores/sql'],
    packages: ['node:sqlite', 'node:fs', 'node:path'],
    reason: 'One driver under the shared stores, with the directory its file is in.',
  },
  {
    folder: 'stores/postgres',
    folders: ['kernel', 'contract', 'stores/sql'],
    packages: ['pg'],
    reason: 'One driver under the shared stores.',
  },
  {
    folder: 'stores/files',
    folders: ['kernel', 'contract', 'audit', 'domains/*'],
    packages: ['node:fs', 'node:path', 'node:crypto', 'node:timers', 'node:stream'],
    reason: 'The ports of the core that are plain files. Nothing else touches the file system on behalf of the core.',
  },
  {
    folder: 'accounts',
    folders: ['kernel', 'contract', 'domains/people'],
    packages: ['better-auth', '@better-auth/oauth-provider', '@better-auth/passkey', 'node:async_hooks'],
    reason:
      'Sessions, authorisations and identity providers on better-auth, loaded with the first sign-in. A sign-in with a provider carries who decides about it through the library.',
  },
  {
    folder: 'mail',
    folders: ['kernel', 'contract', 'domains/people'],
    packages: ['nodemailer'],
    reason: 'Mails of invitations by SMTP, loaded with the first one.',
  },
  {
    folder: 'telemetry',
    folders: ['kernel', 'contract', 'domains/interactions'],
    packages: ['node:crypto'],
    reason: 'Requests to models as spans for a collector that the operator names.',
  },
  {
    folder: 'supervisor',
    folders: ['kernel', 'contract', 'domains/workspaces', 'supervisor/*'],
    packages: [
      'node:child_process',
      'node:events',
      'node:fs',
      'node:net',
      'node:os',
      'node:path',
      'node:stream',
      'node:url',
      'node:util',
    ],
    reason:
      'A program of its own that outlives the server: it does for workspaces what their port says, and decides nothing.',
  },
  {
    folder: 'supervisor/openat-files',
    folders: ['kernel', 'contract', 'domains/workspaces'],
    packages: ['node:fs', 'node:stream'],
    reason: 'Files below one root, whatever changes meanwhile.',
  },
  {
    folder: 'supervisor/seccomp',
    folders: [],
    packages: [],
    reason: 'Assembles a filter from tables; it runs nothing.',
  },
  {
    folder: 'supervisor/network',
    folders: ['kernel', 'contract', 'domains/workspaces', 'supervisor', 'supervisor/egress'],
    packages: [
      'node:child_process',
      'node:dgram',
      'node:events',
      'node:fs',
      'node:net',
      'node:os',
      'node:path',
      'node:timers',
      'node:url',
    ],
    reason:
      "Links and rules between workspaces, by the programs ip, nft and slirp4netns; sockets in their networks and the host's, which a Perl program makes. A forwarded connection is joined as one of the proxy is.",
  },
  {
    folder: 'supervisor/egress',
    folders: ['kernel', 'contract'],
    packages: [
      'node:child_process',
      'node:crypto',
      'node:fs',
      'node:http',
      'node:net',
      'node:path',
      'node:stream',
      'node:tls',
      'node:util',
    ],
    reason: 'A proxy by itself: it asks by the name of a client what is allowed, and knows nothing of workspaces.',
  },
  {
    folder: 'supervisor/images',
    folders: ['kernel', 'contract', 'domains/workspaces', 'supervisor'],
    packages: [
      'node:child_process',
      'node:crypto',
      'node:events',
      'node:fs',
      'node:path',
      'node:readline',
      'node:stream',
      'node:util',
      'node:zlib',
    ],
    reason: 'Root file systems to start from, made from the host, archives or packages.',
  },
  {
    folder: 'backends/namespaces',
    folders: ['kernel', 'contract', 'domains/workspaces', 'supervisor', 'supervisor/*'],
    packages: [
      '@vscode/ripgrep',
      'node:child_process',
      'node:events',
      'node:fs',
      'node:module',
      'node:net',
      'node:path',
      'node:stream',
      'node:url',
    ],
    reason:
      "The supervisor's client: it starts it with the programs it needs, keeps its compiled code where ours is, and speaks its protocol.",
  },
  {
    folder: 'tools',
    folders: ['contract', 'domains/*', 'tools/*', 'tools/runtime'],
    packages: ['zod'],
    reason: 'The list of all tools and the parameters that recur; enumerations come from the rules of a domain.',
  },
  {
    folder: 'tools/*',
    folders: ['contract', 'tools', 'tools/runtime'],
    packages: ['zod'],
    reason: 'A tool is a static definition: it reaches services through its context, never by importing them.',
  },
  {
    folder: 'tools/runtime',
    folders: ['kernel', 'contract', 'audit', 'engine', 'domains/*'],
    packages: ['zod', 'node:diagnostics_channel'],
    reason:
      'The one pipeline and the catalogue. It knows the services by their interfaces, and no protocol. Its answers can be watched on a channel of the runtime.',
  },
  {
    folder: 'mcp',
    folders: ['kernel', 'contract', 'tools/runtime', 'http/exchange'],
    packages: ['@modelcontextprotocol/server', 'zod', 'node:async_hooks', 'node:http', 'node:stream'],
    reason:
      'Protocol only: it lists and calls tools through the host and knows no domain and no single tool. The SDK does not say which caller subscribes; the asynchronous context does.',
  },
  {
    folder: 'http/exchange',
    folders: [],
    packages: ['node:http'],
    reason: 'How a body is read and an answer sent, for every protocol that is carried by HTTP.',
  },
  {
    folder: 'http',
    folders: ['kernel', 'contract', 'tools/runtime', 'http/pages', 'http/exchange'],
    packages: ['node:http', 'node:net', 'node:events'],
    reason: 'Routes and their checks: it lists and calls tools through the host; app hands it the other transports.',
  },
  {
    folder: 'http/pages',
    folders: ['kernel', 'contract', 'http', 'http/exchange', 'tools/runtime'],
    packages: ['node:http', 'node:net'],
    reason: 'Small pages for people, written by hand: no framework, no script.',
  },
  {
    folder: 'model-proxy',
    folders: ['kernel', 'contract', 'tools/runtime', 'http/exchange', 'model-proxy/*'],
    packages: ['@pydantic/genai-prices', 'undici', 'node:http', 'node:net'],
    reason:
      'Requests of programs to language models, passed on as they are: it knows the protocols of providers and no domain. It is loaded with the first request.',
  },
  {
    folder: 'model-proxy/protocols',
    folders: ['model-proxy'],
    packages: [],
    reason: 'What the addresses, answers and errors of each provider look like; pure.',
  },
  {
    folder: 'cli',
    folders: ['kernel', 'contract', 'audit'],
    packages: ['node:fs', 'node:path', 'node:util', 'smol-toml', 'yaml'],
    reason:
      'Words on a terminal. What a command does it is handed by app; proofs it can check by itself, offline. It reads the configurations of clients, of which some are TOML and YAML.',
  },
  {
    folder: 'app',
    folders: [
      'kernel',
      'contract',
      'accounts',
      'audit',
      'audit/fsck',
      'domains/*',
      'engine',
      'mail',
      'model-proxy',
      'model-proxy/*',
      'models',
      'search',
      'telemetry',
      'upstreams',
      'web-client',
      'stores/*',
      'backends/*',
      'supervisor',
      'supervisor/*',
      'tools',
      'tools/runtime',
      'mcp',
      'http',
      'http/pages',
      'cli',
      'app/*',
    ],
    packages: ['zod', 'yaml', 'node:crypto', 'node:fs', 'node:net', 'node:os', 'node:path', 'node:tls', 'node:util'],
    reason: 'The composition root: the only place that constructs and that reads the environment.',
  },
  {
    folder: 'app/commands',
    folders: [
      'kernel',
      'contract',
      'audit',
      'audit/fsck',
      'tools',
      'tools/runtime',
      'mcp',
      'http',
      'cli',
      'app',
      'app/*',
    ],
    packages: ['node:fs', 'node:path', 'node:net', 'node:os', 'node:stream', 'node:timers'],
    reason:
      'Each command puts together what it needs from app and speaks through cli; it reaches no store by itself. serve says the names of the machine, which is what it needs node:os for.',
  },
  {
    folder: 'app/remote',
    folders: ['kernel', 'contract', 'mcp', 'http', 'stores/files', 'app', 'app/ownership'],
    packages: [
      'node:child_process',
      'node:crypto',
      'node:fs',
      'node:http',
      'node:net',
      'node:os',
      'node:path',
      'node:stream',
      'node:timers',
    ],
    reason:
      'A server elsewhere, for commands that are clients: its address, the credential shown to it, signing in through a browser, and the lines of MCP over HTTP. It is loaded only with --url.',
  },
  {
    folder: 'app/ownership',
    folders: ['kernel', 'contract', 'mcp', 'tools/runtime'],
    packages: ['node:fs', 'node:net', 'node:os', 'node:path', 'node:timers', 'node:sqlite'],
    reason:
      'Several processes on one data directory: a lock, and a socket that carries the lines of the MCP transport.',
  },
]
