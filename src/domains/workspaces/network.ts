import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { isPlatformOperator } from '../../contract/principal.ts'
import { isoTime } from '../../kernel/clock.ts'
import { counted } from '../../kernel/counted.ts'
import { closedNetwork, type PortRange } from './backend.ts'
import {
  type Core,
  changeOwn,
  giveUp,
  networkSpec,
  peersOf,
  requireCapability,
  requireSettled,
  takeIn,
} from './core.ts'
import type { NetworkPolicy, Workspace } from './ports.ts'
import {
  checkDomain,
  checkHostPort,
  checkPort,
  checkPorts,
  HOST_PORT_MIN,
  invalid,
  PORT_MAX,
  reachesOut,
} from './rules.ts'

type NetworkPolicyInput = Readonly<{
  workspace_id: string
  allow_internet?: boolean | undefined
  allow_inter_vm?: boolean | undefined
  allowed_ports?: readonly number[] | undefined
  allowed_domains?: readonly string[] | undefined
}>
type PortForwardInput = Readonly<{
  workspace_id: string
  action: 'add' | 'remove' | 'list'
  guest_port: number
  host_port?: number | undefined
}>

/** Canonical: without duplicates, sorted. */
export const checkDomains = (domains: readonly string[]): readonly string[] =>
  [...new Set(domains.map((domain) => checkDomain('allowed_domains', domain)))].sort()

type Resolve = (call: Call, reference: string) => Promise<Workspace>
const TRIES_MAX = 20

export const policyView = ({ network }: Workspace) => ({
  allow_internet: network.allowInternet,
  allow_inter_vm: network.allowInterVm,
  allowed_ports: network.allowedPorts,
  allowed_domains: network.allowedDomains,
})

/** Empty if the workspace does not run, or if the back end cannot be asked. */
export async function refusedView({ backend }: Core, { id, state, network }: Workspace) {
  if (state !== 'running' || network.allowedDomains.length === 0) return []
  const refused = await backend.refusedConnections(id)
  return refused.map(({ host, reason, count, lastAtMs }) => ({ host, reason, count, last_at: isoTime(lastAtMs) }))
}

export const forwardsView = ({ forwards }: Workspace) =>
  forwards.map(({ hostPort, guestPort }) => ({ host_port: hostPort, guest_port: guestPort }))

/** Refuses a policy that the back end cannot enforce, or that the caller may not give to a workspace. */
export async function requireNetwork(core: Core, call: Call, policy: NetworkPolicy): Promise<void> {
  if (reachesOut({ network: policy })) await call.opensNetwork?.()
  if (policy.allowInternet) await requireCapability(core, 'internet', 'allow_internet: access to the internet')
  if (policy.allowedDomains.length > 0)
    await requireCapability(core, 'allowed_domains', 'allowed_domains: access to named hosts')
  if (policy.allowInterVm || policy.allowedPorts.length > 0) {
    await requireCapability(core, 'network_policy', 'allow_inter_vm, allowed_ports: a network between workspaces')
  }
}

