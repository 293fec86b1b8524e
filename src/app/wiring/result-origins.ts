import type { Database } from '../../contract/database.ts'
import { identityOf, type Principal } from '../../contract/principal.ts'
import type { PolicyTool, ReadSource } from '../../contract/tool-policies.ts'
import type { ContextKey, Trust } from '../../contract/trust.ts'
import { teamsOfNotes } from '../../domains/vault/team-folders.ts'
import { personalName } from '../../domains/workspaces/personal.ts'
import { isUuid } from '../../domains/workspaces/rules.ts'
import { sqlApprovalStore } from '../../stores/sql/approval-store.ts'
import { sqlRunStore } from '../../stores/sql/run-store.ts'
import { sqlTeamStore } from '../../stores/sql/team-store.ts'
import { sqlTrustStore } from '../../stores/sql/trust-store.ts'
import { sqlWorkspaceStore } from '../../stores/sql/workspace-store.ts'
import { type NamedIds, namedIds } from '../../tools/runtime/named-ids.ts'

type Parts = Readonly<{ trust: Trust; database: Pick<Database, 'read'> }>
/** `args` are undefined where the call is not known. */
type CalledResult = Readonly<{ principal: Principal; args: unknown; value: unknown }>

/** Undefined if a trusted origin is known; without `from`, the origin is not. */
type Origin = Readonly<{ from?: ContextKey }>

/**
 * Whether a result of one of our tools, of which only the call and the text are known, shows what an untrusted caller wrote. The ids
 * in both say where it was read, as they say it to the pipeline. What others wrote is in the result and can name ids too, so those only
 * add contexts: what makes a result trusted is named by the call, or is missing in a result that is whole. Where that is not known,
 * what its caller may have read counts.
 */
