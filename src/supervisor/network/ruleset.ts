import type { NetworkSpec } from '../../domains/workspaces/backend.ts'
import { closedRanges, hubAddress, uplinkDevice, uplinkNetwork, workspaceNetwork } from './addresses.ts'
import { type HostNetwork, hasDirectInternet } from './policy.ts'

/** A workspace with a link: the name of the hub's end, its address and its policy. */
export type LinkedWorkspace = Readonly<{ link: string; ip: string; spec: NetworkSpec }>

const TABLE = 'inet castellan'
/** The name prefix of the hub's link ends. Nothing else in the hub's namespace may use it. */
export const LINK_PREFIX = 'ws'

/**
 * The static rules; policies are elements of their sets. Every packet is checked against the current policy: no rule accepts an
 * established connection, so a change cuts it. A refused packet is answered with a reset or an ICMP error, so that programs fail
 * at once instead of waiting.
 *
 * Links are routed, not bridged: a workspace shares no Ethernet segment with another, and all its packets pass these rules.
 */
export const baseRuleset = `
table ${TABLE}
delete table ${TABLE}
table ${TABLE} {
  set links { type ifname . ipv4_addr; }
  set internet { type ipv4_addr; }
  set talking { type ipv4_addr . ipv4_addr; }
  set open_ports { type ipv4_addr . ipv4_addr . inet_service; }
  set peers { type ipv4_addr . ipv4_addr; }
  set host_addresses { type ipv4_addr; }
  set resolvers { type ipv4_addr; }
  map resolver { type inet_service : ipv4_addr; }
  set closed { type ipv4_addr; flags interval; elements = { ${closedRanges.join(', ')} } }

  chain check_source {
    type filter hook prerouting priority raw; policy accept;
    meta nfproto ipv6 iifname != "lo" drop
    iifname "${LINK_PREFIX}*" iifname . ip saddr != @links drop
    iifname "${uplinkDevice}" ip saddr ${workspaceNetwork} drop
  }
  chain redirect_in {
    type nat hook prerouting priority dstnat; policy accept;
    ip saddr @internet ip daddr ${hubAddress} meta l4proto { tcp, udp } dnat ip to th dport map @resolver
  }
  chain leave_as_hub {
    type nat hook postrouting priority srcnat; policy accept;
    oifname "${uplinkDevice}" ip saddr ${workspaceNetwork} masquerade
  }

  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited
  }
  chain forward {
    type filter hook forward priority filter; policy drop;
    meta nfproto ipv6 drop
    ct state invalid drop
    ct state related icmp type { destination-unreachable, time-exceeded, parameter-problem } accept
    iifname "${LINK_PREFIX}*" oifname "${LINK_PREFIX}*" jump between
    iifname "${LINK_PREFIX}*" oifname "${uplinkDevice}" jump outward
    iifname "${uplinkDevice}" oifname "${LINK_PREFIX}*" jump inward
    jump refuse
  }
  chain between {
    ip saddr . ip daddr @talking accept
    ip saddr . ip daddr @peers ip daddr . ip saddr @peers accept
    ct direction original ip saddr . ip daddr . tcp dport @open_ports accept
    ct direction reply ip daddr . ip saddr . tcp sport @open_ports accept
  }
  chain outward {
    ct direction reply jump refuse
    ip saddr @internet ip daddr @resolvers ct status dnat meta l4proto { tcp, udp } th dport 53 accept
    ip saddr @internet ip daddr != @closed ip daddr != @host_addresses meta l4proto { tcp, udp, icmp } accept
  }
  chain inward {
    ct direction original jump refuse
    ip daddr @internet ip saddr @resolvers ct status dnat meta l4proto { tcp, udp } th sport 53 accept
    ip daddr @internet ip saddr != @closed ip saddr != @host_addresses accept
  }
  chain input {
    type filter hook input priority filter; policy drop;
    iifname "lo" accept
    meta nfproto ipv6 drop
    ct direction reply ct state established,related accept
    ct state related icmp type { destination-unreachable, time-exceeded, parameter-problem } accept
    jump refuse
  }
  chain output {
    type filter hook output priority filter; policy accept;
    meta nfproto ipv6 oifname != "lo" drop
    oifname "${uplinkDevice}" ip daddr ${uplinkNetwork} accept
    oifname "${uplinkDevice}" ip daddr @resolvers meta l4proto { tcp, udp } th dport 53 accept
    oifname "${uplinkDevice}" ct state new ip daddr @closed jump refuse
    oifname "${uplinkDevice}" ct state new ip daddr @host_addresses jump refuse
  }
}
`

type Pair = Readonly<{ from: LinkedWorkspace; to: LinkedWorkspace }>

/** Pairs of workspaces that may talk to each other. Both are always of the same tenant. */
function talkersOf(workspaces: readonly LinkedWorkspace[]): Pair[] {
  return workspaces
    .filter(({ spec }) => spec.allowInterVm)
    .flatMap((from) =>
      workspaces.filter((to) => to !== from && to.spec.tenant === from.spec.tenant).map((to) => ({ from, to })),
    )
}

/** All policies as one transaction: every element is removed and the current ones are added, atomically for every packet. */
export function policyTransaction(
  workspaces: readonly LinkedWorkspace[],
  { hostAddresses, resolver }: HostNetwork,
): string {
  const talkers = talkersOf(workspaces)
  const sets: Record<string, Set<string>> = {
    links: new Set(workspaces.map(({ link, ip }) => `"${link}" . ${ip}`)),
    internet: ipsWhere(workspaces, hasDirectInternet),
    talking: new Set(talkers.filter(({ to }) => to.spec.allowInterVm).map(({ from, to }) => `${from.ip} . ${to.ip}`)),
    open_ports: new Set(
      talkers.flatMap(({ from, to }) => to.spec.allowedPorts.map((port) => `${from.ip} . ${to.ip} . ${port}`)),
    ),
    peers: new Set(workspaces.flatMap(({ ip, spec }) => spec.peers.map((peer) => `${ip} . ${peer}`))),
    host_addresses: new Set(hostAddresses),
    resolvers: new Set([resolver]),
  }
  const maps: Record<string, Set<string>> = {
    resolver: new Set([`53 : ${resolver}`]),
  }
  return [...linesFor('set', sets), ...linesFor('map', maps), ''].join('\n')
}

function ipsWhere(workspaces: readonly LinkedWorkspace[], holds: (spec: NetworkSpec) => boolean): Set<string> {
  return new Set(workspaces.filter(({ spec }) => holds(spec)).map(({ ip }) => ip))
}

function linesFor(kind: 'set' | 'map', all: Readonly<Record<string, Set<string>>>): string[] {
  return Object.entries(all).flatMap(([name, elements]) => [
    `flush ${kind} ${TABLE} ${name}`,
    ...(elements.size === 0 ? [] : [`add element ${TABLE} ${name} { ${[...elements].join(', ')} }`]),
  ])
}
