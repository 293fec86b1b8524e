import type { Call } from '../../contract/call.ts'
import { canSee, type Sharing, sharingScopes } from '../../contract/sharing.ts'
import type { ToolAssignment } from '../../contract/tool-assignments.ts'
import { nameKey } from '../../kernel/name-key.ts'
import { knownTools, nearest, servesAsAssigned, toolListOf } from '../mcp-servers/listed-tools.ts'
import type { Deployment, McpServerStore, NamedTool, StoredTool, ToolList } from '../mcp-servers/ports.ts'
import { isNamed, nameBeside } from '../mcp-servers/tool-names.ts'
import type { Profile } from '../profiles/ports.ts'
import { ambiguousPattern, isForAll } from './rules.ts'

export type AssignableStore = Pick<
  McpServerStore,
  | 'findItem'
  | 'listItems'
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
/** What was read for one call, which may name very many tools. */
export type KnownLists = {
  /** The tools of each server that the caller may know of, and those of deployments. */
  readonly byId: Map<string, ToolList>
  /** Of all tools of the tenant. */
  names: readonly NamedTool[] | undefined
}
export const newKnownLists = (): KnownLists => ({ byId: new Map(), names: undefined })

/** Finds the tools of MCP servers that a caller may assign: those that a deployment lists which it can see. */
export function createAssignableTools(servers: AssignableStore) {
  async function knownOf({ principal, read }: Reading, catalogId: string, lists: KnownLists): Promise<ToolList> {
    let known = lists.byId.get(catalogId)
    if (known === undefined) {
      known = await knownTools(servers, read, principal, catalogId, 'all')
      lists.byId.set(catalogId, known)
    }
    return known
  }

  async function namesOf({ principal, read }: Reading, lists: KnownLists): Promise<readonly NamedTool[]> {
    lists.names ??= await servers.listToolNames(read, principal.tenant)
    return lists.names
  }

  /** What a deployment lists; undefined before it was connected. */
  async function listOf({ read }: Reading, deployment: Deployment, lists: KnownLists): Promise<ToolList | undefined> {
    const key = `${deployment.catalogId} ${deployment.toolList}`
    const list = lists.byId.get(key) ?? (await toolListOf(servers, read, deployment))
    if (list !== undefined) lists.byId.set(key, list)
    return list
  }

  /** By id, by the displayed name, or by a former one. "Not there" and "not yours" are the same answer. */
  async function findTool(reading: Reading, reference: string, lists: KnownLists): Promise<StoredTool | undefined> {
    const { read, principal } = reading
    const { tenant } = principal
    const isKnown = async ({ id, catalogId }: Pick<StoredTool, 'id' | 'catalogId'>): Promise<boolean> =>
      (await knownOf(reading, catalogId, lists)).has(id)
    const found = await servers.findTool(read, tenant, reference)
    if (found !== undefined) return (await isKnown(found)) ? found : undefined
    if (!reference.includes('__')) return undefined
    const all = await namesOf(reading, lists)
    const knownAmong = async (tools: readonly NamedTool[]): Promise<readonly NamedTool[]> => {
      const known: NamedTool[] = []
      for (const tool of tools) if (await isKnown(tool)) known.push(tool)
      return known
    }
    const named = await knownAmong(all.filter((tool) => isNamed(tool, reference)))
    const meant = named.length > 0 ? named : await knownAmong(all.filter(({ aliases }) => aliases.includes(reference)))
    const used = meant.length > 1 ? await usedAmong(reading, meant, lists) : meant
    const [first] = await widestFirst(reading, used.length > 0 ? used : meant)
    return first && (await servers.findTool(read, tenant, first.id))
  }

  /** Those that the caller's calls use: only they are in its view. */
  async function usedAmong(
    reading: Reading,
    tools: readonly NamedTool[],
    lists: KnownLists,
  ): Promise<readonly NamedTool[]> {
    const { read, principal } = reading
    const used: NamedTool[] = []
    for (const tool of tools) {
      const all = await servers.listDeployments(read, principal.tenant, tool.catalogId)
      const listed = all.filter(({ toolList }) => toolList !== null)
      const deployment = nearest(principal, listed)
      if (deployment !== undefined && (await listOf(reading, deployment, lists))?.has(tool.id)) used.push(tool)
    }
    return used
  }

  /** As names are decided in a view: those of servers that are shared more widely, and of several such those listed first. */
  async function widestFirst<Tool extends Pick<NamedTool, 'catalogId'>>(
    { read, principal }: Reading,
    tools: readonly Tool[],
  ): Promise<readonly Tool[]> {
    if (tools.length < 2) return tools
    const items = await servers.listItems(read, principal.tenant)
    const widest = items.toSorted((one, other) => widthOf(other.sharing) - widthOf(one.sharing))
    const ranks = new Map(widest.map(({ id }, rank) => [id, rank]))
    return tools.toSorted((one, other) => ranks.get(one.catalogId)! - ranks.get(other.catalogId)!)
  }

  /** Under the names that a view of these tools shows: where several have one name, the others get another. */
  async function namedApart<Tool extends Pick<NamedTool, 'id' | 'name' | 'catalogId'>>(
    reading: Reading,
    tools: readonly Tool[],
  ): Promise<readonly Tool[]> {
    const taken = new Set(tools.map(({ name }) => name))
    if (taken.size === tools.length) return tools
    taken.clear()
    return (await widestFirst(reading, tools)).map((tool) => {
      const name = taken.has(tool.name) ? nameBeside(tool) : tool.name
      taken.add(name)
      return { ...tool, name }
    })
  }

  /** One of these tools, by a name that a view of them shows, or by a former one. */
  async function findAmong<Tool extends NamedTool>(
    reading: Reading,
    tools: readonly Tool[],
    reference: string,
  ): Promise<Tool | undefined> {
    const named = tools.filter((tool) => isNamed(tool, reference))
    const meant = named.length > 0 ? named : tools.filter(({ aliases }) => aliases.includes(reference))
    const [first] = await widestFirst(reading, meant)
    return first
  }

  /** By id; or by the name of the tool's server, if the caller sees one deployment of it. */
  async function findDeployment(
    { principal, read }: Reading,
    { catalogId }: Pick<StoredTool, 'catalogId'>,
    reference: string,
  ): Promise<Deployment | 'several' | undefined> {
    const { tenant } = principal
    const isSeen = ({ sharing }: Deployment): boolean => canSee(principal, 'mcpServerInstallation', sharing)
    const byId = await servers.findDeployment(read, tenant, reference)
    if (byId !== undefined) return isSeen(byId) ? byId : undefined
    const item = await servers.findItem(read, tenant, catalogId)
    if (item === undefined || nameKey(item.name) !== nameKey(reference)) return undefined
    const seen = (await servers.listDeployments(read, tenant, item.id)).filter(isSeen)
    return seen.length > 1 ? 'several' : seen[0]
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
    const lists = newKnownLists()
    for (const input of inputs) {
      const all = await serverTools(reading, input.toolId, targetOf(input)?.sharing, lists)
      const meant = await listedByPin(reading, input, all, lists)
      expanded.push(...(meant.length === 0 ? [input] : meant.map(({ id }) => ({ ...input, toolId: id }))))
    }
    return expanded
  }

  /** Without those that the deployment does not list which the assignment names. */
  async function listedByPin(
    reading: Reading,
    { mcpServerId }: ToolAssignment,
    tools: readonly NamedTool[],
    lists: KnownLists,
  ): Promise<readonly NamedTool[]> {
    const [first] = tools
    if (first === undefined || (mcpServerId ?? null) === null) return tools
    const pin = await findDeployment(reading, first, mcpServerId!)
    if (pin === undefined || pin === 'several' || pin.catalogId !== first.catalogId) return tools
    const list = await listOf(reading, pin, lists)
    return list === undefined ? tools : tools.filter(({ id }) => list.has(id))
  }

  /** The tools that `server__*` means: of one server. */
  async function serverTools(
    reading: Reading,
    pattern: string,
    sharing: Sharing | undefined,
    lists: KnownLists,
  ): Promise<readonly NamedTool[]> {
    if (!pattern.endsWith('__*')) return []
    const beginning = pattern.slice(0, -1)
    const all = await namesOf(reading, lists)
    /** What the caller cannot see has no name, so that a former name counts where only others have it now. */
    const seenOf = async (tools: readonly NamedTool[]): Promise<readonly (readonly NamedTool[])[]> => {
      const found: NamedTool[][] = []
      for (const [catalogId, ofServer] of Map.groupBy(tools, (tool) => tool.catalogId)) {
        const known = await knownOf(reading, catalogId, lists)
        const seen = ofServer.filter(({ id }) => known.has(id))
        if (seen.length > 0) found.push(seen)
      }
      return found
    }
    const now = await seenOf(all.filter(({ name }) => name.startsWith(beginning)))
    const seen =
      now.length > 0
        ? now
        : await seenOf(all.filter(({ aliases }) => aliases.some((alias) => alias.startsWith(beginning))))
    const meant: (readonly NamedTool[])[] = []
    for (const tools of seen) {
      if (sharing === undefined || (await isUsableBy(reading, tools[0]!.catalogId, sharing))) meant.push(tools)
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
    const list = isTold ? await listOf(reading, pin, lists) : undefined
    const digest = (list ?? (await knownOf(reading, catalogId, lists))).get(id)
    return digest === undefined ? undefined : await servers.findDefinition(read, tenant, catalogId, digest)
  }

  return { findTool, findAmong, findDeployment, expand, definitionFor, listOf, namedApart }
}

const widthOf = ({ scope }: Sharing): number => sharingScopes.indexOf(scope)
