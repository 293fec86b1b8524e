import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { closedNetwork, type NetworkSpec } from '../../src/domains/workspaces/backend.ts'
import { type LineChild, startLineChild } from './line-requests.ts'

export type Privilege = 'root' | 'user'
export type Workspace = Readonly<{ id: string; ip: string; inside: LineChild }>
export type Dialled = Readonly<{ socket?: number; refused?: string }>

/** For a bench on which one of them never comes. Without a bound, it is the one of the program. */
export type HubBounds = Readonly<{ hostNetworkWaitMs?: number; uplinkStartMs?: number; searchPath?: string }>

export type NetworkBench = Readonly<{
  hub: LineChild
  start(ip: string, spec?: Partial<NetworkSpec>): Promise<Workspace>
  /** Starts slirp4netns. `resolver` is the name server that it takes for the host's. */
  startUplink(resolver: string): Promise<void>
  stopUplink(): Promise<void>
  /** Starts the host-network helper. */
  startHostNetwork(): Promise<void>
  close(): Promise<void>
}>

export const isRoot = process.getuid?.() === 0
/** Root tries both; an ordinary user can only be one. */
export const privileges: readonly Privilege[] = isRoot ? ['root', 'user'] : ['user']
const ROOT_FIRST_ID = 1_500_000_000
const USER_ID = 61_234
const repository = join(import.meta.dirname, '..', '..')

/** In a mount namespace of its own, where the repository and Node can be reached by the user that the program becomes. */
const reachable = `
  mount -t tmpfs -o mode=755 bench /mnt
  mkdir /mnt/repository && mount --bind "$1" /mnt/repository
  : >/mnt/node && mount --bind "$2" /mnt/node
  shift 2
  exec "$@"`
const program = (name: string): string[] =>
  isRoot
    ? ['/mnt/node', `/mnt/repository/test/support/${name}`]
    : [process.execPath, join(repository, 'test/support', name)]

function become(privilege: Privilege): string[] {
  if (!isRoot) return []
  const prepare = ['unshare', '-m', 'sh', '-ec', reachable, 'sh', repository, process.execPath]
  const ids = ['setpriv', `--reuid=${USER_ID}`, `--regid=${USER_ID}`, '--clear-groups']
  return privilege === 'root' ? prepare : [...prepare, ...ids]
}

