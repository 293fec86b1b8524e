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

/** The identity that git uses if no other is configured. The user's and the repository's settings take precedence. */
const gitIdentity = `[user]\n\tname = ${defaultIdentity.name}\n\temail = ${defaultIdentity.email}\n`

/** The files that the supervisor writes into a workspace, beside those of its image. */
export function createInjectedFiles(
  deps: Readonly<{ random: Random; egress: Pick<EgressBroker, 'trustedAuthorities'> }>,
) {
  /** The resolver configuration, and the certificates to trust when the proxy terminates TLS. */
  const ofNetwork = (network: NetworkSpec): OwnFile[] => [
    { path: '/etc/resolv.conf', text: resolverText(network) },
    { path: egressEndpoints.authoritiesPath, text: deps.egress.trustedAuthorities() },
  ]
  return {
    ofNetwork,
    /** What a fork must not share with its origin (machine id, host name), and the network files. */
    ofWorkspace: (spec: WorkspaceSpec): OwnFile[] => [
      { path: '/etc/hostname', text: `${spec.hostname}\n` },
      // Without a network nothing answers at the workspace's address, but its host name must still resolve to itself.
      { path: '/etc/hosts', text: `127.0.0.1 localhost\n::1 localhost\n127.0.1.1 ${spec.hostname}\n` },
      { path: '/etc/machine-id', text: `${deps.random.bytes(16).toString('hex')}\n` },
      // A workspace with layers inherits this file, possibly changed by its user.
      ...(spec.layers.length === 0 ? [{ path: '/etc/gitconfig', text: gitIdentity }] : []),
      ...ofNetwork(spec.network),
    ],
  }
}
