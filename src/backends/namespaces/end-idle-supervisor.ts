import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../../kernel/clock.ts'
import { socketPathOf } from './start-supervisor.ts'
import { createAsk, isUnreachable, isWentAway } from './supervisor-client.ts'

const END_MS_MAX = 10_000
const POLL_MS = 10

/**
 * Ends the supervisor unless a workspace runs or a server other than `bootId` is connected, and waits until nothing of it uses the
 * state directory. Returns the pid of a supervisor that goes on.
 */
export async function endIdleSupervisor(state: string, bootId: string): Promise<number | undefined> {
  const pidPath = join(state, 'supervisor.pid')
  const pid = Number(await readFile(pidPath, 'utf8').catch(() => Number.NaN))
  const isEnding = await createAsk(socketPathOf(state))('shutdownIfIdle', { bootId }).then(
    ({ ending }) => ending,
    (error: unknown) => (isUnreachable(error) ? undefined : isWentAway(error)),
  )
  if (isEnding === undefined) return undefined
  const deadlineMs = systemClock.monotonicMs() + (isEnding ? END_MS_MAX : 0)
  // launch.sh removes the file last.
  while (existsSync(pidPath) && systemClock.monotonicMs() < deadlineMs) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  return existsSync(pidPath) ? pid : undefined
}
