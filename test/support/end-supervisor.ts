import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Ends the supervisor of a data directory, if it has one, and with it every process of its workspaces. */
export const endSupervisor = (dataDir: string): Promise<void> => endSupervisorIn(join(dataDir, 'workspaces'))

const CLEARED_MS_MAX = 10_000

/** The same for the folder of the workspaces' state; resolves when nobody touches the folder any more. */
export async function endSupervisorIn(state: string): Promise<void> {
  const file = join(state, 'supervisor.pid')
  if (!existsSync(file)) return
  const pid = Number(readFileSync(file, 'utf8'))
  if (isSupervisor(pid)) process.kill(pid, 'SIGKILL')
  // The file is the last thing that the launch of a supervisor clears away, unless that was killed too.
  for (let sinceMs = performance.now(); existsSync(file); ) {
    if (isSupervisor(pid)) sinceMs = performance.now()
    if (performance.now() - sinceMs > CLEARED_MS_MAX) return
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** A number that is left over may be anybody's by now. */
function isSupervisor(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('src/supervisor/main.ts')
  } catch {
    return false
  }
}
