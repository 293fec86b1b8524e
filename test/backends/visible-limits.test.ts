import { randomUUID } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { closedNetwork, type ExecResult, type Resources } from '../../src/domains/workspaces/backend.ts'
import { type OpenedBackend, openNamespacesBackend, openUserBackend } from '../support/namespaces-backend.ts'

const MB = 1024 * 1024
let opened: OpenedBackend
async function start(resources: Partial<Resources> = {}): Promise<string> {
  const id = randomUUID()
  const all = { vcpus: 1, memoryMb: 128, diskGb: 1, ...resources }
  const spec = { id, hostname: 'limited', image: 'host', layers: [], resources: all, network: closedNetwork }
  const { ip } = await opened.backend.create(spec)
  await opened.backend.start({ ...spec, ip })
  return id
}
const run = (id: string, command: string, timeoutMs = 60_000): Promise<ExecResult> =>
  opened.backend.exec(id, {
    argv: ['/bin/sh', '-c', command],
    env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
    timeoutMs,
    outputBytesMax: 8192,
    signal: new AbortController().signal,
  })
const say = async (id: string, command: string): Promise<string> =>
  Buffer.from((await run(id, command)).stdout.head)
    .toString()
    .trim()

describe('limits, where they are enforced', () => {
  beforeAll(async () => {
    opened = await openNamespacesBackend({ storeGb: 0 })
    await opened.backend.inventory()
  })
  afterAll(async () => await opened?.close())

  it('are seen by programs that look for them: control groups, memory, processors', async () => {
    const id = await start()
    const files = 'cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null'
    expect(await say(id, files)).toBe(String(128 * MB))
    const pids = 'cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null'
    expect(Number(await say(id, pids))).toBeGreaterThan(100)
    expect(await say(id, 'free -m | grep Mem: | tr -s " " | cut -d" " -f2')).toBe('128')
    expect(await say(id, 'nproc')).toBe('1')
    const wide = await start({ vcpus: availableParallelism() })
    expect(await say(wide, 'nproc')).toBe(String(availableParallelism()))
    for (const one of [id, wide]) await opened.backend.destroy(one)
  })

  it('are where Java looks for them, which believes none unless it finds all of its controllers', async () => {
    const id = await start()
    const groups = await say(id, 'cat /proc/self/cgroup')
    const mounts = (await say(id, 'grep /sys/fs/cgroup /proc/self/mountinfo')).split('\n')
    const found = mounts.map((line) => {
      const [about = '', kind = ''] = line.split(' - ')
      const [, , , root, path = ''] = about.split(' ')
      return { root, path, type: kind.split(' ')[0], options: kind.split(' ')[2]?.split(',') ?? [] }
    })
    if (found.some(({ type }) => type === 'cgroup2')) {
      expect(groups).toBe('0::/')
      expect(found).toEqual([expect.objectContaining({ root: '/', path: '/sys/fs/cgroup' })])
    } else {
      for (const name of ['memory', 'cpu', 'cpuset', 'cpuacct']) {
        expect(groups, name).toMatch(new RegExp(`^\\d+:([^:]*,)?${name}(,[^:]*)?:/$`, 'm'))
        const mount = found.find(({ options }) => options.includes(name))
        expect(mount, name).toMatchObject({ root: '/', type: 'cgroup' })
        expect(await say(id, `grep -c . ${mount?.path}/cgroup.procs`), name).not.toBe('0')
      }
      expect(await say(id, 'cat /sys/fs/cgroup/cpuset/cpuset.cpus')).toMatch(/^\d/)
    }
    await opened.backend.destroy(id)
  })

  it('cannot be changed from inside', async () => {
    const id = await start()
    const tries =
      'for f in $(find /sys -type f); do echo 1 > $f && echo "wrote $f"; done 2>/dev/null; echo 1 > /proc/meminfo'
    expect(await say(id, `${tries}; mkdir /sys/fs/cgroup/memory/x /sys/fs/cgroup/x && echo made; echo end`)).toBe('end')
    await opened.backend.destroy(id)
  })

  it('show what is used while it is used', async () => {
    const id = await start()
    const held = 'head -c 48m /dev/zero > /dev/shm/held; sleep 600'
    const { jobId } = await opened.backend.jobs.start(id, { argv: ['/bin/sh', '-c', held], env: {}, timeoutMs: 0 })
    const free = async (): Promise<number> => Number(await say(id, 'grep MemFree /proc/meminfo | tr -dc 0-9')) / 1024
    await vi.waitUntil(async () => (await free()) < 90, { timeout: 180_000, interval: 100 })
    await opened.backend.jobs.kill(id, jobId, 9)
    await opened.backend.destroy(id)
  })

  it('that end a process are told: in the answer, in the use, in the log', async () => {
    const id = await start()
    expect((await run(id, 'true')).limitsHit).toEqual([])
    expect((await run(id, `perl -e '$x = "a" x ${512 * MB}'`)).limitsHit).toEqual(['memory'])
    expect((await run(id, 'true')).limitsHit).toEqual([])
    expect(await opened.backend.usage(id)).toMatchObject({ memoryKills: 1, processRefusals: 0 })
    const { console, stderr } = await opened.backend.logs(id, 10)
    expect(console).toMatch(/^\S+ started with 128 MiB.*\n\S+ error: memory: the kernel killed 1 of its processes.*$/)
    expect(stderr).toMatch(/^\S+ error: memory: the kernel killed 1 of its processes at the limit of 128 MiB$/)
    await opened.backend.stop(id, 0)
    expect((await opened.backend.logs(id, 1)).console).toMatch(/ ended$/)
    await opened.backend.destroy(id)
  })

  it('that keep processes from beginning are told as well', async () => {
    const id = await start({ processes: 32 })
    const many = await run(id, 'i=0; while [ $i -lt 64 ]; do sleep 5 & i=$((i+1)); done', 20_000)
    expect(many.limitsHit).toEqual(['processes'])
    expect((await opened.backend.usage(id)).processRefusals).toBeGreaterThan(0)
    expect((await opened.backend.logs(id, 10)).console).toContain('could not start at the limit of 32')
    await opened.backend.destroy(id)
  })
})

describe('limits, where memory is not enforced', () => {
  beforeAll(async () => {
    opened = await openUserBackend({ subordinateIds: false })
  })
  afterAll(async () => await opened?.close())

  it('are not pretended: a workspace sees the memory of the machine', async () => {
    const id = await start()
    expect((await opened.backend.capabilities()).capabilities.memory_limit.enforced).toBe(false)
    expect(Number(await say(id, 'grep MemTotal /proc/meminfo | tr -dc 0-9'))).toBeGreaterThan(128 * 1024)
    expect(await say(id, 'ls /sys')).toBe('')
    await opened.backend.destroy(id)
  })
})
