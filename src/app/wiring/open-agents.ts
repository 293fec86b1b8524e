import { readdir, readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { installedLanguages } from '../../backends/namespaces/installed-languages.ts'
import type { Embedder } from '../../contract/embedder.ts'
import type { ToolInvoker } from '../../contract/tool-invoker.ts'
import type { AgentManifest } from '../../domains/agents/manifest.ts'
import type { ActivityLog, AgentTemplate, ScheduleSetter } from '../../domains/agents/ports.ts'
import { type AgentRegistry, createAgentRegistry } from '../../domains/agents/registry.ts'
import { type AgentSearch, createAgentSearch } from '../../domains/agents/search.ts'
import { createTemplates } from '../../domains/agents/templates.ts'
import { skipOf } from '../../domains/executions/skip-judge.ts'
import { createRuntimeRegistry, type RuntimeRegistry } from '../../domains/platform/runtimes.ts'
import { createPlatformService, type PlatformDeps, type PlatformService } from '../../domains/platform/service.ts'
import { sqlAgentStore } from '../../stores/sql/agent-store.ts'
import { listImages } from '../../supervisor/images/image-folder.ts'
import type { AppDeps } from '../build-app.ts'
import type { Config } from '../config.ts'
import { displayedConfig } from '../displayed-config.ts'
import type { OpenedPolicies } from './open-policies.ts'

const templateFolder = new URL('../../../templates/agents/', import.meta.url)

export type OpenedAgents = Readonly<{
  registry: AgentRegistry
  platform: PlatformService
  /** Which image of the workspaces stands for `spec.runtime`. */
  runtimes: RuntimeRegistry
  /** For whatever else is described by a name, a description and labels. */
  search: AgentSearch
}>

export type AgentParts = Readonly<{
  embedder: Embedder | undefined
  /** Where the workspaces of this state have their images. */
  imageFolder: string
  policies: OpenedPolicies
  tools: ToolInvoker
  toolNames: ReadonlySet<string>
  activity: ActivityLog
  schedules: ScheduleSetter
  health: PlatformDeps['health']
  capabilities: readonly string[]
}>

/** The agents of this installation, and what it tells about itself. */
export function openAgents(deps: AppDeps, parts: AgentParts): OpenedAgents {
  const { config, logger, random } = deps
  const { embedder } = parts
  const search = createAgentSearch({ embedder, logger })
  const runtimes = createRuntimeRegistry({
    hostVersions: installedLanguages(),
    images: async () => ['host', ...(await listImages(parts.imageFolder)).map(({ name }) => name)],
  })
  const registry = createAgentRegistry({
    store: sqlAgentStore,
    activity: parts.activity,
    templates: createTemplates(readTemplates),
    search,
    random,
    toolNames: () => parts.toolNames,
    schedules: parts.schedules,
    runtimeProblem: runtimes.problem,
    sizeProblem: sizeProblemFor(config.workspaces),
    hasSecurityContext: (name) => parts.policies.contexts.find(name) !== undefined,
  })
  const platform = createPlatformService({
    languages: {
      agent: async () => {
        const { checkAgentManifest } = await import('../../domains/agents/manifest.ts')
        const { agentManifestJsonSchema } = await import('../../domains/agents/manifest-schema.ts')
        const { toolProblemOf } = await import('../../domains/agents/known-tools.ts')
        const { scheduleProblemOf } = await import('../../domains/agents/scheduled-input.ts')
        const check = (yaml: string) => {
          const checked = checkAgentManifest(yaml)
          if (!checked.ok) return checked
          const { manifest, warnings } = checked
          const problems = [scheduleProblemOf(manifest), toolProblemOf(manifest, parts.toolNames)?.message]
          return { errors: problems.filter((problem) => problem !== undefined), warnings }
        }
        return { jsonSchema: agentManifestJsonSchema, check }
      },
      workflow: async () => {
        const { checkWorkflowManifest } = await import('../../domains/workflows/manifest.ts')
        const { workflowManifestSchema } = await import('../../domains/workflows/manifest-schema.ts')
        return {
          jsonSchema: () => workflowManifestSchema as Readonly<Record<string, unknown>>,
          check: checkWorkflowManifest,
        }
      },
    },
    runtimes,
    tools: parts.tools,
    skipsJudge: (tool) => skipOf(config.judging, tool) !== undefined,
    health: parts.health,
    capabilities: () => [...parts.capabilities, embedder === undefined ? 'keyword_search' : 'semantic_search'],
    configuration: async () => displayedConfig(config, deps.configPath),
  })
  return { registry, platform, runtimes, search }
}

type Sizes = Pick<Config['workspaces'], 'max_vcpus' | 'max_memory_mb' | 'max_disk_gb'>

const sizeProblemFor =
  (most: Sizes) =>
  ({ cpuMillicores, memoryBytes, diskBytes }: AgentManifest['resources']): string | undefined => {
    const tooMuch = (field: string, setting: keyof Sizes, unit: string): string =>
      `spec.security.resources.${field}: a workspace here has at most ${most[setting]} ${unit} (workspaces.${setting} in the configuration).`
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
