import { describe, expect, it } from 'vitest'
import { dataOf, runBpf, verdictName } from '../../../test/support/bpf-interpreter.ts'
import { seccompFilter } from './filter.ts'
import type { SeccompArch } from './system-calls.ts'

const archValues: Readonly<Record<SeccompArch, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 }
const archs: readonly SeccompArch[] = ['x64', 'arm64']
const filters = { x64: seccompFilter('x64'), arm64: seccompFilter('arm64') }

function verdict(arch: SeccompArch, number: number, values: readonly (number | bigint)[] = []): string {
  const data = dataOf({ arch: archValues[arch], number, arguments: values.map(BigInt) })
  return verdictName(runBpf(filters[arch], data).value)
}

/** Name, x64 number, arm64 number, from the kernel's headers, to catch errors in our table. */
type Row = readonly [name: string, x64: number, arm64: number | null]

const refusedWithEperm: readonly Row[] = [
  ['mount', 165, 40],
  ['umount2', 166, 39],
  ['pivot_root', 155, 41],
  ['unshare', 272, 97],
  ['setns', 308, 268],
  ['keyctl', 250, 219],
  ['add_key', 248, 217],
  ['request_key', 249, 218],
  ['bpf', 321, 280],
  ['perf_event_open', 298, 241],
  ['userfaultfd', 323, 282],
  ['kexec_load', 246, 104],
  ['kexec_file_load', 320, 294],
  ['init_module', 175, 105],
  ['finit_module', 313, 273],
  ['delete_module', 176, 106],
  ['create_module', 174, null],
  ['get_kernel_syms', 177, null],
  ['query_module', 178, null],
  ['reboot', 169, 142],
  ['swapon', 167, 224],
  ['swapoff', 168, 225],
  ['settimeofday', 164, 170],
  ['clock_settime', 227, 112],
  ['adjtimex', 159, 171],
  ['clock_adjtime', 305, 266],
  ['open_by_handle_at', 304, 265],
  ['name_to_handle_at', 303, 264],
  ['quotactl', 179, 60],
  ['quotactl_fd', 443, 443],
  ['acct', 163, 89],
  ['syslog', 103, 116],
  ['iopl', 172, null],
  ['ioperm', 173, null],
  ['lookup_dcookie', 212, 18],
  ['nfsservctl', 180, 42],
  ['chroot', 161, 51],
  ['vhangup', 153, 58],
  ['uselib', 134, null],
  ['_sysctl', 156, null],
  ['sysfs', 139, null],
  ['modify_ldt', 154, null],
  ['fanotify_init', 300, 262],
]
const refusedWithEnosys: readonly Row[] = [
  ['clone3', 435, 435],
  ['open_tree', 428, 428],
  ['open_tree_attr', 467, 467],
  ['move_mount', 429, 429],
  ['fsopen', 430, 430],
  ['fsconfig', 431, 431],
  ['fsmount', 432, 432],
  ['fspick', 433, 433],
  ['mount_setattr', 442, 442],
  ['io_uring_setup', 425, 425],
  ['io_uring_enter', 426, 426],
  ['io_uring_register', 427, 427],
]
const argumentCalls: readonly Row[] = [
  ['clone', 56, 220],
  ['ioctl', 16, 29],
  ['socket', 41, 198],
  ['socketpair', 53, 199],
  ['personality', 135, 92],
]
const number = (rows: readonly Row[], name: string, arch: SeccompArch): number =>
  rows.find((row) => row[0] === name)![arch === 'x64' ? 1 : 2]!

