import { writeFile } from 'node:fs/promises'
import { AppError } from '../../contract/app-error.ts'
import type { Capability, NetworkSpec, PortRange } from '../../domains/workspaces/backend.ts'
import { systemClock } from '../../kernel/clock.ts'
import { createMutex } from '../../kernel/keyed-mutex.ts'
import type { Logger } from '../../kernel/logger.ts'
import { mustRun, type RunCommand } from '../run-command.ts'
import { isWorkspaceAddress, uplinkResolver } from './addresses.ts'
import { createHostPorts, type ForwardTarget, portTaken } from './host-ports.ts'
import { addLink, prepareHubDevice, removeLink } from './links.ts'
import { checkHostNetwork, checkNetworkSpec, type HostNetwork, needsLink } from './policy.ts'
import { probeDomains, probeForwards, probeInternet, probePolicy } from './probe.ts'
import { locatePrograms, type Programs } from './programs.ts'
import { baseRuleset, LINK_PREFIX, type LinkedWorkspace, policyTransaction } from './ruleset.ts'
import type { Sockets } from './sockets.ts'
import { createUplinkApi } from './uplink-api.ts'

type NetworkHubDeps = Readonly<{
  run: RunCommand
  logger: Logger
  sockets: Sockets
  /** The search path for programs. */
  searchPath: string
  /** The folder of slirp4netns' API socket. */
  socketDirectory: string
  /** Where launch.sh logs the output of slirp4netns, and that it has ended. */
  logDirectory: string
  /** How long slirp4netns may take to start after the hub. */
  uplinkStartMs?: number
}>

export type HubWorkspace = Readonly<{
  id: string
  /** A process in the workspace's network namespace. */
  pid: number
  ip: string
}>

export type NetworkCapabilities = Readonly<Record<NetworkCapability, Capability>>
type NetworkCapability = 'network_policy' | 'internet' | 'allowed_domains' | 'port_forward'

/**
 * The network between workspaces, to the host and to the internet. It lives in the network namespace of this process, and ends
 * with it. A workspace can do only what its current policy allows:
 *
 * - `allowInternet`: public addresses, and names through the hub. Never the host or a private network.
 * - `allowedDomains`, if not empty: no direct egress; the endpoints inside the workspace serve these domains.
 * - `allowInterVm`: all traffic with the other workspaces of its tenant that allow it too.
 * - `allowedPorts`: TCP from workspaces of its tenant with `allowInterVm`, even if this workspace does not have it. It does not
 *   let out a workspace that may connect to no other.
 * - `peers`: all traffic with a workspace that lists this one as well. One side is not enough: an address may have been
 *   reassigned to another workspace.
 * - `forwards`: only from the host's loopback address to the loopback address inside. They need no link and no rule.
 *
 * A change also cuts open connections that it forbids. Changes are serialised, and each is atomic.
 *
 * slirp4netns starts after the namespace that it serves, and may be restarted: callers that need it wait for it in the hub's
 * first seconds.
 */
export type NetworkHub = Readonly<{
  /**
   * Sets up the hub in this process's network namespace. If that fails, `probe` says why, and workspaces without a network still
   * work.
   */
  open(): Promise<void>
  /** Adds a workspace that has started. It gets a link when its policy first needs one. A second call updates it. */
  attach(workspace: HubWorkspace, spec: NetworkSpec): Promise<void>
  /** Returns false if there is no such workspace. On an error nothing has changed. */
  update(id: string, spec: NetworkSpec): Promise<boolean>
  detach(id: string): Promise<void>
  /**
   * The host's own addresses, which no workspace may reach, public or not; and the name server, which may have a private address.
   * Without a name server, the host's resolver answers.
   */
  setHostNetwork(host: Readonly<{ hostAddresses: readonly string[]; resolver?: string | undefined }>): Promise<void>
  /** Whether the host port is free; without one, a free port of the range. */
  reserveHostPort(requested: number | undefined, range: PortRange): Promise<number | undefined>
  /** Whether slirp4netns answers within this time. */
  waitForUplink(timeoutMs: number): Promise<boolean>
  /** What works now, by actual tests in this namespace. */
  probe(): Promise<NetworkCapabilities>
}>