/** The user namespace that everything else is in, held by a process that ends with its input. */
async function startKeeper(privilege: Privilege): Promise<ChildProcess> {
  const map = privilege === 'root' ? [] : ['-r']
  const [file, ...args] = [...become(privilege), 'unshare', '-U', ...map, 'sh', '-c', 'echo; exec cat >/dev/null']
  const keeper = spawn(file!, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  await once(keeper.stdout!, 'data')
  if (privilege === 'root') {
    writeFileSync(`/proc/${keeper.pid}/uid_map`, `0 ${ROOT_FIRST_ID} 65536`)
    writeFileSync(`/proc/${keeper.pid}/gid_map`, `0 ${ROOT_FIRST_ID} 65536`)
  }
  return keeper
}

export async function openNetworkBench(privilege: Privilege, bounds: HubBounds = {}): Promise<NetworkBench> {
  const directory = mkdtempSync(join(tmpdir(), 'castellan-network-'))
  chmodSync(directory, 0o777)
  const keeper = await startKeeper(privilege)
  const credentials = privilege === 'root' ? [] : ['--preserve-credentials']
  const enter = [...become(privilege), 'nsenter', '-t', String(keeper.pid), '-U', ...credentials, '--']
  const hubProgram = [...program('network-hub-process.ts'), directory, JSON.stringify(bounds)]
  const hub = await startLineChild([...enter, 'unshare', '-n', ...hubProgram])
  await hub.ask('open')
  const workspaces: Workspace[] = []
  let uplink: ChildProcess | undefined
  let helper: ChildProcess | undefined

  async function stopUplink(): Promise<void> {
    if (uplink === undefined) return
    const ended = once(uplink, 'close')
    uplink.kill()
    await ended
    uplink = undefined
  }

  return {
    hub,
    async start(ip, spec) {
      const inside = await startLineChild([...enter, 'unshare', '-U', '-r', '-n', ...program('traffic-process.ts')])
      const workspace = { id: `workspace ${ip}`, ip, inside }
      workspaces.push(workspace)
      await hub.ask('attach', { id: workspace.id, pid: inside.pid, ip }, { ...closedNetwork, ...spec })
      return workspace
    },
    async startUplink(resolver) {
      writeFileSync(join(directory, 'resolv.conf'), `nameserver ${resolver}\n`)
      const script = join(isRoot ? '/mnt/repository' : repository, 'src/supervisor/network/uplink.sh')
      const asOnHost = privilege === 'user' ? usualDevice : ''
      const mounts = `mount --bind "$1" "$(readlink -f /etc/resolv.conf)"\n${asOnHost}\nshift; exec "$@"`
      const [file, ...args] = [
        ...['unshare', '-m', 'sh', '-ec', mounts, 'sh', join(directory, 'resolv.conf')],
        ...become(privilege),
        ...['sh', script, String(hub.pid), join(directory, 'slirp.sock')],
      ]
      uplink = spawn(file!, args, { stdio: ['ignore', 'ignore', 'pipe'] })
      let log = ''
      uplink.stderr!.on('data', (text: Buffer) => {
        log += String(text)
      })
      if (!(await hub.ask<boolean>('waitForUplink', 180_000))) throw new Error(`slirp4netns did not start: ${log}`)
    },
    stopUplink,
    async startHostNetwork() {
      const script = join(isRoot ? '/mnt/repository' : repository, 'src/supervisor/network/host-network.sh')
      const [file, ...args] = [...become(privilege), 'sh', script, String(hub.pid), join(directory, 'host.sock')]
      helper = spawn(file!, args, { stdio: ['ignore', 'ignore', 'inherit'] })
      await hub.ask('requireHost')
    },
    async close() {
      for (const { inside } of workspaces) await inside.end()
      await stopUplink()
      if (helper !== undefined) {
        const ended = once(helper, 'close')
        helper.kill()
        await ended
      }
      await hub.end()
      keeper.stdin!.end()
      await once(keeper, 'close')
      rmSync(directory, { recursive: true })
    },
  }
}

/** On most machines everybody may open the device; where only root may, the test makes it so for itself. */
const usualDevice = 'mount -t tmpfs -o mode=755 bench /dev/net; mknod -m 666 /dev/net/tun c 10 200'

/** Stands for somewhere else until the answer is called: this machine takes what is sent there, but has no such address. */
export function addElsewhere(address: string): () => void {
  const route = ['local', `${address}/32`, 'dev', 'lo']
  execFileSync('ip', ['route', 'replace', ...route])
  return () => void execFileSync('ip', ['route', 'delete', ...route])
}

/** An address of this machine, until the answer is called. */
export function addHostAddress(address: string): () => void {
  execFileSync('ip', ['address', 'replace', `${address}/32`, 'dev', 'lo'])
  return () => void execFileSync('ip', ['address', 'delete', `${address}/32`, 'dev', 'lo'])
}

/** What of a network the host itself has, to see that nothing is left behind. */
export function hostNetwork(): string {
  const devices = readFileSync('/proc/net/dev', 'utf8').matchAll(/^\s*(\S+):/gm)
  const names = [...devices].map(([, name]) => name).join(' ')
  return `${names} in ${readlinkSync('/proc/self/ns/net')}`
}

/** A connection out of a workspace: its number, or the code of how it was refused. */
export const dial = ({ inside }: Workspace, host: string, port: number): Promise<Dialled> =>
  inside.ask('connect', host, port)

export const say = ({ inside }: Workspace, socket: number, text: string): Promise<string> =>
  inside.ask('say', socket, text)

export async function dialOpen(from: Workspace, host: string, port: number): Promise<number> {
  const { socket, refused } = await dial(from, host, port)
  if (socket === undefined) throw new Error(`${from.ip} could not connect to ${host}:${port}: ${refused}`)
  return socket
}
