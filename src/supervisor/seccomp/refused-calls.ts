import type { SystemCall } from './system-calls.ts'

/**
 * The system calls that a workload may not make. Most need a capability that no workload has; refusing them here as well keeps
 * the kernel code behind them out of reach, whatever its faults.
 *
 * Deliberately allowed:
 * - ptrace, process_vm_readv, process_vm_writev, pidfd_getfd and kcmp. Debuggers and strace are useful in a workspace; the
 *   kernel restricts them to processes of the same workspace with no more capabilities, and the filter runs again after a tracer
 *   has changed a call. Refusing one of them would take away nothing that another does not give.
 * - seccomp and landlock, which can only restrict a workload further.
 * - mknod: without the capability it creates no devices, and FIFOs are harmless.
 */
export const errno = { EPERM: 1, ENOSYS: 38, EPROTONOSUPPORT: 93, EAFNOSUPPORT: 97 } as const
type RefusalErrno = keyof typeof errno

/** After ENOSYS programs fall back to the older call, which has a rule as well; after EPERM they report the error. */
export const refusedCalls: Readonly<Record<'EPERM' | 'ENOSYS', readonly SystemCall[]>> = {
  ENOSYS: [
    // Its flags are in memory, which a filter cannot read; C libraries fall back to clone.
    'clone3',
    'fsconfig',
    'fsmount',
    'fsopen',
    'fspick',
    'io_uring_enter',
    'io_uring_register',
    'io_uring_setup',
    'mount_setattr',
    'move_mount',
    'open_tree',
    'open_tree_attr',
  ],
  EPERM: [
    '_sysctl',
    'acct',
    'add_key',
    'adjtimex',
    'bpf',
    'chroot',
    'clock_adjtime',
    'clock_settime',
    'create_module',
    'delete_module',
    'fanotify_init',
    'finit_module',
    'get_kernel_syms',
    'init_module',
    'ioperm',
    'iopl',
    'kexec_file_load',
    'kexec_load',
    'keyctl',
    'lookup_dcookie',
    'modify_ldt',
    'mount',
    'name_to_handle_at',
    'nfsservctl',
    'open_by_handle_at',
    'perf_event_open',
    'pivot_root',
    'query_module',
    'quotactl',
    'quotactl_fd',
    'reboot',
    'request_key',
    'setns',
    'settimeofday',
    'swapoff',
    'swapon',
    'sysfs',
    'syslog',
    'umount2',
    'unshare',
    'uselib',
    'userfaultfd',
    'vhangup',
  ],
}

/**
 * In a workspace with a single id there is no other owner, and the kernel refuses chown; archives with owners then fail to
 * unpack. For root of such a workspace these calls succeed without effect.
 */
export const ownerCalls: readonly SystemCall[] = ['chown', 'fchown', 'fchownat', 'lchown']

/** A test of the low 32 bits of one argument: the kernel reads each of these arguments as an int. */
export type ArgumentRule = Readonly<{
  call: SystemCall
  argument: number
  /** `allow-only` refuses every other value; `refuse-bits` refuses if one of the bits is set. */
  rule: 'allow-only' | 'refuse-values' | 'refuse-bits'
  values: readonly number[]
  errno: RefusalErrno
  /** The rule applies only if another argument has this value. */
  when?: Readonly<{ argument: number; value: number }>
  reason: string
}>

const AF_UNIX = 1
const AF_INET = 2
const AF_INET6 = 10
const AF_NETLINK = 16
const NETLINK_ROUTE = 0

/** NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. clone has no flag for the time namespace. */
const CLONE_NEW_ANY = 0x7e020000

const TIOCSTI = 0x5412
const TIOCLINUX = 0x541c
const TIOCSETD = 0x5423

const PER_LINUX = 0x0
const PER_LINUX32 = 0x8
const UNAME26 = 0x20000
const ADDR_NO_RANDOMIZE = 0x40000
const PERSONALITY_QUERY = 0xffffffff

export const argumentRules: readonly ArgumentRule[] = [
  {
    call: 'clone',
    argument: 0,
    rule: 'refuse-bits',
    values: [CLONE_NEW_ANY],
    errno: 'EPERM',
    reason: 'A namespace of its own would give a workload every capability in it.',
  },
  {
    call: 'ioctl',
    argument: 1,
    rule: 'refuse-values',
    values: [TIOCSTI, TIOCLINUX, TIOCSETD],
    errno: 'EPERM',
    reason: 'They type into the terminal of another process, or load line disciplines into the kernel.',
  },
  {
    call: 'socket',
    argument: 0,
    rule: 'allow-only',
    values: [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK],
    errno: 'EAFNOSUPPORT',
    reason: 'Other families (vsock, packet, alg, …) reach past the network policy, or into seldom used kernel code.',
  },
  {
    call: 'socket',
    argument: 2,
    rule: 'allow-only',
    values: [NETLINK_ROUTE],
    errno: 'EPROTONOSUPPORT',
    when: { argument: 0, value: AF_NETLINK },
    reason: 'Listing interfaces needs ROUTE. Programs take this error for a kernel without audit and the like.',
  },
  {
    call: 'socketpair',
    argument: 0,
    rule: 'allow-only',
    values: [AF_UNIX],
    errno: 'EAFNOSUPPORT',
    reason: 'As for socket; pairs of other families have no ordinary use.',
  },
  {
    call: 'personality',
    argument: 0,
    rule: 'allow-only',
    values: [
      PER_LINUX,
      PER_LINUX32,
      UNAME26,
      UNAME26 | PER_LINUX32,
      ADDR_NO_RANDOMIZE,
      ADDR_NO_RANDOMIZE | PER_LINUX32,
      PERSONALITY_QUERY,
    ],
    errno: 'EPERM',
    reason: 'Debuggers and sanitizers fix their own addresses; other values open old ways of mapping memory.',
  },
]