describe.each(archs)('the seccomp filter for %s', (arch) => {
  const column = arch === 'x64' ? 1 : 2
  const listed = new Map<number, string>()
  for (const row of refusedWithEperm) if (row[column] !== null) listed.set(row[column], 'EPERM')
  for (const row of refusedWithEnosys) if (row[column] !== null) listed.set(row[column], 'ENOSYS')
  const withArguments = new Set(argumentCalls.map((row) => row[column]))
  const call = (name: string, ...values: (number | bigint)[]): string =>
    verdict(arch, number(argumentCalls, name, arch), values)

  it('gives each number the verdict of the lists, and allows every other one up to the newest that was judged', () => {
    for (let candidate = 0; candidate <= 469; candidate++) {
      if (withArguments.has(candidate)) continue
      expect(verdict(arch, candidate), `call ${candidate}`).toBe(listed.get(candidate) ?? 'allow')
    }
  })

  it('answers calls that nobody has judged, and x32 numbers, as a kernel that lacks them', () => {
    for (const candidate of [470, 512, 547, 1000, 0x40000000, 0x40000000 | 165, 0x7fffffff, 0xffffffff]) {
      expect(verdict(arch, candidate), `call ${candidate}`).toBe('ENOSYS')
    }
  })

  it('ends a process that calls through another architecture', () => {
    for (const foreign of [0x40000003, 0x40000028, 0xc000003e, 0xc00000b7, 0xc00000f3, 0]) {
      const { value } = runBpf(filters[arch], dataOf({ arch: foreign, number: 0 }))
      expect(verdictName(value), foreign.toString(16)).toBe(foreign === archValues[arch] ? 'allow' : 'kill')
    }
  })

  it('reads arguments only of the calls that have a rule for them', () => {
    for (let candidate = 0; candidate <= 600; candidate++) {
      const { readArguments } = runBpf(filters[arch], dataOf({ arch: archValues[arch], number: candidate }))
      expect(readArguments, `call ${candidate}`).toBe(withArguments.has(candidate))
    }
  })

  it('lets clone make processes and threads, but no namespace', () => {
    const thread = 0x3d0f00
    for (const flags of [0, 17, 0x4111, thread, 0x1200011]) expect(call('clone', flags), `${flags}`).toBe('allow')
    for (const flag of [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]) {
      expect(call('clone', flag | 17), flag.toString(16)).toBe('EPERM')
      expect(call('clone', BigInt(flag) | 0xffffffff00000000n), flag.toString(16)).toBe('EPERM')
    }
  })

  it('refuses the three terminal ioctls, also with high bits that the kernel ignores', () => {
    for (const command of [0x5412, 0x541c, 0x5423]) {
      expect(call('ioctl', 0, command)).toBe('EPERM')
      expect(call('ioctl', 0, BigInt(command) | 0x100000000n)).toBe('EPERM')
    }
    for (const command of [0x5401, 0x5413, 0x540f, 0x5421]) expect(call('ioctl', 0, command)).toBe('allow')
  })

  it('allows sockets of the local, internet and route families only', () => {
    for (const family of [1, 2, 10]) expect(call('socket', family, 1, 6), `family ${family}`).toBe('allow')
    for (let family = 0; family < 64; family++) {
      if ([1, 2, 10, 16].includes(family)) continue
      expect(call('socket', family, 3, 0), `family ${family}`).toBe('EAFNOSUPPORT')
    }
    expect(call('socket', 40n | 0x200000000n)).toBe('EAFNOSUPPORT')
    expect(call('socket', 16, 3, 0)).toBe('allow')
    for (let protocol = 1; protocol < 24; protocol++) {
      expect(call('socket', 16, 3, protocol), `netlink ${protocol}`).toBe('EPROTONOSUPPORT')
    }
    expect(call('socketpair', 1, 1, 0)).toBe('allow')
    for (const family of [2, 10, 16, 30, 40]) expect(call('socketpair', family, 1, 0)).toBe('EAFNOSUPPORT')
  })

  it('allows only harmless personalities', () => {
    for (const value of [0, 8, 0x20000, 0x20008, 0x40000, 0x40008, 0xffffffff]) {
      expect(call('personality', value), value.toString(16)).toBe('allow')
    }
    for (const value of [0x0100000, 0x0400000, 0x0440000, 1, 0x0200000]) {
      expect(call('personality', value), value.toString(16)).toBe('EPERM')
    }
  })

  it('lets debuggers work', () => {
    const calls = arch === 'x64' ? [101, 310, 311, 438, 312] : [117, 270, 271, 438, 272]
    for (const candidate of calls) expect(verdict(arch, candidate)).toBe('allow')
  })
})
