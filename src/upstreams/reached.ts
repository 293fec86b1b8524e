import type { AppError } from '../contract/app-error.ts'
import { type InstanceState, instanceStates, type UpstreamAddress } from '../domains/mcp-servers/runtime.ts'
import type { Instance } from './instance.ts'

/**
 * Whether the last use of each deployment reached its server. It is known until the next use, because connections come and go, and one
 * that is open over HTTP says nothing about the server.
 */
export function createReached() {
  const failures = new Map<string, string>()
  return {
    /** After a use: with the failure if the server was not reached. */
    note({ deploymentId, caller }: UpstreamAddress, failure: AppError | undefined): void {
      if (failure === undefined) failures.delete(deploymentId)
      // What one caller lacks says nothing about the server.
      else if (caller === undefined || aboutServers.has(failure.code)) failures.set(deploymentId, failure.message)
    },
    forget: (deploymentId: string): void => void failures.delete(deploymentId),
    /** Of a deployment with all its connections. */
    stateOf(deploymentId: string, connections: readonly ReturnType<Instance['state']>[]): InstanceState {
      const furthest = instanceStates.toReversed().find((one) => connections.some(({ state }) => state === one))
      const failure = failures.get(deploymentId)
      const state = failure !== undefined && furthest === 'running' ? 'backing-off' : (furthest ?? 'stopped')
      return {
        state,
        problem: failure ?? connections.find(({ problem }) => problem !== undefined)?.problem,
        isUnreachable: failure !== undefined || state === 'backing-off',
        starts: connections.reduce((sum, { starts }) => sum + starts, 0),
      }
    },
  }
}

const aboutServers: ReadonlySet<string> = new Set(['ERR_UPSTREAM_UNAVAILABLE', 'ERR_WEB_FAILED'])
