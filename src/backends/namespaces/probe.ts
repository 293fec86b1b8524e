import {
  type BackendCapabilities,
  type Capability,
  type CapabilityName,
  closedNetwork,
  type ExecResult,
  type WorkspaceBackend,
  type WorkspaceSpec,
} from '../../domains/workspaces/backend.ts'
import { PACKAGE_CAPABILITIES } from '../../supervisor/capabilities.ts'
import type { NetworkCapabilities } from '../../supervisor/network/network-hub.ts'
import type { SupervisorFacts } from '../../supervisor/protocol.ts'

type ProbeDeps = Readonly<{
  backend: Pick<WorkspaceBackend, 'create' | 'start' | 'exec' | 'destroy' | 'usage'>
  facts(): Promise<SupervisorFacts>
  network(): Promise<NetworkCapabilities>
  newId(): string
}>

const MB = 1024 * 1024
/** If the data directory is on a tmpfs, disk writes of a workspace count as its memory, so they must fit in here. */
const PROBE_MEMORY_MB = 64
const PROBE_DISK_MB = 8
const PROBE_PROCESSES = 24
const PROBE_VCPUS = 0.05
const TIMEOUT_MS = 20_000

const held = (reason: string): Capability => ({ enforced: true, reason })
const open = (reason: string): Capability => ({ enforced: false, reason })

type Shell = (command: string) => Promise<ExecResult>
type Facts = Readonly<{
  inside: string
  rootfs: boolean
  memoryFree: boolean
  diskFree: boolean
  processesFree: boolean
}>

/** Tests each capability in temporary workspaces. */
export async function probeCapabilities(deps: ProbeDeps): Promise<BackendCapabilities> {
  const privilege = process.getuid?.() === 0 ? 'root' : 'user'
  try {
    const [facts, tried, isThrottled, network] = await Promise.all([
      deps.facts(),
      twice(() => inWorkspace(deps, { vcpus: 1, memoryMb: PROBE_MEMORY_MB, diskGb: PROBE_DISK_MB / 1024 }, tryLimits)),
      twice(() =>
        inWorkspace(deps, { vcpus: PROBE_VCPUS, memoryMb: 64, diskGb: 1 }, (shell, id) =>
          tryProcessor(deps, shell, id),
        ),
      ),
      deps.network(),
    ])
    const capabilities = judge(facts, tried, isThrottled, network)
    return { available: true, problem: undefined, privilege, capabilities }
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    const none = open(`Workspaces cannot run here: ${problem}`)
    const capabilities = Object.fromEntries(capabilityNames.map((name) => [name, none]))
    return {
      available: false,
      problem,
      privilege,
      capabilities: capabilities as Record<CapabilityName, Capability>,
    }
  }
}

const capabilityNames: readonly CapabilityName[] = [
  'isolation',
  'rootfs',
  'seccomp',
  'memory_limit',
  'cpu_limit',
  'process_limit',
  'user_limits',
  'disk_limit',
  'network_policy',
  'internet',
  'allowed_domains',
  'port_forward',
  'memory_snapshot',
  'package_install',
]

/** A workspace may end by accident while its limits are tested; only a second failure counts. */
const twice = <T>(attempt: () => Promise<T>): Promise<T> => attempt().catch(attempt)

async function inWorkspace<T>(
  { backend, newId }: ProbeDeps,
  resources: WorkspaceSpec['resources'],
  work: (shell: Shell, id: string) => Promise<T>,
): Promise<T> {
  const spec: Omit<WorkspaceSpec, 'ip'> = {
    id: newId(),
    hostname: 'probe',
    image: 'host',
    layers: [],
    resources: { ...resources, processes: PROBE_PROCESSES },
    network: closedNetwork,
  }
  const shell: Shell = (command) =>
    backend.exec(spec.id, {
      argv: ['/bin/sh', '-c', command],
      env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
      timeoutMs: TIMEOUT_MS,
      outputBytesMax: 4096,
      signal: new AbortController().signal,
    })
  try {
    const { ip } = await backend.create(spec)
    await backend.start({ ...spec, ip })
    return await work(shell, spec.id)
  } finally {
    await backend.destroy(spec.id).catch(() => {})
  }
}

