import { writeFile } from 'node:fs/promises'
import { AppError } from '../../contract/app-error.ts'
import type { Capability, NetworkSpec, PortRange } from '../../domains/workspaces/backend.ts'
import { systemClock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import { mustRun, type RunCommand } from '../run-command.ts'
import { isWorkspaceAddress, uplinkResolver } from './addresses.ts'
import { createHostPorts, type ForwardTarget, portTaken } from './host-ports.ts'
import { addLink, prepareHubDevice, removeLink } from './links.ts'
import { checkEnvironment, checkNetworkSpec, type ExecutionEnvironment, needsLink } from './policy.ts'
import { probeDomains, probeForwards, probeInternet, probePolicy } from './probe.ts'
import { locatePrograms, type Programs } from './programs.ts'
import { baseRuleset, LINK_PREFIX, type LinkedWorkspace, policyTransaction } from './ruleset.ts'
import type { Sockets } from './sockets.ts'
import { createUplinkApi } from './uplink-api.ts'

type NetworkHubDeps = Readonly<{
  run: RunCommand
  logger: Logger
  sockets: Sockets
  /** Where programs are looked for. */
  searchPath: string
  /** Where slirp4netns has its socket. */
  socketDirectory: string
  /** Where the process that starts it notes what it said and that it ended. */
  logDirectory: string
  /** How long after the hub's start slirp4netns may still be on its way. */
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
 * The network between workspaces, to the host and to the internet. It lives in the network namespace that this process
 * is in, and is gone with it. A workspace can do only what its policy says at this moment:
 *
 * - `allowInternet`: public addresses, and names through the hub. Never the host or a private network.
 * - `allowedDomains`, when not empty: nothing outside from here; the way out inside the workspace serves them.
 * - `allowInterVm`: everything with the other workspaces of its tenant that allow it too.
 * - `allowedPorts`: TCP from workspaces of its tenant with `allowInterVm`, though this one may not have it. A workspace that may talk
 *   to nobody is not let out by the openness of another.
 * - `peers`: everything with a workspace that lists this one as well. One side is not enough: an address may have passed
 *   to another workspace.
 * - `forwards`: from the host's loopback address only, to the loopback address inside. They need no link and no rule.
 *
 * What a change forbids is cut, open connections too. Changes are made one after the other, each as a whole.
 *
 * slirp4netns is started after the namespace it serves, and may be killed and started again: what asks for it waits for it
 * in the hub's first seconds.
 */
export type NetworkHub = Readonly<{
  /** Makes the hub in this process's network namespace. If that fails, `probe` says why, and what needs no network works. */
  open(): Promise<void>
  /** Makes known a workspace that has started, which gets a link when its policy first needs one. Again, it updates. */
  attach(workspace: HubWorkspace, spec: NetworkSpec): Promise<void>
  /** Answers false when there is no such workspace. On an error everything is as before. */
  update(id: string, spec: NetworkSpec): Promise<boolean>
  detach(id: string): Promise<void>
  /**
   * The host's own addresses, which nobody may reach, public or not; and who is asked for names, which may be at a
   * private address: without one, the host's resolver.
   */
  setEnvironment(around: Readonly<{ hostAddresses: readonly string[]; resolver?: string | undefined }>): Promise<void>
  /** Whether the host port can be listened on now; without one, a port of the range that can. */
  reserveHostPort(wanted: number | undefined, range: PortRange): Promise<number | undefined>
  /** Whether slirp4netns answers, or begins to within this time. */
  waitForUplink(timeoutMs: number): Promise<boolean>
  /** What was tried and seen to work, in this namespace, now. */
  probe(): Promise<NetworkCapabilities>
}>

/** Where a port is looked for to see that one can be listened on: below those that Linux gives to outgoing connections. */
const PROBED_PORTS: PortRange = { first: 20_000, last: 31_999 }
const UPLINK_START_MS = 5_000

type Member = Readonly<{ workspace: HubWorkspace; spec: NetworkSpec; link: string | undefined }>

export function createNetworkHub(deps: NetworkHubDeps): NetworkHub {
  const { run, logger, sockets, socketDirectory, logDirectory, uplinkStartMs = UPLINK_START_MS } = deps
  const uplink = createUplinkApi(socketDirectory, logDirectory)
  const hostPorts = createHostPorts(sockets, (hostPort) => targetOf(members.values(), hostPort))
  const inOrder = createQueue()
  let members: ReadonlyMap<string, Member> = new Map()
  let environment: ExecutionEnvironment = { hostAddresses: [], resolver: uplinkResolver }
  let openedMs = 0
  let programs: Programs | undefined
  let problem = 'the hub is not open.'
  let links = 0

  function opened(): Programs {
    if (programs !== undefined) return programs
    throw new AppError('ERR_CAPABILITY_MISSING', `Workspaces have no network here: ${problem}`)
  }

  /** The rules for these members, in one transaction. */
  async function enforce(next: ReadonlyMap<string, Member>, around: ExecutionEnvironment): Promise<void> {
    await mustRun(run, [opened().nft, '-f', '-'], policyTransaction(linked(next), around))
  }

  /** Ports first, because only they can be refused; then the rules; what is no longer wanted goes last. */
  async function change(id: string, member: Member): Promise<void> {
    refuseTakenPorts(members, id, member.spec)
    const before = members.get(id)
    const next = new Map(members).set(id, member)
    const had = new Set(before === undefined ? [] : portsOf([before]))
    await hostPorts.add(portsOf([member]).filter((port) => !had.has(port)))
    try {
      if (member.link !== undefined) await enforce(next, environment)
      members = next
    } finally {
      hostPorts.keepOnly(portsOf(members.values()))
    }
  }

  /** Ends also when it does not start: a process that needs it is then told why. */
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
      await enforce(next, environment)
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
          logger.warn('Workspaces have no network', { problem })
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
    setEnvironment: ({ hostAddresses, resolver = uplinkResolver }) =>
      inOrder(async () => {
        const next = { hostAddresses, resolver }
        checkEnvironment(next)
        if (programs !== undefined) await enforce(members, next)
        environment = next
      }),
    reserveHostPort: (wanted, range) =>
      inOrder(() => hostPorts.find(wanted, new Set(portsOf(members.values())), range)),
    waitForUplink: uplink.answersWithin,
    probe: () =>
      inOrder(async () => {
        await uplinkStarted()
        return {
          network_policy:
            programs === undefined ? { enforced: false, reason: problem } : await probePolicy(run, programs),
          internet: await probeInternet(uplink),
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

/** These belong to the namespace, not to the host. */
async function setKernelSwitches(): Promise<void> {
  await writeFile('/proc/sys/net/ipv4/ip_forward', '1')
  await writeFile('/proc/sys/net/ipv4/conf/all/rp_filter', '1')
  for (const scope of ['all', 'default']) {
    await writeFile(`/proc/sys/net/ipv6/conf/${scope}/disable_ipv6`, '1').catch((error: NodeJS.ErrnoException) => {
      // A kernel without IPv6 has nothing to close.
      if (error.code !== 'ENOENT') throw error
    })
  }
}

/** Each task begins when the one before has ended, well or badly. */
function createQueue(): <Result>(task: () => Promise<Result>) => Promise<Result> {
  let last: Promise<unknown> = Promise.resolve()
  return (task) => {
    const result = last.then(task)
    last = result.catch(() => {})
    return result
  }
}
