import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Ends the supervisor of a data directory, if it has one, and with it every process of its workspaces. */
export async function endSupervisor(dataDir: string): Promise<void> {
  const file = join(dataDir, 'workspaces', 'supervisor.pid')
  if (!existsSync(file)) return
  const pid = Number(readFileSync(file, 'utf8'))
  const isThere = (): boolean => existsSync(`/proc/${pid}`)
  if (isThere()) process.kill(pid, 'SIGKILL')
  while (isThere()) await new Promise((resolve) => setTimeout(resolve, 5))
}
