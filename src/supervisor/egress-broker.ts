import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import type { NetworkSpec, RefusedConnection } from '../domains/workspaces/backend.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Random } from '../kernel/random.ts'
import { createEgressProxy, usualAuthorities } from './egress/create-egress-proxy.ts'
import { type EgressCredential, type EgressPolicy, type EgressRules, readEgressPolicy } from './egress/egress-policy.ts'
import { readHost } from './egress/target.ts'
import { DIRECT_PORTS, type EgressEndpoints, openEgressEndpoints } from './egress-endpoints.ts'
import type { HostNames } from './network/host-names.ts'
import type { Sockets } from './network/sockets.ts'

/** The operator's egress settings. Credentials are held in memory only. */
type EgressSettings = Readonly<{
  credentials: readonly EgressCredential[]
  /** The name server to ask. Without one, the host's resolver answers. */
  resolver: string | undefined
  /** Additional certificate authorities to trust for upstream hosts, in PEM. */
  authorities: string
}>

/** A workspace: the address that identifies it to the proxy, and a process in its network namespace. */
type EgressClient = Readonly<{ ip: string; pid: number }>

/** Egress by host name: the proxy, applied with the policy of each workspace. Callers serialise the calls for one workspace. */
export type EgressBroker = Readonly<{
  configure(settings: EgressSettings): void
  /** The machine's own addresses. No workspace may reach them. */
  setHostAddresses(addresses: readonly string[]): void
  /**
   * Registers the workspace or changes its policy, and closes connections that the new policy forbids. On an error nothing has
   * changed.
   */
  set(client: EgressClient, network: NetworkSpec): Promise<void>
  forget(ip: string): void
  /** Recently refused connections, newest first. */
  refused(ip: string): readonly RefusedConnection[]
  /**
   * The certificates that a workspace must trust, in PEM: the host's authorities, the operator's, and the proxy's own, which it
   * needs to add credentials.
   */
  trustedAuthorities(): string
}>

/** Where distributions store the certificate bundle of the machine. */
const HOST_AUTHORITIES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
]

type EgressBrokerDeps = Readonly<{
  caDirectory: string
  sockets: Sockets
  resolve: HostNames
  clock: Clock
  random: Random
  logger: Logger
}>

type Known = Readonly<{ client: EgressClient; network: NetworkSpec; endpoints: EgressEndpoints | undefined }>

export async function openEgressBroker(deps: EgressBrokerDeps): Promise<EgressBroker> {
  const known = new Map<string, Known>()
  /** One object for each policy, because the proxy caches what it parsed by object identity. */
  const policies = new Map<string, EgressPolicy>()
  const rules = new Map<string, EgressRules>()
  const refusals = createRefusals(deps)
  const usual = await readHostAuthorities()
  let settings: EgressSettings = { credentials: [], resolver: undefined, authorities: '' }
  let hostAddresses: ReadonlySet<string> = new Set()
  const proxy = await createEgressProxy({
    caDirectory: deps.caDirectory,
    upstreamCa: usual,
    resolve: (host) => deps.resolve(host, settings.resolver),
    connect: (address, port, deadline) => connectBefore(deps.sockets, address, port, deadline),
    isClosed: (address) => hostAddresses.has(address),
    clock: deps.clock,
    random: deps.random,
    logger: deps.logger,
    policyOf: (client) => policies.get(client),
    onRefused: refusals.note,
  })

  function setPolicy(ip: string, { allowedDomains: domains, withCredentials }: NetworkSpec): void {
    policies.delete(ip)
    rules.delete(ip)
    if (domains.length > 0) {
      const policy = { domains, credentials: withCredentials === true ? settings.credentials : [] }
      rules.set(ip, readEgressPolicy(policy))
      policies.set(ip, policy)
    }
    proxy.policyChanged(ip)
  }

  const isAllowed = (ip: string, name: string): boolean => {
    const host = readHost(name)
    return host !== undefined && DIRECT_PORTS.some((port) => rules.get(ip)?.allows({ host, port }) === true)
  }

  const openFor = ({ ip, pid }: EgressClient): Promise<EgressEndpoints> =>
    openEgressEndpoints(
      {
        sockets: deps.sockets,
        isAllowed: (name) => isAllowed(ip, name),
        onRefused: (name) => refusals.note(ip, name, 'host-not-allowed'),
        onProxied: (socket) => proxy.take(socket, ip),
        onDirect: (socket, port) => proxy.takeDirect(socket, ip, port),
      },
      pid,
    )

  return {
    configure(next) {
      settings = next
      proxy.setUpstreamCa([usual, next.authorities])
      for (const [ip, { network }] of known) setPolicy(ip, network)
    },
    setHostAddresses(addresses) {
      hostAddresses = new Set(addresses)
    },
    async set(client, network) {
      const before = known.get(client.ip)
      const isSame = before?.client.pid === client.pid
      if (!isSame) before?.endpoints?.close()
      let endpoints = isSame ? before.endpoints : undefined
      if (network.allowedDomains.length > 0) endpoints ??= await openFor(client)
      else {
        endpoints?.close()
        endpoints = undefined
      }
      known.set(client.ip, { client, network, endpoints })
      setPolicy(client.ip, network)
    },
    forget(ip) {
      known.get(ip)?.endpoints?.close()
      known.delete(ip)
      policies.delete(ip)
      rules.delete(ip)
      refusals.forget(ip)
      proxy.policyChanged(ip)
    },
    refused: refusals.of,
    trustedAuthorities: () =>
      [usual, settings.authorities, proxy.caCertificatePem ?? ''].map((pem) => (pem === '' ? '' : `${pem}\n`)).join(''),
  }
}

/** A socket that connects after the deadline is destroyed. */
async function connectBefore(
  sockets: Sockets,
  address: string,
  port: number,
  deadline: AbortSignal,
): Promise<Socket | undefined> {
  const socket = await sockets.connectFromHost(address, port)
  if (!deadline.aborted) return socket
  socket?.destroy()
  return undefined
}

/** A machine without a certificate bundle at a known path trusts the authorities that Node ships. */
async function readHostAuthorities(): Promise<string> {
  for (const path of HOST_AUTHORITIES) {
    const text = await readFile(path, 'utf8').catch(() => '')
    if (text !== '') return text
  }
  return usualAuthorities
}

/** Per workspace. The oldest entry is evicted. */
const RETAINED_MAX = 50
const HOST_CHARS_MAX = 260

/** The egress connections that each workspace was refused, so that users can see why something does not work. */
function createRefusals({ clock }: Readonly<{ clock: Clock }>) {
  const retained = new Map<string, Map<string, RefusedConnection>>()
  return {
    note(client: string, target: string, reason: string): void {
      if (target === '') return
      const own = retained.get(client) ?? new Map<string, RefusedConnection>()
      retained.set(client, own)
      const host = target.slice(0, HOST_CHARS_MAX)
      const key = `${host} ${reason}`
      const count = (own.get(key)?.count ?? 0) + 1
      own.delete(key)
      own.set(key, { host, reason, count, lastAtMs: clock.nowMs() })
      if (own.size > RETAINED_MAX) own.delete(own.keys().next().value!)
    },
    /** Newest first. */
    of: (client: string): readonly RefusedConnection[] => [...(retained.get(client)?.values() ?? [])].reverse(),
    forget: (client: string): void => void retained.delete(client),
  }
}
