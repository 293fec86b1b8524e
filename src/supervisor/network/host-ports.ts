import { AppError } from '../../contract/app-error.ts'
import type { UplinkApi } from './uplink-api.ts'

/** The ports on the host's loopback address that lead into workspaces. Calls must come one after the other. */
export type HostPorts = Readonly<{
  /** Listens on every port of `wanted` that is not listened on yet: on all of them, or on none more than before. */
  add(wanted: readonly number[]): Promise<void>
  /** Listens no longer on any port but these. */
  keepOnly(wanted: readonly number[]): Promise<void>
  /** Whether the port can be listened on now; without one, a port that can, and not the one answered just before. */
  find(wanted: number | undefined, taken: ReadonlySet<number>): Promise<number | undefined>
}>

/** Below the ports that Linux gives to outgoing connections. */
const FOUND_FIRST = 20_000
const FOUND_COUNT = 12_000
const TRIES_MAX = 200

export function createHostPorts(uplink: UplinkApi): HostPorts {
  let cursor = 0

  async function remove(holds: (hostPort: number) => boolean): Promise<void> {
    for (const entry of await uplink.list()) if (holds(entry.hostPort)) await uplink.remove(entry.id)
  }

  async function canListen(port: number): Promise<boolean> {
    if (!(await uplink.add(port))) return false
    await remove((hostPort) => hostPort === port)
    return true
  }

  return {
    async add(wanted) {
      if (wanted.length === 0) return
      const present = new Set((await uplink.list()).map((entry) => entry.hostPort))
      const added = new Set<number>()
      for (const port of wanted) {
        if (present.has(port)) continue
        if (!(await uplink.add(port))) {
          await remove((hostPort) => added.has(hostPort))
          throw portTaken(port)
        }
        added.add(port)
      }
    },
    async keepOnly(wanted) {
      const kept = new Set(wanted)
      await remove((hostPort) => !kept.has(hostPort))
    },
    async find(wanted, taken) {
      if (wanted !== undefined) return !taken.has(wanted) && (await canListen(wanted)) ? wanted : undefined
      for (let tries = 0; tries < TRIES_MAX; tries++) {
        const port = FOUND_FIRST + (cursor++ % FOUND_COUNT)
        if (!taken.has(port) && (await canListen(port))) return port
      }
      return undefined
    },
  }
}

export function portTaken(hostPort: number): AppError {
  return new AppError(
    'ERR_ALREADY_EXISTS',
    `host_port ${hostPort} is in use on the host. Choose another, or leave host_port out to get a free one.`,
    { host_port: hostPort },
  )
}
