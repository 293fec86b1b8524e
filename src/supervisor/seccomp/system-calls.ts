/** The supported architectures, by Node's names. */
export type SeccompArch = 'x64' | 'arm64'

/** The kernel's constants for them (AUDIT_ARCH_*). */
export const auditArch: Readonly<Record<SeccompArch, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 }

/**
 * The newest system call that was reviewed for the lists (file_setattr). Calls that later kernels add fail with ENOSYS until they
 * are reviewed. New calls have one number on all architectures. The numbers of the x32 ABI are far above, so this bound refuses
 * them as well.
 */
export const NEWEST_JUDGED_CALL = 469

/** Numbers by architecture; `null` if the call does not exist there. */
const numbers = {
  _sysctl: [156, null],
  acct: [163, 89],
  add_key: [248, 217],
  adjtimex: [159, 171],
  bpf: [321, 280],
  chown: [92, null],
  chroot: [161, 51],
  clock_adjtime: [305, 266],
  clock_settime: [227, 112],
  clone: [56, 220],
  clone3: [435, 435],
  create_module: [174, null],
  delete_module: [176, 106],
  fanotify_init: [300, 262],
  fchown: [93, 55],
  fchownat: [260, 54],
  finit_module: [313, 273],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fsopen: [430, 430],
  fspick: [433, 433],
  get_kernel_syms: [177, null],
  init_module: [175, 105],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  io_uring_setup: [425, 425],
  ioctl: [16, 29],
  ioperm: [173, null],
  iopl: [172, null],
  kexec_file_load: [320, 294],
  kexec_load: [246, 104],
  keyctl: [250, 219],
  lchown: [94, null],
  lookup_dcookie: [212, 18],
  modify_ldt: [154, null],
  mount: [165, 40],
  mount_setattr: [442, 442],
  move_mount: [429, 429],
  name_to_handle_at: [303, 264],
  nfsservctl: [180, 42],
  open_by_handle_at: [304, 265],
  open_tree: [428, 428],
  open_tree_attr: [467, 467],
  perf_event_open: [298, 241],
  personality: [135, 92],
  pivot_root: [155, 41],
  query_module: [178, null],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  reboot: [169, 142],
  request_key: [249, 218],
  setns: [308, 268],
  settimeofday: [164, 170],
  socket: [41, 198],
  socketpair: [53, 199],
  swapoff: [168, 225],
  swapon: [167, 224],
  sysfs: [139, null],
  syslog: [103, 116],
  umount2: [166, 39],
  unshare: [272, 97],
  uselib: [134, null],
  userfaultfd: [323, 282],
  vhangup: [153, 58],
} as const satisfies Record<string, readonly [x64: number, arm64: number | null]>

export type SystemCall = keyof typeof numbers

export function systemCallNumber(call: SystemCall, arch: SeccompArch): number | undefined {
  return numbers[call][arch === 'x64' ? 0 : 1] ?? undefined
}