async function tryLimits(shell: Shell): Promise<Facts> {
  const say = async (command: string): Promise<string> => Buffer.from((await shell(command)).stdout.head).toString()
  const inside = await say('cat /proc/self/status')
  const rootfs = await shell('echo x > /probe-file && cat /probe-file && ! touch /usr/probe-file 2>/dev/null')
  const memoryBytes = 2 * PROBE_MEMORY_MB * MB
  const memory = await say(`head -c ${memoryBytes} /dev/zero | tail -c ${memoryBytes} | wc -c`)
  const disk = await say(`head -c ${3 * PROBE_DISK_MB * MB} /dev/zero > /probe-disk && echo all || echo refused`)
  // Last, because nothing else can run while its processes exist.
  const processes = await say(
    `i=0; while [ $i -lt ${2 * PROBE_PROCESSES} ]; do sleep 1 & i=$((i+1)); done 2>/dev/null; echo all`,
  )
  return {
    inside,
    rootfs: rootfs.exitCode === 0,
    memoryFree: memory.trim() === String(memoryBytes),
    // Only a refusal counts: a write to a slow disk may merely time out.
    diskFree: !disk.includes('refused'),
    processesFree: processes.includes('all'),
  }
}

async function tryProcessor({ backend }: ProbeDeps, shell: Shell, id: string): Promise<boolean> {
  await shell('i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done')
  return ((await backend.usage(id)).cpuThrottledCount ?? 0) > 0
}

/** Parses the bounding set in `/proc/self/status`. */
function hasOnly(allowed: bigint, status: string): boolean {
  const found = /^CapBnd:\s([0-9a-f]+)$/m.exec(status)?.[1]
  return found !== undefined && (BigInt(`0x${found}`) & ~allowed) === 0n
}

function judge(
  facts: SupervisorFacts,
  tried: Facts,
  isThrottled: boolean,
  network: NetworkCapabilities,
): Record<CapabilityName, Capability> {
  const root = 'Run the server as root to enforce it.'
  // Only root can delegate control groups.
  const noQuotas =
    'Install btrfs-progs, set workspaces.store_gb above 0 and destroy every workspace: the next supervisor then creates a store with quotas.'
  const noGroups = `The kernel gives an ordinary user no control groups here. ${root}`
  return {
    isolation: hasOnly(PACKAGE_CAPABILITIES, tried.inside)
      ? held(
          facts.ids > 1
            ? 'Own user, pid, mount, network, ipc and uts namespaces; no capabilities except those over its own files and ids.'
            : 'Own user, pid, mount, network, ipc and uts namespaces; no capabilities.',
        )
      : open('The capabilities were not dropped.'),
    rootfs: tried.rootfs ? held('Copy-on-write layers; the host is read-only.') : open('Overlay failed.'),
    seccomp: /^Seccomp:\s2$/m.test(tried.inside)
      ? held('A system call filter is active.')
      : open('No filter is active.'),
    memory_limit: tried.memoryFree ? open(noGroups) : held('Control group.'),
    cpu_limit: isThrottled ? held('Control group.') : open(noGroups),
    process_limit: tried.processesFree
      ? open('Neither a control group nor a limit for the user holds.')
      : held(facts.cgroups.includes('pids') ? 'Control group and user limit.' : 'User limit.'),
    user_limits:
      facts.sharedIdsBecause === null
        ? held(
            'User ids of its own: what the kernel counts for each user (signals, descriptors in flight, pipes) is its own.',
          )
        : open(
            `What the kernel counts for each user (descriptors in flight, pipes, watches) is counted for all workspaces together: ${facts.sharedIdsBecause} Queued signals, message queues and inotify are limited for each.`,
          ),
    disk_limit: tried.diskFree
      ? open(
          `The store is on a file system whose quotas Castellan cannot set. ${facts.cgroups.length > 0 ? noQuotas : root}`,
        )
      : held('Quota of a btrfs subvolume.'),
    ...network,
    memory_snapshot: open('This back end cannot save memory; a snapshot contains only the disk.'),
    package_install:
      facts.ids > 1
        ? held(`${facts.ids} user ids are mapped.`)
        : open(
            'Only one user id is mapped: every file belongs to root, whatever chown says, and no process can become another user. Install uidmap and give the user a range in /etc/subuid and /etc/subgid.',
          ),
  }
}
