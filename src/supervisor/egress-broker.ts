import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import type { NetworkSpec, RefusedConnection } from '../domains/workspaces/backend.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Random } from '../kernel/random.ts'
import { createEgressProxy, usualAuthorities } from './egress/create-egress-proxy.ts'
import { type EgressCredential, type EgressPolicy, type EgressRules, readEgressPolicy } from './egress/egress-policy.ts'
import { readHost } from './egress/target.ts'
import type { HostNames } from './network/host-names.ts'
import type { Sockets } from './network/sockets.ts'
import { createRefusals } from './refusals.ts'
import { DIRECT_PORTS, openWayOut, type WayOut } from './way-out.ts'

/** What the operator wants of the way out. Credentials are secrets for hosts, and kept in memory only. */
type EgressSettings = Readonly<{
  credentials: readonly EgressCredential[]
  /** Who is asked for names; without one, the host's resolver. */
  resolver: string | undefined
  /** Certificates in PEM of further authorities that hosts may have theirs from. */
  authorities: string
}>

/** Whose way out it is: its address, by which it is known, and a process in its network. */
type EgressClient = Readonly<{ ip: string; pid: number }>

/** The way out by name: the proxy, with the policy of the workspace that asks. Calls for one workspace come one after the other. */
export type EgressBroker = Readonly<{
  configure(settings: EgressSettings): void
  /** The machine's own addresses, which nobody may reach. */
  setHostAddresses(addresses: readonly string[]): void
  /** Known from here on; a changed policy ends what it no longer allows. On an error everything is as before. */
  set(client: EgressClient, network: NetworkSpec): Promise<void>
  forget(ip: string): void
  /** What it was refused of late, the newest first. */
  refused(ip: string): readonly RefusedConnection[]
  /** What a workspace must trust: the usual authorities, the operator's, and the proxy's own, which adds credentials. */
  trustedAuthorities(): string
}>

/** Where distributions keep the authorities that the machine trusts. */
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

type Known = Readonly<{ client: EgressClient; network: NetworkSpec; wayOut: WayOut | undefined }>

export async function openEgressBroker(deps: EgressBrokerDeps): Promise<EgressBroker> {
  const known = new Map<string, Known>()
  /** One object for each policy, because the proxy reads each only once. */
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

  const openFor = ({ ip, pid }: EgressClient): Promise<WayOut> =>
    openWayOut(
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
      if (!isSame) before?.wayOut?.close()
      let wayOut = isSame ? before.wayOut : undefined
      if (network.allowedDomains.length > 0) wayOut ??= await openFor(client)
      else {
        wayOut?.close()
        wayOut = undefined
      }
      known.set(client.ip, { client, network, wayOut })
      setPolicy(client.ip, network)
    },
    forget(ip) {
      known.get(ip)?.wayOut?.close()
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

/** What comes after the deadline is nobody's. */
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

/** A machine that keeps none, or elsewhere, trusts those that Node comes with. */
async function readHostAuthorities(): Promise<string> {
  for (const path of HOST_AUTHORITIES) {
    const text = await readFile(path, 'utf8').catch(() => '')
    if (text !== '') return text
  }
  return usualAuthorities
}
