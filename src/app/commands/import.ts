import { clientFlags, requirePositional } from '../../cli/command.ts'
import { type ImportResult, readClientConfig, readConfigFile } from '../../cli/import-config.ts'
import { type ImportPlan, planOf } from '../../cli/import-plan.ts'
import { isRegistryServer, planOfRegistryServer } from '../../cli/import-registry.ts'
import { importProblemsText, importReport, importReportText } from '../../cli/import-report.ts'
import type { McpClient } from '../../cli/mcp-client.ts'
import { exitCodes, textTable } from '../../cli/terminal.ts'
import { AppError } from '../../contract/app-error.ts'
import type { ErrorKind } from '../../contract/error-codes.ts'
import { withClient } from './client.ts'
import { type Command, type CommandContext, pathOf, printJson } from './context.ts'

const spec = {
  name: 'import',
  positionals: 'FILE',
  positionalsMax: 1,
  summary: "Import the MCP servers of a client's configuration or of a server.json.",
  description:
    'Each server becomes an entry of the private registry and is deployed. Secrets in the file go into the encrypted store. A server whose name is taken is left as it is.',
  flags: {
    'dry-run': { type: 'boolean', description: 'Only show what is in the file; change nothing.' },
    'catalog-only': { type: 'boolean', description: 'Register the servers without deploying them.' },
    scope: { type: 'string', value: 'SCOPE', description: 'personal, team or org: who sees them (personal).' },
    team: { type: 'string', value: 'TEAM', description: 'The team of --scope team, by name or id; implies it.' },
    ...clientFlags,
  },
  examples: [
    'castellan import ~/.cursor/mcp.json',
    'castellan import ~/.codex/config.toml --dry-run',
    'castellan import server.json --catalog-only',
    'castellan import .mcp.json --team design',
  ],
} as const

export const command: Command = { spec, run }

type Outcome = Readonly<{ name: string; outcome: string; tools: number; detail: string; link?: string }>
/** `failure` is undefined if the server is there, also if it waits for values. */
type Taken = Readonly<{ outcome: Outcome; failure?: ErrorKind }>

async function run(context: CommandContext): Promise<number> {
  const file = requirePositional(context.parsed, 0, 'FILE', spec)
  const audience = audienceOf(context.parsed.text('scope'), context.parsed.text('team'))
  const document = await readConfigFile(pathOf(context, file))
  const isRegistry = isRegistryServer(document)
  const result: ImportResult = isRegistry
    ? { servers: [], problems: [] }
    : await readClientConfig(pathOf(context, file))
  if (context.parsed.isSet('dry-run') && !isRegistry) return showOnly(context, result)
  const plans = isRegistry
    ? [planOfRegistryServer(document)]
    : result.servers.filter(({ enabled }) => enabled).map(planOf)
  const disabled: readonly Outcome[] = result.servers
    .filter(({ enabled }) => !enabled)
    .map(({ name }) => ({ name, outcome: 'left out', tools: 0, detail: 'disabled in the file' }))
  if (context.parsed.isSet('dry-run')) {
    printJson(context, { servers: plans.map(({ create }) => create) })
    return 0
  }
  if (plans.length === 0) return showOnly(context, result)
  const taken = await withClient(context, async (client) => {
    const done: Taken[] = []
    for (const plan of plans) {
      const text = `starting ${plan.create.name}, ${done.length + 1} of ${plans.length}`
      done.push(await withProgress(context, text, () => takeOver(context, client, plan, audience)))
    }
    return done
  })
  const outcomes = [...taken.map(({ outcome }) => outcome), ...disabled]
  if (context.json) printJson(context, { servers: outcomes, problems: result.problems })
  else print(context, outcomes, result)
  const failure = taken.find((one) => one.failure !== undefined)?.failure
  return failure === undefined ? 0 : exitCodes[failure]
}

const TELL_MS = 500

