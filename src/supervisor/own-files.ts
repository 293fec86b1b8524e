import { egressPlace, type NetworkSpec, type WorkspaceSpec } from '../domains/workspaces/backend.ts'
import type { Random } from '../kernel/random.ts'
import type { EgressDesk } from './egress-desk.ts'
import { resolverText } from './network/index.ts'
import type { OwnFile } from './storage.ts'

/** The files that a workspace has of us and not of its image. */
export function createOwnFiles(deps: Readonly<{ random: Random; egress: Pick<EgressDesk, 'trustedAuthorities'> }>) {
  /** How a workspace finds names, and whom it trusts when the proxy opens its connections. */
  const ofNetwork = (network: NetworkSpec): OwnFile[] => [
    { path: '/etc/resolv.conf', text: resolverText(network) },
    { path: egressPlace.authoritiesPath, text: deps.egress.trustedAuthorities() },
  ]
  return {
    ofNetwork,
    /** What a copy of another workspace must not share with it, and its network. */
    ofWorkspace: (spec: WorkspaceSpec): OwnFile[] => [
      { path: '/etc/hostname', text: `${spec.hostname}\n` },
      { path: '/etc/hosts', text: `127.0.0.1 localhost\n::1 localhost\n${spec.ip} ${spec.hostname}\n` },
      { path: '/etc/machine-id', text: `${deps.random.bytes(16).toString('hex')}\n` },
      ...ofNetwork(spec.network),
    ],
  }
}
