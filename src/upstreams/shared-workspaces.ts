import type { LocalSpec } from '../domains/mcp-servers/runtime.ts'
import { createKeyedMutex } from '../kernel/keyed-mutex.ts'
import type { ServerWorkspace, ServerWorkspaces } from './ports.ts'

/** A process or service in a workspace that all its connections share. */
type SharedPart = Readonly<{ end(): Promise<void> }>

export type SharedWorkspace = ServerWorkspace &
  Readonly<{
    /** Runs for one connection at a time. */
    exclusively<T>(work: () => Promise<T>): Promise<T>
    /** One part for all connections. It ends when the last connection leaves. */
    part<T extends SharedPart>(make: () => T): T
  }>

type Held = { users: number; readonly workspace: ServerWorkspace; part: SharedPart | undefined }

/**
 * A deployment has one workspace, however many connections use it. When the last connection leaves, the workspace is stopped.
 */
export function createSharedWorkspaces(workspaces: Pick<ServerWorkspaces, 'open'>) {
  const opening = createKeyedMutex()
  const preparing = createKeyedMutex()
  const held = new Map<string, Held>()

  async function leave(id: string, one: Held): Promise<void> {
    await opening.withLock(id, async () => {
      one.users--
      if (one.users > 0) return
      held.delete(id)
      await one.part?.end()
      await one.workspace.release()
    })
  }

  return {
    open: (
      at: Parameters<ServerWorkspaces['open']>[0],
      spec: LocalSpec,
      signal: AbortSignal,
    ): Promise<SharedWorkspace> =>
      opening.withLock(
        at.deploymentId,
        async () => {
          const id = at.deploymentId
          const one: Held = held.get(id) ?? {
            users: 0,
            workspace: await workspaces.open(at, spec, signal),
            part: undefined,
          }
          one.users++
          held.set(id, one)
          let left: Promise<void> | undefined
          return {
            run: one.workspace.run,
            writeFile: one.workspace.writeFile,
            forward: one.workspace.forward,
            exclusively: (work) => preparing.withLock(id, work, signal),
            part<T extends SharedPart>(make: () => T): T {
              one.part ??= make()
              return one.part as T
            },
            release() {
              left ??= leave(id, one)
              return left
            },
          }
        },
        signal,
      ),
  }
}