/** The first start of a server downloads its package, which may take a minute. */
async function withProgress<T>({ terminal }: CommandContext, text: string, work: () => Promise<T>): Promise<T> {
  terminal.progress(text)
  const timer = setInterval(() => terminal.progress(text), TELL_MS)
  try {
    return await work()
  } finally {
    clearInterval(timer)
    terminal.progressDone()
  }
}

/** Who sees the servers, in the words of the two tools. Nothing said is theirs to decide. */
type Audience = Readonly<{ catalogue: object; deployment: object }>

function audienceOf(scope: string | undefined, team: string | undefined): Audience {
  if (scope !== undefined && !['personal', 'team', 'org'].includes(scope))
    throw new AppError('ERR_INVALID_INPUT', '--scope must be personal, team or org.', { field: 'scope' })
  if (team === undefined) {
    if (scope === 'team')
      throw new AppError('ERR_INVALID_INPUT', '--scope team needs --team with the name or id of the team.', {
        field: 'team',
      })
    const shared = scope === undefined ? {} : { scope }
    return { catalogue: shared, deployment: shared }
  }
  if (scope !== undefined && scope !== 'team')
    throw new AppError('ERR_INVALID_INPUT', `--team cannot be used with --scope ${scope}.`, { field: 'team' })
  return { catalogue: { scope: 'team', teams: [team] }, deployment: { scope: 'team', teamId: team } }
}

function showOnly(context: CommandContext, result: ImportResult): number {
  if (context.json) printJson(context, importReport(result))
  else context.terminal.out(importReportText(result))
  return result.servers.length === 0 && result.problems.some((problem) => problem.severity === 'error') ? 2 : 0
}

const outcomes: Readonly<Record<string, string>> = {
  success: 'deployed',
  pending: 'needs values',
  'discovering-tools': 'starting',
}

async function takeOver(
  { parsed }: CommandContext,
  client: McpClient,
  plan: ImportPlan,
  audience: Audience,
): Promise<Taken> {
  const { name } = plan.create
  const detail = plan.notes.join('; ')
  try {
    const { answer } = await client.callTool('create_mcp_server', { ...plan.create, ...audience.catalogue })
    if (parsed.isSet('catalog-only')) {
      const dropped = Object.keys(plan.values)
      const note = `not stored: the values of ${dropped.join(', ')}, which a deployment asks for`
      const notes = [...plan.notes, ...(dropped.length > 0 ? [note] : [])]
      return { outcome: { name, outcome: 'registered', tools: 0, detail: notes.join('; ') } }
    }
    const deployed = await client.callTool('deploy_mcp_server', {
      catalogId: answer['id'],
      ...audience.deployment,
      values: plan.values,
    })
    const { status, error, toolCount, link } = deployed.answer as {
      status: string
      error: string | null
      toolCount: number
      link?: { url: string }
    }
    const known = outcomes[status]
    const outcome = {
      name,
      outcome: known ?? 'error',
      tools: toolCount,
      detail: [error ?? '', detail].filter((text) => text !== '').join('; '),
      ...(link === undefined ? {} : { link: link.url }),
    }
    return known === undefined ? { outcome, failure: 'unavailable' } : { outcome }
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    if (error.code === 'ERR_ALREADY_EXISTS')
      return { outcome: { name, outcome: 'is there', tools: 0, detail: 'a server already has this name' } }
    const told = `${error.code}: ${error.message}`
    return { outcome: { name, outcome: 'failed', tools: 0, detail: told }, failure: error.entry.kind }
  }
}

function print({ terminal }: CommandContext, outcomes: readonly Outcome[], { problems }: ImportResult): void {
  const rows = outcomes.map(({ name, outcome, tools, detail }) => [name, outcome, String(tools), detail])
  terminal.out(textTable([['NAME', 'OUTCOME', 'TOOLS', ''], ...rows]))
  for (const { name, link } of outcomes) if (link !== undefined) terminal.out(`Enter what ${name} needs: ${link}\n`)
  terminal.out(importProblemsText(problems))
}
