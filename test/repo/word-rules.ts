/** Packages that belong to one place, whatever a row above says. */
export type PackageOwner = Readonly<{ package: string; folders: readonly string[]; reason: string }>

export const packageOwners: readonly PackageOwner[] = [
  {
    package: 'pg',
    folders: ['stores/postgres'],
    reason: 'A second user would tie another layer to PostgreSQL.',
  },
  {
    package: 'node:sqlite',
    folders: ['stores/sqlite', 'app/ownership'],
    reason: 'A second user would tie another layer to SQLite. The ownership lock uses its file lock, not its tables.',
  },
  {
    package: 'kysely',
    folders: ['stores/sql'],
    reason: 'Statements are built in one place, where each takes its tenant.',
  },
  {
    package: '@modelcontextprotocol/server',
    folders: ['mcp'],
    reason: 'The SDK changes with the protocol; only the protocol’s own folder may have to change with it.',
  },
  {
    package: 'node:child_process',
    folders: ['supervisor', 'supervisor/egress', 'supervisor/images', 'backends/namespaces', 'app/remote'],
    reason:
      'Programs are started behind the port of the workspaces and nowhere else. The one exception is the browser of the person who signs in on the command line.',
  },
  {
    package: 'node:https',
    folders: ['web-client', 'app/remote'],
    reason:
      'The web is called from one guarded place, which judges every address. The command line calls the server that its user names.',
  },
]

/** Names that only some folders may use. `app` and the like cover the folders below them; a file is named whole. */
export type WordRule = Readonly<{
  id: string
  /** Dotted names, read or called. */
  uses?: readonly string[]
  /** Constructors called without an argument. */
  newWithoutArgument?: readonly string[]
  /** Bindings imported from a module. */
  imports?: Readonly<{ from: readonly string[]; names: readonly string[] }>
  folders: readonly string[]
  reason: string
  instead: string
}>

export const wordRules: readonly WordRule[] = [
  {
    id: 'environment',
    uses: ['process.env'],
    folders: ['app', 'main.ts', 'supervisor/main.ts'],
    reason: 'Configuration is read once, checked once and handed on.',
    instead: 'Add a field to src/app/config-schema.ts and take the value in deps.',
  },
  {
    id: 'time',
    uses: ['Date.now', 'performance.now', 'process.hrtime', 'process.uptime'],
    newWithoutArgument: ['Date'],
    folders: ['kernel'],
    reason: 'Whoever reads the clock cannot be tested without waiting.',
    instead: 'Take a Clock in deps, or the call’s nowMs.',
  },
  {
    id: 'chance',
    uses: ['Math.random', 'crypto.randomUUID', 'crypto.getRandomValues'],
    imports: { from: ['node:crypto'], names: ['randomBytes', 'randomUUID', 'randomInt', 'randomFillSync'] },
    folders: ['kernel'],
    reason: 'What is drawn at random cannot be repeated from a seed.',
    instead: 'Take a Random in deps.',
  },
  {
    id: 'outbound',
    uses: ['fetch', 'globalThis.fetch', 'WebSocket', 'EventSource'],
    imports: { from: ['node:http'], names: ['request', 'get', 'Agent'] },
    folders: [
      'accounts',
      'model-proxy',
      'models',
      'seal-client',
      'search',
      'supervisor/egress',
      'telemetry',
      'web-client',
    ],
    reason:
      'The program calls nobody but what the operator names; the ways out for workspaces and for web.fetch are guarded places.',
    instead: 'Decide on that place first, and write down why it is needed.',
  },
  {
    id: 'standard-output',
    uses: ['console', 'process.stdout'],
    folders: ['cli', 'main.ts'],
    reason: 'On stdio, standard output is the protocol: one stray line breaks the connection.',
    instead: 'Take a Logger in deps.',
  },
  {
    id: 'exit',
    uses: ['process.exit', 'process.exitCode', 'process.abort'],
    folders: ['cli', 'main.ts', 'supervisor/main.ts'],
    reason: 'Only the outermost layer knows what is still under way.',
    instead: 'Throw an AppError, or resolve and let the caller decide.',
  },
]

/** From a domain, a store takes the port it implements and the rules of its values, never a service. */
export const storeMayImportFromDomain = /\/(ports|rules)\.ts$/

/**
 * Known breaches. The list may only shrink: an entry that is no longer needed fails the test.
 * `rule` is the id that the violation names.
 */
export type LayerException = Readonly<{ path: string; rule: string; reason: string }>

export const layerExceptions: readonly LayerException[] = [
  {
    path: 'src/app/load-fixtures.ts',
    rule: 'package',
    reason: 'The conformance suite brings its own tools as a module, named by a variable that nobody else sets.',
  },
  {
    path: 'src/stores/files/atomic-file.ts',
    rule: 'chance',
    reason: 'A temporary file needs a name that no other process has; nothing is derived from it.',
  },
  {
    path: 'src/stores/files/transfer-folder.ts',
    rule: 'chance',
    reason: 'A temporary file needs a name that no other process has; nothing is derived from it.',
  },
]