export function createResultOrigins({ trust, database: { read } }: Parts) {
  const sources: Readonly<Record<Exclude<ReadSource, 'unnamed'>, Source>> = {
    workspace: { fields: WORKSPACE_FIELDS, contextsOf: workspacesOf, unnamed: ownWorkspace },
    run: { fields: ['execution_id', 'pipeline_execution_id', 'forked_from'], contextsOf: runsOf },
    approval: { fields: ['id', 'execution_id'], contextsOf: approvalsOf },
    team: { fields: ['name'], onlyArguments: true, contextsOf: teamsOf },
  }

  async function workspacesOf({ tenant }: Principal, name: string): Promise<readonly ContextKey[] | undefined> {
    if (isUuid(name)) return [`workspace:${name.toLowerCase()}`]
    const found = await sqlWorkspaceStore.findWorkspaceByName(read, tenant, name)
    return found && [`workspace:${found.id}`]
  }

  /** Tools without an argument for a workspace use that of their caller. */
  async function ownWorkspace(principal: Principal): Promise<readonly ContextKey[] | undefined> {
    const { tenant, workspaceId } = principal
    if (workspaceId !== undefined) return [`workspace:${workspaceId}`]
    const found = await sqlWorkspaceStore.findWorkspaceByName(read, tenant, personalName(principal))
    return found?.owner === identityOf(principal) ? [`workspace:${found.id}`] : undefined
  }

  /** Trust is that of the whole tree of a run. A run that is gone is known by its own id. */
  async function runsOf({ tenant }: Principal, id: string): Promise<readonly ContextKey[]> {
    const found = await sqlRunStore.findRun(read, tenant, id.toLowerCase())
    return [`execution:${found?.rootId ?? id.toLowerCase()}`]
  }

  async function approvalsOf(principal: Principal, id: string): Promise<readonly ContextKey[]> {
    const found = await sqlApprovalStore.findApproval(read, principal.tenant, id.toLowerCase())
    return found === undefined ? await runsOf(principal, id) : [found.context]
  }

  async function teamsOf({ tenant }: Principal, name: string): Promise<readonly ContextKey[] | undefined> {
    const members = await sqlTeamStore.listMembers(read, tenant, name)
    // A team that is gone has left no members by whom to judge what they answered.
    if (members.length === 0) return undefined
    return members.flatMap(({ workspaceId }) => (workspaceId === null ? [] : [`workspace:${workspaceId}` as const]))
  }

  async function firstTainted(tenant: Principal['tenant'], contexts: readonly ContextKey[]) {
    for (const context of contexts) if (await trust.isTainted(tenant, context)) return context
    return undefined
  }

  async function taintedSource(reads: ReadSource, called: CalledResult): Promise<Origin | undefined> {
    if (reads === 'unnamed') return await unknownOrigin(called)
    const { principal } = called
    const { contextsOf, unnamed, ...where } = sources[reads]
    const { called: named, displayed, isWhole } = idsIn(called, where)
    const isOwn = named.length === 0 && called.args !== undefined
    const own = isOwn ? await unnamed?.(principal) : undefined
    const ownFrom = own && (await firstTainted(principal.tenant, own))
    if (ownFrom !== undefined) return { from: ownFrom }
    let isKnown = named.length > 0 || own !== undefined || (unnamed === undefined && isWhole)
    for (const [index, id] of [...named, ...displayed].entries()) {
      const contexts = await contextsOf(principal, id)
      if (contexts === undefined && index < named.length) isKnown = false
      const from = contexts && (await firstTainted(principal.tenant, contexts))
      if (from !== undefined) return { from }
    }
    return isKnown ? undefined : await unknownOrigin(called)
  }

  async function taintedItem({ as, fields }: Carried, called: CalledResult): Promise<Origin | undefined> {
    // Members of a team have names too.
    const { called: named, displayed, isWhole } = idsIn(called, { fields, onlyArguments: as === 'team' })
    const { tenant } = called.principal
    const contexts = [...named, ...displayed].flatMap((id): ContextKey[] => [
      `${as}:${id}`,
      ...(as === 'note' ? [...teamsOfNotes([id])].map((team): ContextKey => `team:${team}`) : []),
    ])
    const from = await firstTainted(tenant, contexts)
    if (from !== undefined) return { from }
    return named.length === 0 && !isWhole ? await unknownOrigin(called) : undefined
  }

  /** What others wrote may be in it. For a key what it has ever read counts, for others anything untrusted of the organisation. */
  async function unknownOrigin({ principal }: CalledResult): Promise<Origin | undefined> {
    const isUntrusted =
      trust.credentialOf(principal) === undefined
        ? (await sqlTrustStore.listTaints(read, principal.tenant, 1)).length > 0
        : await trust.hasReadUntrusted(principal)
    return isUntrusted ? {} : undefined
  }

  async function find({ carries, reads }: Declared, called: CalledResult): Promise<Origin | undefined> {
    const { principal } = called
    // The open connections of a key share their trust, and one of them made the call.
    if (trust.credentialOf(principal) !== undefined && (await trust.isUntrusted(principal)))
      return { from: trust.contextOf(principal) }
    return (
      (carries && (await taintedItem(carries, called))) ?? (reads && (await taintedSource(reads, called))) ?? undefined
    )
  }

  return {
    /** Answers at once for a tool that shows nothing of others, and in an organisation where nothing is untrusted. */
    untrustedOriginOf({ origin, builtIn }: PolicyTool, called: CalledResult): undefined | Promise<Origin | undefined> {
      if (origin !== 'platform' || !trust.mayHaveTaints(called.principal.tenant)) return undefined
      const { carries, reads } = builtIn ?? {}
      return carries === undefined && reads === undefined ? undefined : find({ carries, reads }, called)
    },
  }
}

type Declared = Readonly<{ carries: Carried | undefined; reads: ReadSource | undefined }>
type Carried = NonNullable<NonNullable<PolicyTool['builtIn']>['carries']>
type Where = Readonly<{ fields: readonly string[]; onlyArguments?: boolean }>
type Source = Where &
  Readonly<{
    contextsOf(principal: Principal, id: string): Promise<readonly ContextKey[] | undefined>
    /** The contexts of a call that names none. */
    unnamed?(principal: Principal): Promise<readonly ContextKey[] | undefined>
  }>

const WORKSPACE_FIELDS = [
  ...['workspace_id', 'workspace_ids', 'golden_workspace', 'golden_workspace_id', 'merge_target'],
  ...['source_workspaces', 'target_workspace', 'source_workspace_id'],
]

const idsIn = ({ args, value }: CalledResult, { fields, onlyArguments }: Where): NamedIds =>
  namedIds(fields, args, onlyArguments === true ? undefined : value)
