import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { seccompFilter } from './filter.ts'
import type { SeccompArch } from './system-calls.ts'

/** Runs the real filter in the real kernel. */
const arch = process.arch as SeccompArch
const column = arch === 'x64' ? 0 : 1
let directory: string
let filterPath: string

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'castellan-seccomp-'))
  filterPath = join(directory, 'filter.bpf')
  writeFileSync(filterPath, seccompFilter(arch))
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

type Outcome = Readonly<{ code: number | null; stdout: string; stderr: string }>

const INSTALL = 'require shift; my $filter = read_filter(shift); install_filter($filter) if shift; exec @ARGV or die'
const library = join(import.meta.dirname, '../perl/kernel.pl')

async function under(argv: readonly string[], filtered: boolean): Promise<Outcome> {
  const child = spawn('perl', ['-e', INSTALL, library, filterPath, filtered ? '1' : '', ...argv], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const code = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
  const [stdout, stderr] = await Promise.all([text(child.stdout!), text(child.stderr!)])
  return { code: await code, stdout, stderr }
}

/** Returns the errno of each call, 0 for success. */
async function tryCalls(calls: readonly (readonly number[])[], filtered: boolean): Promise<readonly number[]> {
  const script =
    'for (@ARGV) { my @c = map { int } split /,/; $! = 0; my $r = syscall(shift(@c), @c); print $r == -1 ? $!+0 : 0, "\\n" }'
  const outcome = await under(['perl', '-e', script, ...calls.map((call) => call.join(','))], filtered)
  expect(outcome).toMatchObject({ code: 0, stderr: '' })
  return outcome.stdout.trim().split('\n').map(Number)
}

const EPERM = 1
const ENOSYS = 38
const EPROTONOSUPPORT = 93
const EAFNOSUPPORT = 97

const nr = (x64: number, arm64: number): number => [x64, arm64][column]!

describe('the filter in the real kernel', () => {
  it('refuses what it lists, of which the kernel would have allowed some', async () => {
    const allowedOtherwise: readonly (readonly [string, readonly number[], number])[] = [
      ['unshare of files', [nr(272, 97), 0x400], EPERM],
      ['a netlink socket for events', [nr(41, 198), 16, 3, 15], EPROTONOSUPPORT],
      ['personality READ_IMPLIES_EXEC', [nr(135, 92), 0x400000], EPERM],
      ['clock_adjtime', [nr(305, 266), 0, 0], EPERM],
      ['fsopen', [430, 0, 0], ENOSYS],
      ['clone3', [435, 0, 0], ENOSYS],
      ['io_uring_setup', [425, 0, 0], ENOSYS],
      ['bpf', [nr(321, 280), 99, 0, 0], EPERM],
      ['keyctl', [nr(250, 219), 0, 0xfffffffd, 0], EPERM],
      ['mount', [nr(165, 40), 0, 0, 0, 0, 0], EPERM],
      ['clone into a user namespace', [nr(56, 220), 0x10000000 | 0x8000, 0, 0, 0, 0], EPERM],
      ['a vsock socket', [nr(41, 198), 40, 1, 0], EAFNOSUPPORT],
      ['a packet socket', [nr(41, 198), 17, 3, 0], EAFNOSUPPORT],
      ['a call that nobody has judged', [500], ENOSYS],
      ['TIOCSTI', [nr(16, 29), 0, 0x5412, 0], EPERM],
    ]
    const calls = allowedOtherwise.map(([, call]) => call)
    const filtered = await tryCalls(calls, true)
    expect(allowedOtherwise.map(([name], index) => [name, filtered[index]])).toEqual(
      allowedOtherwise.map(([name, , expected]) => [name, expected]),
    )
    const unfiltered = await tryCalls(calls.slice(0, 3), false)
    expect(unfiltered).toEqual([0, 0, 0])
  })

  it('lets ordinary programs work: threads, child processes, sockets, a tracer', async () => {
    const program = [
      "const { Worker } = require('node:worker_threads')",
      "const { execFileSync } = require('node:child_process')",
      "const net = require('node:net')",
      'const worker = new Worker(\'require("node:worker_threads").parentPort.postMessage(1)\', { eval: true })',
      "worker.once('message', () => {",
      "  const said = execFileSync('sh', ['-c', 'echo from $((40 + 2)) | cat'], { encoding: 'utf8' }).trim()",
      "  const server = net.createServer((peer) => peer.end(said)).listen(0, '127.0.0.1', () => {",
      "    net.connect(server.address().port, '127.0.0.1').on('data', (d) => { console.log(String(d)); server.close() })",
      '  })',
      '})',
    ].join('\n')
    const outcome = await under([process.execPath, '-e', program], true)
    expect(outcome).toEqual({ code: 0, stdout: 'from 42\n', stderr: '' })

    const tracer = `my $pid = fork; if (!$pid) { sleep 60 } print syscall(${nr(101, 117)}, 16, $pid, 0, 0); kill 9, $pid`
    expect(await under(['perl', '-e', tracer], true)).toEqual({ code: 0, stdout: '0', stderr: '' })
  })
})
