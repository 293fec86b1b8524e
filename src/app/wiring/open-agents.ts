import { readdir, readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { installedLanguages } from '../../backends/namespaces/installed-languages.ts'
import type { Embedder } from '../../contract/embedder.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ToolInvoker } from '../../contract/tool-invoker.ts'
import type { Trust } from '../../contract/trust.ts'
import type { UserTeams } from '../../contract/user-teams.ts'
import type { KnownTools } from '../../domains/agents/known-tools.ts'
import type { AgentManifest } from '../../domains/agents/manifest.ts'
import type { ActivityLog, AgentTemplate, ScheduleSetter, ToolAssigner } from '../../domains/agents/ports.ts'
import { type AgentSearch, createAgentSearch } from '../../domains/agents/search.ts'
import { type AgentService, createAgentService } from '../../domains/agents/service.ts'
import { createTemplates } from '../../domains/agents/templates.ts'
import { type Models, problemOfModel } from '../../domains/executions/model.ts'
import { skipOf } from '../../domains/executions/skip-judge.ts'
import type { AssignmentDeps } from '../../domains/gateways/assignments.ts'
import { sourceFinder } from '../../domains/people/provider-tokens.ts'
import { createRuntimeRegistry, type RuntimeRegistry } from '../../domains/platform/runtimes.ts'
import { createPlatformService, type PlatformDeps, type PlatformService } from '../../domains/platform/service.ts'
import { createProfileService } from '../../domains/profiles/service.ts'
import { sqlAgentStore } from '../../stores/sql/agent-store.ts'
import { sqlProfileStore } from '../../stores/sql/profile-store.ts'
import { listImages } from '../../supervisor/images/image-folder.ts'
import type { ToolViews } from '../../tools/runtime/tool-views.ts'
import type { AppDeps } from '../build-app.ts'
import type { Config } from '../config.ts'
import { configView } from '../config-view.ts'
import type { OpenedPeople } from './open-people.ts'
import type { OpenedPolicies } from './open-policies.ts'
import { openToolAssignments } from './open-tool-assignments.ts'
import { tokenSourcesOf } from './provider-sign-in.ts'

const templateFolder = new URL('../../../templates/agents/', import.meta.url)

type OpenedAgents = Readonly<{
  registry: AgentService
  platform: PlatformService
  /** The workspace image of `spec.runtime`. */
  runtimes: RuntimeRegistry
  /** For anything with a name, a description and labels. */
  search: AgentSearch
}>

type AgentParts = Readonly<{
  embedder: Embedder | undefined
  rankTools: PlatformDeps['rankTools']
  /** Where the workspaces of this state have their images. */
  imageFolder: string
  policies: OpenedPolicies
  models: Pick<Models, 'requireAlias'>
  tools: ToolInvoker
  userTeams: UserTeams
  trust: Pick<Trust, 'hasReadUntrusted'>
  views: ToolViews
  noteToolChange: AssignmentDeps['noteChange']
  noteAccessChange: AssignmentDeps['noteChange']
  people: Pick<OpenedPeople, 'providers'>
  activity: ActivityLog
  schedules: ScheduleSetter
  health: PlatformDeps['health']
  capabilities: readonly string[]
}>

/** The agents of this installation, and its description of itself. */
export function openAgents(deps: AppDeps, parts: AgentParts): OpenedAgents {
  const { config, logger, random } = deps
  const { embedder } = parts
  const search = createAgentSearch({ embedder, logger })
  const runtimes = createRuntimeRegistry({
    hostVersions: installedLanguages,
    images: async () => ['host', ...(await listImages(parts.imageFolder)).map(({ name }) => name)],
  })
  const toolsFor = (principal: Principal): KnownTools => {
    const { tools, names } = parts.views.latest(principal)
    return {
      has: names.has,
      hasBeginning: (beginning) => tools.some(({ name }) => name.startsWith(beginning)),
      nearest: (name) => names.nearest(name, 1)[0],
    }
  }
  const modelProblem = (alias: string): string | undefined => problemOfModel(parts.models, alias)
  const registry = createAgentService({
    store: sqlAgentStore,
    profiles: sqlProfileStore,
    sharing: createProfileService({ store: sqlProfileStore, teams: parts.userTeams, random, trust: parts.trust }),
    tools: toolAssignerOf(parts),
    activity: parts.activity,
    templates: createTemplates(readTemplates),
    search,
    random,
    toolsFor,
    refreshTools: parts.tools.refresh,
    schedules: parts.schedules,
    runtimeProblem: runtimes.problem,
    sizeProblem: sizeProblemFor(config.workspaces),
    modelProblem,
    noteAccessChange: parts.noteAccessChange,
    hasSecurityContext: (name) => parts.policies.contexts.find(name) !== undefined,
  })
  const platform = createPlatformService({
    languages: {
      agent: async () => {
        const { checkAgentManifest } = await import('../../domains/agents/manifest.ts')
        const { agentManifestJsonSchema } = await import('../../domains/agents/manifest-schema.ts')
        const { toolProblemOf } = await import('../../domains/agents/known-tools.ts')
        const { scheduleProblemOf } = await import('../../domains/agents/scheduled-input.ts')
        const check = (yaml: string, principal: Principal) => {
          const checked = checkAgentManifest(yaml)
          if (!checked.ok) return checked
          const { manifest, warnings } = checked
          const problems = [scheduleProblemOf(manifest), toolProblemOf(manifest, toolsFor(principal))?.message]
          const unknownModel = modelProblem(manifest.runtime.model) ?? []
          return {
            errors: problems.filter((problem) => problem !== undefined),
            warnings: warnings.concat(unknownModel),
          }
        }
        return { jsonSchema: agentManifestJsonSchema, check }
      },
      workflow: async () => {
        const { checkWorkflowManifest } = await import('../../domains/workflows/manifest.ts')
        const { workflowManifestJsonSchema } = await import('../../domains/workflows/manifest-schema.ts')
        return { jsonSchema: workflowManifestJsonSchema, check: checkWorkflowManifest }
      },
    },
    runtimes,
    tools: parts.tools,
    rankTools: parts.rankTools,
    skipsJudge: (tool) => skipOf(config.judging, tool) !== undefined,
    health: parts.health,
    capabilities: () => [...parts.capabilities, embedder === undefined ? 'keyword_search' : 'semantic_search'],
    configuration: async () => configView(config, deps.configPath),
  })
  return { registry, platform, runtimes, search }
}

/** Tools of this server go into the manifest; those of other servers into a table, with their credentials. */
const toolAssignerOf = ({
  tools,
  views,
  people,
  noteToolChange,
}: Pick<AgentParts, 'tools' | 'views' | 'people' | 'noteToolChange'>): ToolAssigner => ({
  ...openToolAssignments({
    views,
    subjects: { sourceAt: sourceFinder(tokenSourcesOf(people.providers)) },
    noteChange: noteToolChange,
  }),
  isOwn: (toolId) => views.own.names.has(toolId),
  describe(principal, names) {
    const described = new Map(tools.describe(principal, names).map(({ name, description }) => [name, description]))
    return names.map((name) => ({ id: name, name, description: described.get(name) ?? null, catalogId: null }))
  },
})

type Sizes = Pick<Config['workspaces'], 'max_vcpus' | 'max_memory_mb' | 'max_disk_gb'>

const sizeProblemFor =
  (most: Sizes) =>
  ({ cpuMillicores, memoryBytes, diskBytes }: AgentManifest['resources']): string | undefined => {
    const tooMuch = (field: string, setting: keyof Sizes, unit: string): string =>
      `spec.security.resources.${field}: must be at most ${most[setting]} ${unit}, the limit of a workspace (workspaces.${setting} in the configuration).`
    if (cpuMillicores > most.max_vcpus * 1_000) return tooMuch('cpu', 'max_vcpus', 'processors')
    if (memoryBytes > most.max_memory_mb * 1024 ** 2) return tooMuch('memory', 'max_memory_mb', 'MiB')
    return diskBytes > most.max_disk_gb * 1024 ** 3 ? tooMuch('disk', 'max_disk_gb', 'GiB') : undefined
  }

async function readTemplates(): Promise<AgentTemplate[]> {
  const files = (await readdir(templateFolder)).filter((file) => file.endsWith('.yaml'))
  return Promise.all(
    files.map(async (file) => ({
      name: basename(file, '.yaml'),
      manifestYaml: await readFile(new URL(file, templateFolder), 'utf8'),
    })),
  )
}