export function createNetwork(core: Core, resolve: Resolve) {
  const { backend, store } = core

  async function networkPolicy(call: Call, input: NetworkPolicyInput) {
    const ports = input.allowed_ports === undefined ? undefined : checkPorts('allowed_ports', input.allowed_ports)
    const domains = input.allowed_domains && checkDomains(input.allowed_domains)
    const at = await resolve(call, input.workspace_id)
    requireSettled(at)
    const changes: Partial<NetworkPolicy> = {
      ...(input.allow_internet === undefined ? {} : { allowInternet: input.allow_internet }),
      ...(input.allow_inter_vm === undefined ? {} : { allowInterVm: input.allow_inter_vm }),
      ...(ports === undefined ? {} : { allowedPorts: ports }),
      ...(domains === undefined ? {} : { allowedDomains: domains }),
    }
    await requireNetwork(core, call, { ...closedNetwork, ...changes })
    const changed = await change(call, at, (found) => ({ network: { ...found.network, ...changes } }))
    const network_policy = policyView(changed)
    if (input.allow_internet === false && changed.network.allowedDomains.length > 0) {
      call.warn('allow_internet: the hosts of allowed_domains can still be reached; set allowed_domains to [] as well.')
    }
    call.record({ kind: 'workspace_network_changed', body: { workspace_id: changed.id, ...network_policy } })
    return {
      workspace_id: changed.id,
      network_policy,
      port_forwards: forwardsView(changed),
      refused_connections: await refusedView(core, changed),
    }
  }

  /** Changes the row, then the back end. A refusal of the back end is rolled back. */
  function change(
    call: Call,
    at: Workspace,
    changes: (found: Workspace) => Partial<Workspace>,
    check: (tx: Parameters<Parameters<Call['transact']>[0]>[0], found: Workspace) => Promise<void> = async () => {},
  ): Promise<Workspace> {
    return core.locks.exclusive(at, call.signal, async () => {
      let before: Partial<Workspace> = {}
      const taken = await call.transact(async (tx) => {
        const row = await store.findWorkspace(tx, at.tenant, at.id)
        if (row !== undefined) await check(tx, row)
        return await takeIn(core, tx, at, (found) => {
          before = { network: found.network, forwards: found.forwards }
          return changes(found)
        })
      })
      try {
        if (taken.state === 'running')
          await backend.setNetwork(taken.id, networkSpec(taken, await peersOf(core, taken)))
      } catch (error) {
        await changeOwn(core, call, taken, { ...before, operation: null })
        throw error
      }
      const settled = await changeOwn(core, call, taken, { operation: null })
      return settled ?? (await giveUp(core, taken))
    })
  }

  async function portForward(call: Call, input: PortForwardInput) {
    const guestPort = checkPort('guest_port', input.guest_port)
    const at = await resolve(call, input.workspace_id)
    if (input.action === 'list')
      return answer(at, guestPort, null, `${counted(at.forwards.length, 'port is', 'ports are')} forwarded.`)
    requireSettled(at)
    return input.action === 'add' ? await add(call, at, guestPort, input.host_port) : await remove(call, at, guestPort)
  }

  async function add(call: Call, at: Workspace, guestPort: number, requested: number | undefined) {
    if (requested !== undefined) checkHostPort(requested, portsFor(call))
    const existing = at.forwards.find((forward) => forward.guestPort === guestPort)
    if (existing !== undefined) {
      if (requested !== undefined && requested !== existing.hostPort)
        throw forwardedAlready(guestPort, existing.hostPort)
      return answer(
        at,
        guestPort,
        existing.hostPort,
        `Host port ${existing.hostPort} already leads to port ${guestPort}.`,
      )
    }
    if (at.forwards.length >= limits.workspaceForwardsMax) {
      throw new AppError(
        'ERR_QUOTA_EXCEEDED',
        `The workspace has ${at.forwards.length} port forwards, which is the limit; remove one`,
        {
          quota: 'port_forwards',
          used: at.forwards.length,
          limit: limits.workspaceForwardsMax,
        },
      )
    }
    await requireCapability(core, 'port_forward', 'port_forward')
    const hostPort = await chooseHostPort(requested)
    const changed = await change(
      call,
      at,
      (found) => ({ forwards: [...found.forwards, { hostPort, guestPort }] }),
      async (tx, found) => {
        await store.lockNode(tx, core.node)
        const other = found.forwards.find((forward) => forward.guestPort === guestPort)
        if (other !== undefined) throw forwardedAlready(guestPort, other.hostPort)
        if ((await store.hostPortsOnNode(tx, core.node)).has(hostPort)) throw portInUse(hostPort)
      },
    )
    call.record({
      kind: 'workspace_port_forwarded',
      body: { workspace_id: at.id, guest_port: guestPort, host_port: hostPort },
    })
    return answer(changed, guestPort, hostPort, `Host port ${hostPort} leads to port ${guestPort}.`)
  }

  /** The operator may use ports that other programs could need. */
  const portsFor = ({ principal }: Call): PortRange =>
    isPlatformOperator(principal) ? { first: HOST_PORT_MIN, last: PORT_MAX } : core.settings.forwardPorts

  /** Never a port that a stopped workspace will need again. */
  async function chooseHostPort(requested: number | undefined): Promise<number> {
    const taken = await store.hostPortsOnNode(core.database.read, core.node)
    if (requested !== undefined && taken.has(requested)) throw portInUse(requested)
    for (let attempt = 0; attempt < TRIES_MAX; attempt++) {
      const port = await backend.reserveHostPort(requested, core.settings.forwardPorts)
      if (port !== undefined && !taken.has(port)) return port
      if (requested !== undefined) throw portInUse(requested)
    }
    throw new AppError('ERR_BUSY', 'No free host port was found; name one in host_port', { field: 'host_port' })
  }

  async function remove(call: Call, at: Workspace, guestPort: number) {
    const existing = at.forwards.find((forward) => forward.guestPort === guestPort)
    if (existing === undefined) {
      throw new AppError('ERR_NOT_FOUND', `guest_port: port ${guestPort} is not forwarded; use the action list`, {
        field: 'guest_port',
        guest_port: guestPort,
      })
    }
    const changed = await change(call, at, (found) => ({
      forwards: found.forwards.filter((forward) => forward.guestPort !== guestPort),
    }))
    call.record({ kind: 'workspace_forward_removed', body: { workspace_id: at.id, guest_port: guestPort } })
    return answer(changed, guestPort, existing.hostPort, `Host port ${existing.hostPort} is no longer forwarded.`)
  }

  return { networkPolicy, portForward }
}

const answer = (workspace: Workspace, guest_port: number, host_port: number | null, message: string) => ({
  workspace_id: workspace.id,
  guest_port,
  host_port,
  port_forwards: forwardsView(workspace),
  message,
})

const forwardedAlready = (guestPort: number, hostPort: number): AppError =>
  new AppError('ERR_ALREADY_EXISTS', `guest_port: host port ${hostPort} leads to ${guestPort}; remove that first`, {
    field: 'guest_port',
    guest_port: guestPort,
    host_port: hostPort,
  })

const portInUse = (port: number): AppError =>
  invalid('host_port', `port ${port} is in use on this machine; choose another or leave it out`, { host_port: port })
