import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { VaultContext } from './context.ts'
import { noteActions } from './note-actions.ts'
import type { VaultStore } from './ports.ts'
import { propertyActions } from './property-actions.ts'
import {
  type ActionSpec,
  requireParameters,
  type VaultAction,
  type VaultAnswer,
  type VaultRequest,
} from './requests.ts'
import { notePath } from './rules.ts'
import { surveyActions } from './survey-actions.ts'
import { requireSeen, teamsOfNotes, type VisibleTeams } from './team-folders.ts'

type VaultServiceDeps = Readonly<{
  store: VaultStore
  clock: Clock
  isEnabled: boolean
  /** Of notes, without the dot. */
  extensions: readonly string[]
  /** Names of folders that are excluded anywhere in the vault. */
  excludedFolders: readonly string[]
  visibleTeams: VisibleTeams
}>

export type VaultService = Readonly<{
  /** One action of the tool, on the vault of the principal's tenant. */
  act(call: Call, request: VaultRequest): Promise<VaultAnswer & Readonly<{ action: VaultAction }>>
  files: VaultFiles
}>

/**
 * Files of other parts of the program in a vault, such as `teams/NAME/cards/MEMBER.json`. The same rules for paths and the same
 * locks apply; any extension is allowed. A disabled vault accepts and contains nothing.
 */
export type VaultFiles = Readonly<{
  /** Atomic and durable. Returns whether it was written. */
  write(tenant: TenantId, path: string, content: string | Uint8Array): Promise<boolean>
  /** Answers whether there was one. */
  delete(tenant: TenantId, path: string): Promise<boolean>
  /** Only for folders that nobody else uses: a concurrent writer may find the folder removed. */
  removeEmptyFolder(tenant: TenantId, path: string): Promise<void>
}>

/** Notes whose text is in the answer, or in another note by now. */
function notesRead({ action, path, paths = [] }: VaultRequest, { results = [] }: VaultAnswer): readonly string[] {
  const isUnread = action === 'write' || action === 'delete' || action === 'list'
  return [...(path === undefined || isUnread ? [] : [path]), ...paths, ...results.map((found) => found.path)]
}

const neverAborted = new AbortController().signal

export function createVaultService(deps: VaultServiceDeps): VaultService {
  const { store } = deps
  const excludedFolders = new Set(deps.excludedFolders)
  const context: VaultContext = {
    store,
    clock: deps.clock,
    visibleTeams: deps.visibleTeams,
    rules: { extensions: deps.extensions.map((extension) => extension.toLowerCase()), excludedFolders },
  }
  const anyFile = { extensions: undefined, excludedFolders }
  const actions: Readonly<Record<VaultAction, ActionSpec>> = {
    ...noteActions(context),
    ...propertyActions(context),
    ...surveyActions(context),
  }
  async function requireSeenPaths(call: Call, { action, path, new_path }: VaultRequest): Promise<void> {
    if (path !== undefined) await requireSeen(deps.visibleTeams, call, { path, isFolder: action === 'list' })
    if (new_path !== undefined) await requireSeen(deps.visibleTeams, call, { path: new_path, field: 'new_path' })
  }
  return {
    async act(call, request) {
      if (!deps.isEnabled) {
        throw new AppError('ERR_FEATURE_DISABLED', 'The vault is turned off (vault.enabled).', {
          setting: 'vault.enabled',
        })
      }
      const spec = actions[request.action]
      requireParameters(spec, request)
      await requireSeenPaths(call, request)
      const answer = await spec.run(call, request)
      for (const team of teamsOfNotes(notesRead(request, answer))) call.readsFrom?.(`team:${team}`)
      return { action: request.action, ...answer }
    },
    files: {
      async write(tenant, path, content) {
        if (!deps.isEnabled) return false
        const bytes = typeof content === 'string' ? Buffer.from(content) : content
        const change = async () => ({ content: bytes, answer: true })
        return await store.update(tenant, notePath(path, anyFile), change, neverAborted)
      },
      async delete(tenant, path) {
        if (!deps.isEnabled) return false
        return await store.remove(tenant, notePath(path, anyFile), neverAborted)
      },
      async removeEmptyFolder(tenant, path) {
        if (deps.isEnabled) await store.removeEmptyFolder(tenant, notePath(path, anyFile))
      },
    },
  }
}
