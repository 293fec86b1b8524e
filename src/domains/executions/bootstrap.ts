import { AppError } from '../../contract/app-error.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { shellWord } from '../../kernel/shell-word.ts'
import { createToolClient } from '../runs/tool-client.ts'
import { type Deadline, within } from './deadline.ts'
import type { ExecutionDeps } from './ports.ts'
import type { AgentWorkspaces } from './workspace.ts'

const FIELD = 'spec.advanced.bootstrap_path'
const BEFORE = 'bootstrap'
type ReadFile = Readonly<{ content: string; encoding: string }>
type Seen = { digest: string | null }
type Ended = { changed: boolean; moved_to: string | null }

/**
 * The bootstrap program judges the agent's work, so the agent must not have written it.
 * 1. Its digest before the agent begins is recorded. The server reads the file; nothing in the workspace is asked.
 * 2. Before each run it is read again, and a changed program does not run.
 * 3. If the workspace outlives the execution, a changed program is moved aside at its end, however it ends.
 */
export function createBootstrapGuard(
  deps: Pick<ExecutionDeps, 'clock' | 'invoker'>,
  run: Run,
  path: string,
  steps: Steps,
  workspaces: AgentWorkspaces,
) {
  const tools = createToolClient(deps.invoker, run.principal)

  /** Null when there is no such file. */
  async function inspect(signal: AbortSignal): Promise<Seen> {
    const args = { execution_id: run.id, path }
    const file = await tools.askUnless<ReadFile>('ERR_FILE_NOT_FOUND', 'execution_file_read', args, signal)
    return { digest: file === undefined ? null : sha256Hex(`${file.encoding}\n${file.content}`) }
  }

  const inspectOnce = (key: string, deadlines: readonly Deadline[]): Promise<Seen> =>
    steps.once<Seen>(key, async () => ({ result: await within(deps.clock, steps, deadlines, inspect) }), {
      type: 'bootstrap_checked',
    })

  return {
    async remember(deadlines: readonly Deadline[]): Promise<void> {
      const { digest } = await inspectOnce(BEFORE, deadlines)
      if (digest === null) {
        throw new AppError(
          'ERR_INVALID_INPUT',
          `${FIELD}: there is no such file when the agent starts; create it in startup_script, or use an image that has it`,
          { field: FIELD, path },
        )
      }
    },
    async requireUnchanged(iteration: number, deadlines: readonly Deadline[]): Promise<void> {
      const before = steps.result(BEFORE) as Seen | undefined
      const { digest } = await inspectOnce(`iteration-${iteration}/bootstrap`, deadlines)
      if (before === undefined || before.digest === digest) return
      throw new AppError(
        'ERR_POLICY_VIOLATION',
        `${FIELD}: the program changed while the agent worked, so it did not run; restore it and do not change it`,
        { field: FIELD, path },
      )
    },
    async putAside(id: string): Promise<void> {
      const before = steps.result(BEFORE) as Seen | undefined
      if (before === undefined || before.digest === null) return
      await steps.once<Ended>(
        'bootstrap-ended',
        async () => {
          const { digest } = await inspect(steps.signal)
          if (digest === null || digest === before.digest) return { result: { changed: false, moved_to: null } }
          const aside = `${path}.changed-in-${run.id}`
          const command = `mv -- ${shellWord(path)} ${shellWord(aside)}`
          await workspaces.askScript({ workspace_id: id, command }, steps.signal)
          return { result: { changed: true, moved_to: aside } }
        },
        { type: 'bootstrap_checked' },
      )
    },
  }
}