/** The ports that the probe tries: below those that Linux uses for outgoing connections. */
const PROBED_PORTS: PortRange = { first: 20_000, last: 31_999 }
const UPLINK_START_MS = 5_000

type Member = Readonly<{ workspace: HubWorkspace; spec: NetworkSpec; link: string | undefined }>

export function createNetworkHub(deps: NetworkHubDeps): NetworkHub {
  const { run, logger, sockets, socketDirectory, logDirectory, uplinkStartMs = UPLINK_START_MS } = deps
  const uplink = createUplinkApi(socketDirectory, logDirectory)
  const hostPorts = createHostPorts(sockets, (hostPort) => targetOf(members.values(), hostPort))
  const inOrder = createMutex()
  let members: ReadonlyMap<string, Member> = new Map()
  let hostNetwork: HostNetwork = { hostAddresses: [], resolver: uplinkResolver }
  let openedMs = 0
  let programs: Programs | undefined
  let problem = 'the hub is not open.'
  let links = 0

  function opened(): Programs {
    if (programs !== undefined) return programs
    throw new AppError(
      'ERR_CAPABILITY_MISSING',
      `Workspaces can have neither a network between them nor allow_internet here: ${problem}`,
    )
  }

  /** Loads the rules for these members in one transaction. */
  async function enforce(next: ReadonlyMap<string, Member>, host: HostNetwork): Promise<void> {
    await mustRun(run, [opened().nft, '-f', '-'], policyTransaction(linked(next), host))
  }

  /** Ports first, because only they can be refused; then the rules; what is no longer needed is removed last. */
  async function change(id: string, member: Member): Promise<void> {
    refuseTakenPorts(members, id, member.spec)
    const before = members.get(id)
    const next = new Map(members).set(id, member)
    const had = new Set(before === undefined ? [] : portsOf([before]))
    await hostPorts.add(portsOf([member]).filter((port) => !had.has(port)))
    try {
      if (member.link !== undefined) await enforce(next, hostNetwork)
      members = next
    } finally {
      hostPorts.keepOnly(portsOf(members.values()))
    }
  }

  /** Also resolves if slirp4netns does not start: the caller that needs it then gets the reason. */
  async function uplinkStarted(): Promise<void> {
    await uplink.answersWithin(Math.max(0, openedMs + uplinkStartMs - systemClock.monotonicMs()))
  }

  async function applyRules(workspace: HubWorkspace, spec: NetworkSpec, link: string | undefined): Promise<void> {
    if (link !== undefined || !needsLink(spec)) return change(workspace.id, { workspace, spec, link })
    const tools = opened()
    const name = `${LINK_PREFIX}${++links}`
    try {
      await addLink(run, tools, name, workspace)
      await change(workspace.id, { workspace, spec, link: name })
    } catch (error) {
      await removeLink(run, tools, name)
      throw error
    }
  }

  async function drop(id: string): Promise<void> {
    const member = members.get(id)
    if (member === undefined) return
    const next = new Map(members)
    next.delete(id)
    if (member.link !== undefined) {
      await enforce(next, hostNetwork)
      await removeLink(run, opened(), member.link)
    }
    members = next
    hostPorts.keepOnly(portsOf(members.values()))
  }

  return {
    open: () =>
      inOrder(async () => {
        openedMs = systemClock.monotonicMs()
        try {
          const found = locatePrograms(deps.searchPath)
          await setKernelSwitches()
          await prepareHubDevice(run, found)
          await mustRun(run, [found.nft, '-f', '-'], baseRuleset)
          programs = found
        } catch (error) {
          problem = error instanceof Error ? error.message : String(error)
          logger.warn('no networks between workspaces, and no allow_internet', { problem })
        }
      }),
    attach: (workspace, spec) =>
      inOrder(async () => {
        checkWorkspace(workspace)
        checkNetworkSpec(spec)
        const known = members.get(workspace.id)
        const isSame = known?.workspace.pid === workspace.pid && known.workspace.ip === workspace.ip
        if (!isSame) await drop(workspace.id)
        await applyRules(workspace, spec, isSame ? known.link : undefined)
      }),
    update: (id, spec) =>
      inOrder(async () => {
        checkNetworkSpec(spec)
        const member = members.get(id)
        if (member === undefined) return false
        await applyRules(member.workspace, spec, member.link)
        return true
      }),
    detach: (id) => inOrder(() => drop(id)),
    setHostNetwork: ({ hostAddresses, resolver = uplinkResolver }) =>
      inOrder(async () => {
        const next = { hostAddresses, resolver }
        checkHostNetwork(next)
        if (programs !== undefined) await enforce(members, next)
        hostNetwork = next
      }),
    reserveHostPort: (requested, range) =>
      inOrder(() => hostPorts.find(requested, new Set(portsOf(members.values())), range)),
    waitForUplink: uplink.answersWithin,
    probe: () =>
      inOrder(async () => {
        await uplinkStarted()
        // Without links a workspace is not connected to slirp4netns either.
        const closed = programs === undefined ? { enforced: false, reason: problem } : undefined
        return {
          network_policy: closed ?? (await probePolicy(run, programs!)),
          internet: closed ?? (await probeInternet(uplink)),
          allowed_domains: await probeDomains(sockets),
          port_forward: await probeForwards(hostPorts, new Set(portsOf(members.values())), PROBED_PORTS),
        }
      }),
  }
}

