import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Random } from '../../kernel/random.ts'
import type { GitService } from '../git/service.ts'
import type { WorkspaceService } from '../workspaces/service.ts'

/** Orchestration is built on workspaces, and git inside them. It stores no records. */
export type SwarmDeps = Readonly<{
  workspaces: Pick<
    WorkspaceService,
    | 'resolve'
    | 'run'
    | 'openFiles'
    | 'makeWorkspace'
    | 'forkWorkspace'
    | 'keepWorkspace'
    | 'destroyWorkspace'
    | 'startWorkspace'
    | 'takeSnapshot'
    | 'findSnapshot'
    | 'networkPolicy'
    | 'requireNetwork'
  >
  git: Pick<GitService, 'clone' | 'status' | 'hasUnsaved' | 'merge'>
  clock: Clock
  random: Random
  logger: Logger
}>
