import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Ends the supervisor of a data directory, if it has one, and with it every process of its workspaces. */
export const endSupervisor = (dataDir: string): Promise<void> => endSupervisorIn(join(dataDir, 'workspaces'))

const INTERVAL_MS = 10

/** The same for the folder of the workspaces' state; resolves when nobody touches the folder any more. */
export async function endSupervisorIn(state: string): Promise<void> {
  const file = join(state, 'supervisor.pid')
  if (!existsSync(file)) return
  const pid = Number(readFileSync(file, 'utf8'))
  if (isSupervisor(pid)) process.kill(pid, 'SIGKILL')
  // The file is the last thing that the launch of a supervisor clears away, unless that was killed too.
  while (existsSync(file) && (isSupervisor(pid) || isLaunched(state))) {
    await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS))
  }
}

/** A number that is left over may be anybody's by now. */
const isSupervisor = (pid: number): boolean => read(`/proc/${pid}/cmdline`).includes('src/supervisor/main.ts')

/** Whether the launch of a supervisor for this folder still runs, or anything that it started. */
const isLaunched = (state: string): boolean =>
  readdirSync('/proc').some((name) => /^\d+$/.test(name) && read(`/proc/${name}/environ`).includes(`STATE=${state}\0`))

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
