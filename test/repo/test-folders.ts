/**
 * Where the tests of a folder are: beside its source, or in the folder of `test/` that mirrors it. A reader of a file finds
 * what tests it.
 */
export const mirrors: Readonly<Record<string, readonly string[]>> = {
  'agent-tools': ['domains/commands', 'domains/files', 'domains/web', 'web-client'],
  agents: ['domains/agents', 'domains/platform', 'domains/profiles'],
  backends: ['backends', 'supervisor'],
  engine: ['engine'],
  executions: ['domains/executions'],
  governance: [
    'domains/approvals',
    'domains/gateways',
    'domains/mcp-servers',
    'domains/policies',
    'domains/profiles',
    'domains/sanitising',
    'domains/secrets',
    'domains/trust',
    'upstreams',
  ],
  ledger: ['domains/log', 'domains/server', 'domains/skills', 'domains/tasks', 'domains/trail'],
  interactions: ['domains/interactions', 'telemetry'],
  limits: ['domains/limits'],
  'model-proxy': ['domains/model-proxies', 'model-proxy'],
  people: ['accounts', 'domains/people'],
  pipeline: ['tools/runtime'],
  schedules: ['domains/schedules'],
  seal: ['domains/seal', 'seal-client'],
  search: ['search', 'tools/runtime/search'],
  stores: ['stores'],
  teams: ['domains/teams'],
  workflows: ['domains/workflows', 'domains/intents'],
  workspaces: ['domains/workspaces', 'domains/git', 'domains/swarm'],
}

/** Folders of `test/` that are about the program as a whole, or what tests stand on. */
const wholes: readonly string[] = [
  'clients',
  'conformance',
  'contract',
  'e2e',
  'faults',
  'properties',
  'repo',
  'support',
]

/** Folders of `src/` that only a running program shows to work; `test/e2e` starts one. */
const shownByPrograms: readonly string[] = ['app/commands', 'http/pages', 'mail']

/** What is wrong with where tests are. Paths of tests are relative to the root, folders of the source to `src/`. */
export function misplaced(testPaths: readonly string[], sourceFolders: readonly string[]): string[] {
  const ofTests = [...new Set(testPaths.flatMap((path) => /^test\/([^/]+)\//.exec(path)?.[1] ?? []))]
  const unknown = ofTests.filter((folder) => !(folder in mirrors) && !wholes.includes(folder))
  const beside = testPaths.filter((path) => path.startsWith('src/')).map((path) => path.slice('src/'.length))
  const mirrored = ofTests.flatMap((folder) => mirrors[folder] ?? [])
  const isTested = (folder: string): boolean =>
    [...mirrored, ...shownByPrograms].some((source) => isIn(folder, source)) ||
    beside.some((path) => isIn(path, folder) || path.slice(0, path.lastIndexOf('/')) === folder.split('/')[0])
  return [
    ...unknown.map((folder) => `test/${folder} mirrors nothing: name its source in test/repo/test-folders.ts.`),
    ...sourceFolders
      .filter((folder) => !isTested(folder))
      .map((folder) => `src/${folder} has no tests beside it, and no folder of test/ mirrors it.`),
    ...Object.entries(mirrors)
      .flatMap(([folder, mirrored]) => mirrored.map((source) => ({ folder, source })))
      .filter(({ source }) => !sourceFolders.some((folder) => isIn(folder, source)))
      .map(({ folder, source }) => `test/${folder} mirrors src/${source}, which is not there.`),
  ]
}

const isIn = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`)
