import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { isPlatformOperator, type Principal } from '../../contract/principal.ts'
import type { DescribedTool, ToolInvoker } from '../../contract/tool-invoker.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { RuntimeRegistry } from './runtimes.ts'
import { categoryOf, chosenTools, pageOf, SOURCE, type ToolFilters, tagsOf } from './tool-groups.ts'

type ManifestKind = 'agent' | 'workflow'
type SchemaKey = `${ManifestKind}/manifest/v1`

/** The schema and checks of one kind of manifest; loaded on first use. */
type ManifestLanguage = Readonly<{
  jsonSchema(): Readonly<Record<string, unknown>>
  check(yaml: string, principal: Principal): Readonly<{ errors: readonly string[]; warnings: readonly string[] }>
}>

export type PlatformDeps = Readonly<{
  languages: Readonly<Record<ManifestKind, () => Promise<ManifestLanguage>>>
  runtimes: RuntimeRegistry
  tools: Pick<ToolInvoker, 'describe' | 'refresh'>
  /** Ranked names of tools that match the query; `warning` says how they were found, if that matters. */
  rankTools(
    principal: Principal,
    request: Readonly<{ query: string; isAmong(name: string): boolean }>,
    signal: AbortSignal,
  ): Promise<Readonly<{ names: readonly string[]; total: number; warning?: string }>>
  /** Whether calls of the tool skip the judge in this installation. */
  skipsJudge(tool: Pick<DescribedTool, 'name' | 'skipJudge'>): boolean
  health(): Promise<Readonly<{ version: string; isHealthy: boolean }>>
  capabilities(): readonly string[]
  /** The configuration in force, without secrets. */
  configuration(): Promise<Readonly<{ path: string; yaml: string }>>
}>

export type PlatformService = ReturnType<typeof createPlatformService>

/** Describes the installation: manifests, runtimes, tools and configuration. */
export function createPlatformService(deps: PlatformDeps) {
  const toolRow = (tool: DescribedTool) => ({
    name: tool.name,
    description: tool.description,
    source: SOURCE,
    category: categoryOf(tool),
    tags: tagsOfTool(tool),
    skip_judge: deps.skipsJudge(tool),
  })
  const tagsOfTool = (tool: DescribedTool) => tagsOf(tool, deps.skipsJudge(tool))
  const chosen = async ({ principal }: Call, filters: ToolFilters) => {
    await deps.tools.refresh(principal)
    return chosenTools(deps.tools.describe(principal), tagsOfTool, filters)
  }

  const ranked = async (call: Call, among: readonly DescribedTool[], query: string) => {
    const byName = new Map(among.map((tool) => [tool.name, tool]))
    const request = { query, isAmong: (name: string) => byName.has(name) }
    const { names, total, warning } = await deps.rankTools(call.principal, request, call.signal)
    if (warning !== undefined) call.warn(warning)
    return { tools: names.map((name) => byName.get(name)!), total }
  }

  return {
    async getSchema(input: Readonly<{ key: SchemaKey }>) {
      const language = await deps.languages[input.key.split('/')[0] as ManifestKind]()
      return language.jsonSchema() as Readonly<Record<string, Json>>
    },

    async validate(call: Call, input: Readonly<{ kind: ManifestKind; manifest_yaml: string }>) {
      await deps.tools.refresh(call.principal)
      const { errors, warnings } = (await deps.languages[input.kind]()).check(input.manifest_yaml, call.principal)
      for (const warning of warnings) call.warn(warning)
      return errors.length === 0
        ? { valid: true, errors: null, warnings: [...warnings] }
        : { valid: false, errors: [...errors], warnings: [...warnings] }
    },

    async listRuntimes(input: Readonly<{ language?: string | undefined }>) {
      const rows = await deps.runtimes.list(input.language)
      return {
        tool: 'aegis.runtime.list' as const,
        runtimes: rows.map(({ resolvedImage, ...row }) => ({
          ...row,
          available: resolvedImage !== null,
          resolved_image: resolvedImage,
        })),
        custom_runtime_supported: true,
      }
    },

    async listTools(call: Call, input: ToolFilters) {
      return { tool: 'aegis.tools.list' as const, ...pageOf((await chosen(call, input)).map(toolRow), input) }
    },

    async searchTools(call: Call, input: ToolFilters & Readonly<{ query?: string | undefined }>) {
      const { query = '' } = input
      const among = await chosen(call, input)
      const named = toolsNamedBy(among, query)
      const found = named === undefined ? await ranked(call, among, query) : { tools: named, total: named.length }
      const { tools } = pageOf(found.tools.map(toolRow), input)
      return { tool: 'aegis.tools.search' as const, query, tools, total: found.total }
    },

    async info() {
      const { version, isHealthy } = await deps.health()
      return {
        version,
        status: isHealthy ? ('healthy' as const) : ('unhealthy' as const),
        capabilities: [...deps.capabilities()],
      }
    },

    async configuration(principal: Principal) {
      if (!isPlatformOperator(principal)) {
        throw new AppError(
          'ERR_PERMISSION_DENIED',
          'The configuration is for operators of the installation (tenant local); ask one of them.',
        )
      }
      const { path, yaml } = await deps.configuration()
      return { config_path: path, content_yaml: yaml }
    },
  }
}

/**
 * The tools that a query names: all for an empty one, those of a pattern such as `fs.*`, and the one whose name it is. Undefined for
 * a query that says what a tool should do.
 */
function toolsNamedBy(tools: readonly DescribedTool[], query: string): readonly DescribedTool[] | undefined {
  const text = query.trim().toLowerCase()
  if (text === '') return tools
  if (/^[a-z0-9_.*]+$/.test(text) && text.includes('*')) return tools.filter(({ name }) => fitsPattern(name, text))
  const exact = tools.filter(({ name }) => name === text)
  return exact.length > 0 ? exact : undefined
}

/** Walks the parts between the stars, so that no pattern takes long. */
function fitsPattern(name: string, pattern: string): boolean {
  const parts = pattern.split('*')
  if (!name.startsWith(parts[0]!)) return false
  let at = parts[0]!.length
  for (const part of parts.slice(1, -1)) {
    const next = name.indexOf(part, at)
    if (next < 0) return false
    at = next + part.length
  }
  return name.length - at >= parts.at(-1)!.length && name.endsWith(parts.at(-1)!)
}
