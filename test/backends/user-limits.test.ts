import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { closedNetwork } from '../../src/domains/workspaces/backend.ts'
import { type OpenedBackend, openNamespacesBackend } from '../support/namespaces-backend.ts'

/**
 * What the kernel counts for each user: one workspace takes all that it gets, and holds it. Each program takes `$max` of
 * something at most and says how many it got. Numbers of system calls are those of x86_64.
 */
const programs = {
  'inotify instances': `my $n = 0; $n++ while $n < $max && syscall(294, 0) >= 0;`,
  'inotify watches': `my $fd = syscall(294, 0); my $n = 0;
    mkdir "/tmp/watched"; while ($n < $max) { my $p = "/tmp/watched/$n"; mkdir $p; last if syscall(254, $fd, $p, 2) < 0; $n++ }`,
  'queued signals': `my $set = pack "Q", 1 << 39; my $none = pack "Q", 0; syscall(14, 0, $set, $none, 8);
    my $info = pack "l l l l l l x104", 40, 0, -1, 0, $$, 0; my $n = 0; $n++ while $n < $max && syscall(129, $$, 40, $info) == 0;`,
  // 253 descriptors in one message is the most there can be.
  'descriptors in flight': `socketpair(my $a, my $b, 1, 2, 0) or die; my $n = 0; my $byte = "x";
    my $control = pack "Q l l l253 x4", 16 + 4 * 253, 1, 1, (fileno $a) x 253; my $io = pack "P Q", $byte, 1;
    my $head = pack "Q L x4 P Q P Q l x4", 0, 0, $io, 1, $control, length $control, 0;
    my @pairs; while ($n < $max) {
      if (syscall(46, fileno $a, $head, 0x40) < 0) { last if $! == 109; push @pairs, $a, $b; socketpair($a, $b, 1, 2, 0) or last;
        substr($control, 16, 4 * 253) = pack "l253", (fileno $a) x 253; next }
      $n += 253 }`,
} as const
type What = keyof typeof programs
const script = (what: What, max: number, then: string): string => `my $max = ${max}; ${programs[what]} ${then}`

describe('what the kernel counts for each user', () => {
  let opened: OpenedBackend
  let greedy: string
  let other: string
  beforeAll(async () => {
    opened = await openNamespacesBackend()
    greedy = await start()
    other = await start()
  })
  afterAll(async () => await opened?.close())

  async function start(): Promise<string> {
    const resources = { vcpus: 1, memoryMb: 1024, diskGb: 1 }
    const spec = { id: randomUUID(), hostname: 'greedy', image: 'host', layers: [], resources, network: closedNetwork }
    const { ip } = await opened.backend.create(spec)
    await opened.backend.start({ ...spec, ip })
    return spec.id
  }
  async function say(id: string, argv: readonly string[]): Promise<string> {
    const { stdout, stderr } = await opened.backend.exec(id, {
      argv,
      env: { PATH: '/usr/bin:/bin' },
      timeoutMs: 60_000,
      outputBytesMax: 4096,
      signal: new AbortController().signal,
    })
    return `${Buffer.from(stdout.head)}${Buffer.from(stderr.head)}`.trim()
  }
  /** With few descriptors of its own, so that those of others in flight count. */
  const few = (what: What, count: number): readonly string[] => [
    ...['/bin/sh', '-c', 'ulimit -n 64; exec perl -e "$0"'],
    script(what, count, 'print $n'),
  ]
  const hostLimit = (name: string): number => Number(readFileSync(`/proc/sys/fs/inotify/max_user_${name}`, 'utf8'))

  it.each([
    { what: 'inotify instances', max: 1_000, most: () => hostLimit('instances') / 8, asked: 4 },
    { what: 'inotify watches', max: 40_000, most: () => Math.min(40_000, hostLimit('watches') / 8), asked: 100 },
    { what: 'queued signals', max: 200_000, most: () => 8_192, asked: 100 },
    { what: 'descriptors in flight', max: 60_000, most: () => 60_000 + 253, asked: 253 },
  ] as const)("$what: all of one workspace are nobody else's", async ({ what, max, most, asked }) => {
    const held = script(what, max, 'open my $f, ">", "/workspace/got"; print $f $n; close $f; sleep 600')
    await say(greedy, ['rm', '-f', '/workspace/got'])
    const { jobId } = await opened.backend.jobs.start(greedy, { argv: ['perl', '-e', held], env: {}, timeoutMs: 0 })
    const got = await vi.waitUntil(
      async () => await say(greedy, ['cat', '/workspace/got']).then((said) => /^\d+$/.exec(said)),
      {
        timeout: 180_000,
        interval: 100,
      },
    )
    expect(Number(got![0])).toBeGreaterThan(asked)
    expect(Number(got![0])).toBeLessThanOrEqual(most())
    expect(await say(other, few(what, asked))).toBe(String(asked))
    const [shell, ...args] = few(what, asked)
    expect(execFileSync(shell!, args, { encoding: 'utf8' })).toBe(String(asked))
    await opened.backend.jobs.kill(greedy, jobId, 9)
  })

  it('says that they are its own, and no two running workspaces have an id in common', async () => {
    const { user_limits: limits } = (await opened.backend.capabilities()).capabilities
    expect(limits).toEqual({ enforced: true, reason: expect.stringContaining('of its own') })
    const map = async (id: string): Promise<string> => (await say(id, ['cat', '/proc/self/uid_map'])).trim()
    const maps = await Promise.all([greedy, other, await start()].map(map))
    expect(new Set(maps).size).toBe(3)
    for (const one of maps) expect(one).toMatch(/^0\s+\d+\s+65536$/)
  })

  it('keeps the owners of files through a snapshot, whatever ids the fork has', async () => {
    await say(greedy, ['/bin/sh', '-c', 'echo x > /workspace/file; chown 1234:1234 /workspace/file'])
    await opened.backend.snapshot(greedy, 'owned')
    const resources = { vcpus: 1, memoryMb: 256, diskGb: 1 }
    const fork = {
      id: randomUUID(),
      hostname: 'fork',
      image: 'host',
      layers: ['owned'],
      resources,
      network: closedNetwork,
    }
    const { ip } = await opened.backend.create(fork)
    await opened.backend.start({ ...fork, ip })
    expect(await say(fork.id, ['stat', '-c', '%u %g', '/workspace/file', '/workspace', '/etc'])).toBe(
      '1234 1234\n0 0\n0 0',
    )
    await opened.backend.files(fork.id).write('/workspace/new/given', Buffer.from('y'))
    expect(await say(fork.id, ['stat', '-c', '%u %g', '/workspace/new', '/workspace/new/given'])).toBe('0 0\n0 0')
    await opened.backend.destroy(fork.id)
  })
})
