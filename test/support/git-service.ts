import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { AppError } from '../../src/contract/app-error.ts'
import type { Call, EffectRecord, Progress } from '../../src/contract/call.ts'
import { localOwner } from '../../src/contract/principal.ts'
import type { ReadTx } from '../../src/contract/tx.ts'
import { createGitService, type GitService } from '../../src/domains/git/service.ts'
import { createLocalGit, type LocalGit } from './local-git-runner.ts'

export type GitCall = Call &
  Readonly<{ warnings: string[]; effects: EffectRecord[]; updates: Progress[]; abort(): void }>

const noStore = (): never => {
  throw new Error('git has no store')
}

let calls = 0

/** A call that keeps what the service tells it. */
export function gitCall(onProgress?: (update: Progress, abort: () => void) => unknown): GitCall {
  const controller = new AbortController()
  const warnings: string[] = []
  const effects: EffectRecord[] = []
  const updates: Progress[] = []
  return {
    id: `call_${++calls}`,
    principal: localOwner,
    transport: 'stdio',
    nowMs: 0,
    signal: controller.signal,
    progress(update) {
      updates.push(update)
      onProgress?.(update, () => controller.abort())
    },
    warn: (message) => void warnings.push(message),
    record: (effect) => void effects.push(effect),
    read: { __tx: 'read' } as ReadTx,
    get write(): never {
      return noStore()
    },
    snapshot: noStore,
    transact: noStore,
    warnings,
    effects,
    updates,
    abort: () => controller.abort(),
  }
}

export type GitLab = LocalGit &
  Readonly<{
    service: GitService
    /** Writes files, where null removes one, and commits them; answers the commit id. */
    commitFiles(
      workspaceId: string,
      message: string,
      files: Readonly<Record<string, string | Buffer | null>>,
    ): Promise<string>
    write(workspaceId: string, file: string, content: string | Buffer): Promise<void>
    /** A copy of a workspace, as a fork is: the same repository in another place. */
    fork(from: string, to: string): Promise<void>
  }>

/** The service over real repositories in temporary directories, gone after the test. A workspace's name is its id. */
export async function createGitLab(): Promise<GitLab> {
  const local = await createLocalGit()
  onTestFinished(local.remove)
  const service = createGitService({
    runner: local.runner,
    access: {
      resolve: async (_call, reference) => {
        if (reference !== 'missing') return { id: reference, name: reference }
        throw new AppError('ERR_WORKSPACE_NOT_FOUND', 'workspace_id: no such workspace')
      },
    },
  })
  const write = async (workspaceId: string, file: string, content: string | Buffer): Promise<void> =>
    writeFile(join(await local.folder(workspaceId), file), content)

  return {
    ...local,
    service,
    write,
    async commitFiles(workspaceId, message, files) {
      for (const [file, content] of Object.entries(files)) {
        if (content === null) await local.git(workspaceId, 'rm', '--quiet', file)
        else await write(workspaceId, file, content)
      }
      await local.git(workspaceId, 'add', '--all')
      await local.git(workspaceId, 'commit', '--quiet', '--message', message)
      return local.git(workspaceId, 'rev-parse', 'HEAD')
    },
    async fork(from, to) {
      await cp(await local.folder(from), await local.folder(to), { recursive: true, verbatimSymlinks: true })
      await local.git(to, 'status', '--short')
    },
  }
}

/** A repository with a first commit and an identity of its own. */
export async function startRepository(lab: GitLab, workspaceId: string): Promise<string> {
  await lab.git(workspaceId, 'init', '--quiet', '--initial-branch=main')
  await lab.git(workspaceId, 'config', 'user.name', 'Ann Author')
  await lab.git(workspaceId, 'config', 'user.email', 'ann@example.org')
  return lab.commitFiles(workspaceId, 'first', { 'README.md': 'begin\n' })
}

/** The error code and message that a promise fails with. */
export async function failureOf(promise: Promise<unknown>): Promise<AppError> {
  try {
    await promise
  } catch (error) {
    if (error instanceof AppError) return error
    throw error
  }
  throw new Error('it did not fail')
}
