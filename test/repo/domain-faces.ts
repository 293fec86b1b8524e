/**
 * The public face of each domain: the files that other folders may import. `ports.ts`, `rules.ts` and `service.ts` are in every
 * face; what a domain offers besides stands here. The composition root constructs, so it may import any file.
 *
 * `templating`, `manifests` and `runs` are libraries that domains share: their faces are long, because each file is one function that
 * several domains call. A barrel would load all of them for the sake of one.
 */
const alwaysPublic: readonly string[] = ['ports.ts', 'rules.ts', 'service.ts']

const faces: Readonly<Record<string, readonly string[]>> = {
  agents: ['manifest.ts', 'named-judges.ts', 'normalised-manifest.ts', 'search.ts'],
  executions: ['agent-principal.ts', 'judges.ts', 'model.ts', 'workspace.ts'],
  git: ['merge.ts'],
  identity: ['key-authenticator.ts', 'roles.ts', 'token.ts'],
  intents: ['authoring.ts'],
  log: ['log-recovery.ts'],
  'mcp-servers': ['runtime.ts', 'oauth.ts', 'upstream-content.ts', 'listed-tools.ts', 'tool-names.ts'],
  manifests: [
    'check-cron.ts',
    'env-values.ts',
    'findings.ts',
    'fit-shape.ts',
    'json-schema.ts',
    'named-secrets.ts',
    'output-handler.ts',
    'parse-cache.ts',
    'present-spelling.ts',
    'read-yaml.ts',
    'schema-defaults.ts',
    'schema-keywords.ts',
    'schema-violations.ts',
    'schema-work.ts',
    'units.ts',
    'versions.ts',
  ],
  policies: ['engine.ts'],
  trust: ['contexts.ts'],
  'security-contexts': ['policy-evaluator.ts', 'read-access-request.ts'],
  'model-proxies': [
    'directory.ts',
    'optimization-rule-directory.ts',
    'optimization-rules.ts',
    'provider-key-directory.ts',
    'provider-keys.ts',
    'virtual-keys.ts',
  ],
  profiles: ['access.ts'],
  runs: [
    'approvals.ts',
    'consensus.ts',
    'handler-effects.ts',
    'manifest-values.ts',
    'output-handlers.ts',
    'spawn-depth.ts',
    'tool-client.ts',
    'verdicts.ts',
    'volume-sizes.ts',
    'workspace-client.ts',
  ],
  secrets: ['links.ts'],
  server: ['clock-keeper.ts'],
  tasks: ['find-task.ts'],
  templating: [
    'bounded-yaml.ts',
    'shell-lines.ts',
    'template-names.ts',
    'template-operators.ts',
    'template-syntax.ts',
    'template-values.ts',
    'templates.ts',
    'work-meter.ts',
    'yaml-advice.ts',
    'yaml-library.ts',
  ],
  vault: ['requests.ts'],
  workspaces: ['backend.ts', 'core.ts', 'exec.ts', 'jobs.ts', 'output-text.ts', 'personal.ts', 'run.ts'],
}

/** Domains without a service, and why. Every other domain has its service in `service.ts`. */
export const domainsWithoutService: ReadonlyMap<string, string> = new Map([
  ['manifests', 'A library that agents and workflows share.'],
  ['runs', 'A library that executions, workflows and intents share.'],
  ['security-contexts', 'The pipeline evaluates them; the configuration defines them, and no tool changes them.'],
  ['templating', 'A library for the texts of manifests.'],
])

/** What `path`, below `src/`, is beyond: the domain whose private file it is. */
export function privateDomainOf(path: string): string | undefined {
  const [, domain, file] = /^domains\/([^/]+)\/(.+)$/.exec(path) ?? []
  if (domain === undefined || file === undefined) return undefined
  return alwaysPublic.includes(file) || faces[domain]?.includes(file) ? undefined : domain
}

/** Every file of every face, below `src/`, but for those that each domain may or may not have. */
export const publicFiles: readonly string[] = Object.entries(faces).flatMap(([domain, files]) =>
  files.map((file) => `domains/${domain}/${file}`),
)
