import { mustRun, type RunCommand } from '../run-command.ts'
import { hubAddress, workspaceNetwork } from './addresses.ts'
import type { Programs } from './programs.ts'

/** The maximum of slirp4netns. No physical link limits it. */
const MTU = 65_520

/**
 * The hub's address is on its loopback device, so it exists independently of any link. A workspace address without a link is
 * unreachable, instead of routed to the internet.
 */
export async function prepareHubDevice(run: RunCommand, { ip }: Programs): Promise<void> {
  const lines = [
    'link set dev lo up',
    `address replace ${hubAddress}/32 dev lo`,
    `route replace unreachable ${workspaceNetwork}`,
  ]
  await mustRun(run, [ip, '-batch', '-'], `${lines.join('\n')}\n`)
}

/**
 * A veth pair from the hub to the network namespace of `pid`, where its end is `eth0`. The workspace's address is a /32, so every
 * packet goes to the hub. Without autoconfiguration, IPv6 has no source address to send from.
 */
export async function addLink(
  run: RunCommand,
  { ip, nsenter }: Programs,
  link: string,
  workspace: Readonly<{ pid: number; ip: string }>,
): Promise<void> {
  const outside = [
    `link add name ${link} mtu ${MTU} type veth peer name eth0 mtu ${MTU} netns ${workspace.pid}`,
    `link set dev ${link} addrgenmode none`,
    `link set dev ${link} up`,
    `route replace ${workspace.ip}/32 dev ${link} src ${hubAddress}`,
  ]
  const inside = [
    'link set dev lo up',
    'link set dev eth0 addrgenmode none',
    'link set dev eth0 up',
    `address add ${workspace.ip}/32 dev eth0`,
    `route add ${hubAddress}/32 dev eth0 scope link`,
    `route add default via ${hubAddress} dev eth0`,
  ]
  await mustRun(run, [ip, '-batch', '-'], `${outside.join('\n')}\n`)
  const enter = [nsenter, '-t', String(workspace.pid), '-n', '--']
  await mustRun(run, [...enter, ip, '-batch', '-'], `${inside.join('\n')}\n`)
}

/** If the workspace's namespace has ended, the kernel has removed the pair already. */
export async function removeLink(run: RunCommand, { ip }: Programs, link: string): Promise<void> {
  await run([ip, 'link', 'delete', 'dev', link])
}
