import {
  defaultIdentity,
  egressEndpoints,
  type NetworkSpec,
  type WorkspaceSpec,
} from '../domains/workspaces/backend.ts'
import type { Random } from '../kernel/random.ts'
import type { EgressBroker } from './egress-broker.ts'
import { resolverText } from './network/index.ts'
import type { OwnFile } from './storage.ts'

/** What git falls back to when nobody says who commits; the user's and the repository's own settings win. */
const gitIdentity = `[user]\n\tname = ${defaultIdentity.name}\n\temail = ${defaultIdentity.email}\n`

/** The files that a workspace has of us and not of its image. */
export function createOwnFiles(deps: Readonly<{ random: Random; egress: Pick<EgressBroker, 'trustedAuthorities'> }>) {
  /** How a workspace finds names, and whom it trusts when the proxy opens its connections. */
  const ofNetwork = (network: NetworkSpec): OwnFile[] => [
    { path: '/etc/resolv.conf', text: resolverText(network) },
    { path: egressEndpoints.authoritiesPath, text: deps.egress.trustedAuthorities() },
  ]
  return {
    ofNetwork,
    /** What a copy of another workspace must not share with it, and its network. */
    ofWorkspace: (spec: WorkspaceSpec): OwnFile[] => [
      { path: '/etc/hostname', text: `${spec.hostname}\n` },
      // Without a network nothing answers at its address, and its own name must lead to itself all the same.
      { path: '/etc/hosts', text: `127.0.0.1 localhost\n::1 localhost\n127.0.1.1 ${spec.hostname}\n` },
      { path: '/etc/machine-id', text: `${deps.random.bytes(16).toString('hex')}\n` },
      // A workspace with layers has it from there, as it was changed since.
      ...(spec.layers.length === 0 ? [{ path: '/etc/gitconfig', text: gitIdentity }] : []),
      ...ofNetwork(spec.network),
    ],
  }
}
