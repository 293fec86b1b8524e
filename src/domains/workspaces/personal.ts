import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import type { Principal } from '../../contract/principal.ts'
import { failureOf, type ToolInvoker } from '../../contract/tool-invoker.ts'
import { WORKSPACE_FOLDER } from '../../contract/workspace-path.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { createSingleFlight } from '../../kernel/single-flight.ts'
import type { Workspace } from './ports.ts'
import { identityOf, quoted } from './rules.ts'
import type { WorkspaceService } from './service.ts'

type PersonalWorkspaceDeps = Readonly<{
  workspaces: Pick<WorkspaceService, 'findOwn' | 'resolve' | 'resolveAssigned' | 'withFiles'>
  invoker: Pick<ToolInvoker, 'call'>
}>

/** The workspace of a caller's files and commands. */
export type PersonalWorkspaces = Readonly<{ of(call: Call): Promise<Workspace> }>

const PREPARED_MAX = 10_000
const POLL_MS = 50
const POLLS_MAX = 600

/**
 * The workspace that a caller was assigned, or its personal one: created at its first use, and started when it is needed. It is
 * created through the public tool, as the caller: with its permissions and quota, and in the log.
 */
export function createPersonalWorkspaces({ workspaces, invoker }: PersonalWorkspaceDeps): PersonalWorkspaces {
  const underWay = createSingleFlight<void>()
  const prepared = new Set<string>()

  /** Concurrent first uses create one workspace. */
  function once(call: Call, name: string, work: () => Promise<void>): Promise<void> {
    return underWay.run(`${call.principal.tenant}/${name}`, work)
  }

  async function ask(call: Call, tool: string, args: object): Promise<ErrorCode | undefined> {
    const { securityContexts: _, ...principal } = call.principal
    // Another caller may wait for the same workspace, and must not fail because the first was cancelled.
    const { signal } = new AbortController()
    const answer = await invoker.call(principal, tool, args, { transport: 'engine', signal })
    if (!answer.isError || answer.code === 'ERR_ALREADY_EXISTS') return answer.code
    throw failureOf(answer, 'Your personal workspace is not available. ')
  }

  async function personal(call: Call): Promise<Workspace> {
    const name = personalName(call.principal)
    await underWay.pending(`${call.principal.tenant}/${name}`)
    let found = await workspaces.findOwn(call, name)
    if (found === undefined) {
      await once(call, name, async () => void (await ask(call, 'workspace_create', { name })))
      found = await workspaces.findOwn(call, name)
      if (found === undefined) throw taken(name)
    }
    // Another process is creating it.
    for (let polls = 0; found?.state === 'creating' && polls < POLLS_MAX && !call.signal.aborted; polls++) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
      found = await workspaces.findOwn(call, name)
    }
    const workspace = await workspaces.resolve(call, name)
    if (workspace.state !== 'stopped') return workspace
    await once(call, name, async () => void (await ask(call, 'workspace_start', { workspace_id: workspace.id })))
    return await workspaces.resolve(call, name)
  }

  async function prepare(call: Call, workspace: Workspace): Promise<Workspace> {
    if (prepared.has(workspace.id)) return workspace
    await workspaces.withFiles(call, workspace, [[WORKSPACE_FOLDER]], (files) => files.makeDirectory(WORKSPACE_FOLDER))
    if (prepared.size >= PREPARED_MAX) prepared.clear()
    prepared.add(workspace.id)
    return workspace
  }

  return {
    async of(call) {
      const { workspaceId } = call.principal
      const workspace =
        workspaceId === undefined ? await personal(call) : await workspaces.resolveAssigned(call, workspaceId)
      return await prepare(call, workspace)
    },
  }
}

/** One for each owner. A digest replaces characters that a name cannot have. */
export function personalName(principal: Principal): string {
  const owner = identityOf(principal)
  const plain = owner.replace(':', '-')
  if (/^[A-Za-z0-9._-]{1,100}$/.test(plain)) return `personal-${plain}`
  return `personal-${plain.replaceAll(/[^A-Za-z0-9._-]/g, '-').slice(0, 80)}-${sha256Hex(owner).slice(0, 12)}`
}

const taken = (name: string): AppError =>
  new AppError(
    'ERR_ALREADY_EXISTS',
    `Your personal workspace would be named ${quoted(name)}, but another owner's workspace has that name. Ask an administrator to destroy it, then call again`,
    { name },
  )
