import { identityOf, type Principal } from '../../contract/principal.ts'
import { canSee, sharingScopes } from '../../contract/sharing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Deployment, McpServerStore, ToolList } from './ports.ts'

/** Whether its credentials are for the caller. An administrator sees every deployment, but other people's do not serve it. */
export function serves({ sharing }: Pick<Deployment, 'sharing'>, principal: Principal): boolean {
  if (sharing.scope === 'personal') return sharing.author === identityOf(principal)
  return sharing.scope === 'org' || sharing.teams.some((team) => principal.teams.includes(team))
}

/** Whether a call may use it where an assignment names it: that of a team serves others too, a personal one its author alone. */
export const servesAsAssigned = ({ sharing }: Pick<Deployment, 'sharing'>, principal: Principal): boolean =>
  sharing.scope !== 'personal' || sharing.author === identityOf(principal)

/** The caller's own, else a team's, else the organisation's. */
export const nearest = (principal: Principal, all: readonly Deployment[]): Deployment | undefined =>
  nearestFirst(all.filter((one) => serves(one, principal)))[0]

const nearestFirst = (all: readonly Deployment[]): readonly Deployment[] =>
  sharingScopes.flatMap((scope) => all.filter(({ sharing }) => sharing.scope === scope))

type ListStore = Pick<McpServerStore, 'findToolList'>

export const toolListOf = async (
  store: ListStore,
  tx: ReadTx | WriteTx,
  { tenant, catalogId, toolList }: Deployment,
): Promise<ToolList | undefined> =>
  toolList === null ? undefined : await store.findToolList(tx, tenant, catalogId, toolList)

/**
 * The tools of one server that the caller may know of, each with the digest of what the caller is told of it: those of the
 * deployment that its calls use, as that describes them. `all` adds those of other deployments that it can see; without it they
 * count only where the caller has none of its own.
 */
export async function knownTools(
  store: Pick<McpServerStore, 'listDeployments' | 'toolLists'>,
  tx: ReadTx | WriteTx,
  principal: Principal,
  catalogId: string,
  which: 'usable' | 'all',
): Promise<ToolList> {
  const { tenant } = principal
  const listed = (await store.listDeployments(tx, tenant, catalogId)).filter(({ toolList }) => toolList !== null)
  const usable = nearest(principal, listed)
  const seen = nearestFirst(listed.filter(({ sharing }) => canSee(principal, 'mcpServerInstallation', sharing)))
  const shared = seen.filter(({ sharing }) => sharing.scope !== 'personal')
  const chosen = which === 'usable' ? (usable === undefined ? shared : []) : [...shared, ...seen]
  const lists = await store.toolLists(tx, tenant, catalogId)
  const known = new Map<string, string>()
  for (const { toolList } of usable === undefined ? chosen : [usable, ...chosen]) {
    for (const [toolId, digest] of lists.get(toolList!) ?? []) if (!known.has(toolId)) known.set(toolId, digest)
  }
  return known
}