function linked(members: ReadonlyMap<string, Member>): LinkedWorkspace[] {
  return [...members.values()].flatMap(({ workspace, spec, link }) =>
    link === undefined ? [] : [{ link, ip: workspace.ip, spec }],
  )
}

function portsOf(members: Iterable<Member>): number[] {
  return [...members].flatMap(({ spec }) => spec.forwards.map((forward) => forward.hostPort))
}

function targetOf(members: Iterable<Member>, hostPort: number): ForwardTarget | undefined {
  for (const { workspace, spec } of members) {
    const forward = spec.forwards.find((one) => one.hostPort === hostPort)
    if (forward !== undefined) return { pid: workspace.pid, ip: workspace.ip, guestPort: forward.guestPort }
  }
  return undefined
}

function refuseTakenPorts(members: ReadonlyMap<string, Member>, id: string, spec: NetworkSpec): void {
  const taken = new Set(portsOf([...members.values()].filter(({ workspace }) => workspace.id !== id)))
  const collision = spec.forwards.find((forward) => taken.has(forward.hostPort))
  if (collision !== undefined) throw portTaken(collision.hostPort)
}

function checkWorkspace({ pid, ip }: HubWorkspace): void {
  if (!Number.isInteger(pid) || pid < 1 || !isWorkspaceAddress(ip)) {
    throw new AppError('ERR_INVALID_INPUT', 'A workspace needs a process and an address of the network of workspaces.')
  }
}

/** These are settings of the namespace, not of the host. */
async function setKernelSwitches(): Promise<void> {
  await writeFile('/proc/sys/net/ipv4/ip_forward', '1')
  await writeFile('/proc/sys/net/ipv4/conf/all/rp_filter', '1')
  for (const scope of ['all', 'default']) {
    await writeFile(`/proc/sys/net/ipv6/conf/${scope}/disable_ipv6`, '1').catch((error: NodeJS.ErrnoException) => {
      // A kernel without IPv6 has nothing to disable.
      if (error.code !== 'ENOENT') throw error
    })
  }
}
