import type { Call } from '../../contract/call.ts'
import { canSee, type Sharing, sharingScopes } from '../../contract/sharing.ts'
import type { ToolAssignment } from '../../contract/tool-assignments.ts'
import { knownTools, nearest, servesAsAssigned, toolListOf } from '../mcp-servers/listed-tools.ts'
import type { McpServerStore, NamedTool, StoredTool, ToolList } from '../mcp-servers/ports.ts'
import { nameBeside } from '../mcp-servers/tool-names.ts'
import type { Profile } from '../profiles/ports.ts'
import { ambiguousPattern, isForAll } from './rules.ts'

export type AssignableStore = Pick<
  McpServerStore,
  | 'findItem'
  | 'findTool'
  | 'listToolNames'
  | 'findDeployment'
  | 'listDeployments'
  | 'toolLists'
  | 'findToolList'
  | 'findDefinition'
>

type Reading = Pick<Call, 'principal' | 'read'>
type Target = Pick<Profile, 'sharing'>
/** The tools of each server that the caller may know of, as far as they were read for this call. */
export type KnownLists = Map<string, ToolList>

/** Finds the tools of MCP servers that a caller may assign: those that a deployment lists which it can see. */
export function createAssignableTools(servers: AssignableStore) {
  async function knownOf({ principal, read }: Reading, catalogId: string, lists: KnownLists): Promise<ToolList> {
    let known = lists.get(catalogId)
    if (known === undefined) {
      known = await knownTools(servers, read, principal, catalogId, 'all')
      lists.set(catalogId, known)
    }
    return known
  }

  /** By id, by the displayed name, or by a former one. "Not there" and "not yours" are the same answer. */
  async function findTool(
    reading: Reading,
    reference: string,
    lists: KnownLists = new Map(),
  ): Promise<StoredTool | undefined> {
    const { read, principal } = reading
    const { tenant } = principal
    const isKnown = async ({ id, catalogId }: Pick<StoredTool, 'id' | 'catalogId'>): Promise<boolean> =>
      (await knownOf(reading, catalogId, lists)).has(id)
    const found = await servers.findTool(read, tenant, reference)
    if (found !== undefined) return (await isKnown(found)) ? found : undefined
    if (!reference.includes('__')) return undefined
    const all = await servers.listToolNames(read, tenant)
    const knownAmong = async (tools: readonly NamedTool[]): Promise<readonly NamedTool[]> => {
      const known: NamedTool[] = []
      for (const tool of tools) if (await isKnown(tool)) known.push(tool)
      return known
    }
    const named = await knownAmong(all.filter((tool) => tool.name === reference || nameBeside(tool) === reference))
    const meant = named.length > 0 ? named : await knownAmong(all.filter(({ aliases }) => aliases.includes(reference)))
    const [first] = await widestFirst(reading, meant)
    return first && (await servers.findTool(read, tenant, first.id))
  }

  /** As names are decided in a view: the tool of the server that the caller uses and that is shared most widely has it. */
  async function widestFirst({ read, principal }: Reading, tools: readonly NamedTool[]): Promise<readonly NamedTool[]> {
    if (tools.length < 2) return tools
    const ranks = new Map<string, number>()
    for (const { catalogId } of tools) {
      const item = await servers.findItem(read, principal.tenant, catalogId)
      const used = nearest(principal, await servers.listDeployments(read, principal.tenant, catalogId))
      const width = sharingScopes.indexOf(item!.sharing.scope)
      ranks.set(catalogId, used === undefined ? width - sharingScopes.length : width)
    }
    return tools.toSorted((one, other) => ranks.get(other.catalogId)! - ranks.get(one.catalogId)!)
  }

  /**
   * `server__*` stands for the present tools of the server, also by its former name; one that matches nothing stays, and is not found.
   * It means only a server that all callers of the target can use.
   */
  async function expand<Input extends ToolAssignment>(
    reading: Reading,
    inputs: readonly Input[],
    targetOf: (input: Input) => Target | undefined,
  ): Promise<Input[]> {
    const expanded: Input[] = []
    const lists: KnownLists = new Map()
    for (const input of inputs) {
      const meant = await serverTools(reading, input.toolId, targetOf(input)?.sharing, lists)
      expanded.push(...(meant.length === 0 ? [input] : meant.map(({ id }) => ({ ...input, toolId: id }))))
    }
    return expanded
  }

  /** The tools that `server__*` means: of one server. */
  async function serverTools(
    reading: Reading,
    pattern: string,
    sharing: Sharing | undefined,
    lists: KnownLists,
  ): Promise<readonly NamedTool[]> {
    if (!pattern.endsWith('__*')) return []
    const { read, principal } = reading
    const beginning = pattern.slice(0, -1)
    const all = await servers.listToolNames(read, principal.tenant)
    const now = all.filter(({ name }) => name.startsWith(beginning))
    const before = all.filter(({ aliases }) => aliases.some((alias) => alias.startsWith(beginning)))
    const byServer = Map.groupBy(now.length > 0 ? now : before, ({ catalogId }) => catalogId)
    const seen: NamedTool[][] = []
    const meant: NamedTool[][] = []
    for (const [catalogId, tools] of byServer) {
      const known = await knownOf(reading, catalogId, lists)
      const found = tools.filter(({ id }) => known.has(id))
      if (found.length === 0) continue
      seen.push(found)
      if (sharing === undefined || (await isUsableBy(reading, catalogId, sharing))) meant.push(found)
    }
    if (meant.length === 1) return meant[0]!
    if (seen.length === 0) return []
    throw ambiguousPattern(
      (meant.length === 0 ? seen : meant).map(([tool]) => tool!.catalogId),
      meant.length === 0,
    )
  }

  /** Whether all callers of a target can see the server or use a deployment of it. */
  async function isUsableBy({ read, principal }: Reading, catalogId: string, target: Sharing): Promise<boolean> {
    const item = await servers.findItem(read, principal.tenant, catalogId)
    if (item === undefined) return false
    const deployments = await servers.listDeployments(read, principal.tenant, catalogId)
    return [item, ...deployments].some(({ sharing }) => isForAll(sharing, target))
  }

  /** What the caller may know of a tool: what the pinned deployment says of it, or its own. */
  async function definitionFor(reading: Reading, tool: StoredTool, deploymentId: string | null, lists: KnownLists) {
    const { principal, read } = reading
    const { tenant, id, catalogId } = tool
    const pin = deploymentId === null ? undefined : await servers.findDeployment(read, tenant, deploymentId)
    const isTold =
      pin !== undefined && (canSee(principal, 'mcpServerInstallation', pin.sharing) || servesAsAssigned(pin, principal))
    const list = isTold ? await toolListOf(servers, read, pin) : undefined
    const digest = (list ?? (await knownOf(reading, catalogId, lists))).get(id)
    return digest === undefined ? undefined : await servers.findDefinition(read, tenant, catalogId, digest)
  }

  return { findTool, expand, definitionFor }
}
