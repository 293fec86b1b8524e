import { randomUUID } from 'node:crypto'
import { lchownSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import {
  closedNetwork,
  type ExecRequest,
  type ExecResult,
  type WorkspaceSpec,
} from '../../src/domains/workspaces/backend.ts'
import { UID_BASE } from '../../src/supervisor/user-namespace.ts'
import { type OpenedBackend, openNamespacesBackend } from '../support/namespaces-backend.ts'
import { type LayerFile, programsLayer } from '../support/oci-image.ts'

/** What a workspace may try against the supervisor and its neighbours, beside getting out. */
let opened: OpenedBackend
beforeAll(async () => {
  opened = await openNamespacesBackend({ storeGb: 0, enterSeconds: 5 })
  await opened.backend.inventory()
})
afterAll(async () => await opened.close())

const specOf = (image = 'host'): Omit<WorkspaceSpec, 'ip'> => ({
  id: randomUUID(),
  hostname: 'hostile',
  image,
  layers: [],
  resources: { vcpus: 2, memoryMb: 512, diskGb: 1 },
  network: closedNetwork,
})
async function created(image?: string): Promise<WorkspaceSpec> {
  const wanted = specOf(image)
  return { ...wanted, ip: (await opened.backend.create(wanted)).ip }
}
async function started(image?: string): Promise<WorkspaceSpec> {
  const spec = await created(image)
  await opened.backend.start(spec)
  return spec
}
const exec = (id: string, command: string, more: Partial<ExecRequest> = {}): Promise<ExecResult> =>
  opened.backend.exec(id, {
    argv: ['/bin/sh', '-c', command],
    env: { PATH: '/usr/bin:/bin' },
    timeoutMs: 120_000,
    outputBytesMax: 4096,
    signal: new AbortController().signal,
    ...more,
  })
const outOf = (result: ExecResult): string => Buffer.from(result.stdout.head).toString()

type Seen = Readonly<{ pid: number; parent: number; state: string; command: string; groups: string }>
/** Every process of the supervisor and its workspaces, as the host sees it. */
function processes(): Seen[] {
  const all = readdirSync('/proc').flatMap((name) => {
    try {
      const stat = readFileSync(`/proc/${Number(name)}/stat`, 'latin1')
      const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      const command = readFileSync(`/proc/${name}/cmdline`, 'latin1').replaceAll('\0', ' ')
      const groups = readFileSync(`/proc/${name}/cgroup`, 'latin1')
      return [{ pid: Number(name), parent: Number(parent), state: state!, command, groups }]
    } catch {
      return []
    }
  })
  const own = new Set([opened.supervisorPid()])
  for (let size = 0; size !== own.size; ) {
    size = own.size
    for (const { pid, parent } of all) if (own.has(parent)) own.add(pid)
  }
  return all.filter(({ pid }) => own.has(pid))
}
const stateOf = (folder: string): string => join('/proc', String(opened.supervisorPid()), 'root', 'mnt/state', folder)

/** Only a failure settles it. */
const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  new Promise((resolve) => {
    work.catch(resolve)
  })

/** An image whose shell is this script. */
const imageWith = async (name: string, script: string): Promise<void> => {
  const shell: LayerFile = { name: 'usr/bin/sh', content: `#!/usr/bin/dash\n${script}\n`, mode: 0o755 }
  await opened.buildLayers(name, [[...programsLayer(['dash', 'sleep']), shell]])
}

describe('a workspace', () => {
  it('that stops commands on their way in keeps neither the launcher nor its neighbours waiting', async () => {
    const [hostile, other] = [await started(), await started()]
    const signal = new AbortController()
    const stopper = exec(hostile.id, `exec perl -e 'kill "STOP", -1 while 1'`, { signal: signal.signal })
    const stopping = stopper.catch(() => {})
    const isStopped = (): boolean =>
      processes().some(({ state, command }) => state === 'T' && command.includes('launcher.pl'))
    const entries: Promise<unknown>[] = []
    await vi.waitUntil(
      () => {
        const entry = exec(hostile.id, 'true', { signal: signal.signal })
        entries.push(failureOf(entry))
        return isStopped()
      },
      { timeout: 180_000, interval: 20 },
    )
    expect(outOf(await exec(other.id, 'echo served'))).toBe('served\n')
    expect(isStopped()).toBe(true)
    const later = await started()
    expect(outOf(await exec(later.id, 'echo served too'))).toBe('served too\n')
    // Those that stand still on their way are given up; nobody waits for them for ever.
    expect(String(await Promise.any(entries))).toContain('did not get into the workspace in time')
    await vi.waitUntil(() => !isStopped(), { timeout: 180_000 })
    signal.abort()
    await stopping
    for (const { id } of [hostile, other, later]) await opened.backend.destroy(id)
  })

  it('is in its control groups with everything that runs in it', async () => {
    const spec = await started()
    await exec(spec.id, 'for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done')
    const sleeping = (): Seen[] => processes().filter(({ command }) => command === 'sleep 1000 ')
    await vi.waitUntil(() => sleeping().length === 8, { timeout: 180_000 })
    const inside = processes().filter(
      ({ command }) => command === 'sleep 1000 ' || command.startsWith('castellan-init'),
    )
    expect(inside).toHaveLength(9)
    const entries = readFileSync(`/proc/${opened.supervisorPid()}/environ`, 'latin1').split('\0')
    const groups = entries.find((entry) => entry.startsWith('CASTELLAN_SUPERVISOR_CGROUPS='))!.match(/castellan-\d+/g)!
    expect(groups.length).toBeGreaterThan(0)
    const numbersIn = (text: string) =>
      [...text.matchAll(new RegExp(`/${groups[0]}/(\\d+)$`, 'gm'))].map(([, one]) => one)
    const memberships = inside.map(({ groups: text }) => numbersIn(text))
    const [number] = memberships[0]!
    expect(number).toMatch(/^\d+$/)
    expect(memberships).toEqual(inside.map(() => groups.map(() => number)))
    await opened.backend.destroy(spec.id)
  })

  it('starts though the place that was kept for it is gone; one is kept again, never more', async () => {
    const prewarmed = (): Seen[] => processes().filter(({ command }) => command.startsWith('castellan-seat'))
    const specs = await Promise.all([started(), started(), started()])
    await vi.waitUntil(() => prewarmed().length === 1, { timeout: 180_000 })
    process.kill(prewarmed()[0]!.pid, 'SIGKILL')
    await vi.waitUntil(() => prewarmed().length === 0, { timeout: 180_000 })
    const late = await started()
    expect(outOf(await exec(late.id, 'echo up'))).toBe('up\n')
    await vi.waitUntil(() => prewarmed().length === 1, { timeout: 180_000 })
    for (const { id } of [...specs, late]) await opened.backend.destroy(id)
    await expect.poll(() => prewarmed().length).toBe(1)
  })

  it('whose tree is deeper than any path can be removed', async () => {
    const spec = await started()
    const name = 'd'.repeat(200)
    const deepen = `perl -e 'chdir "/"; for (1..60) { mkdir "${name}" or die "$!"; chdir "${name}" or die "$!" }'`
    expect(await exec(spec.id, deepen)).toMatchObject({ exitCode: 0 })
    await opened.backend.destroy(spec.id)
    expect((await opened.backend.inventory()).stored).not.toContain(spec.id)
    expect(readdirSync(stateOf('store/active')).filter((one) => one.startsWith('.pending'))).toEqual([])
  })

  it('starts whatever the shell of its image does, and whatever it made of the folders that we mount on', async () => {
    await imageWith('mute', 'exec sleep 4321')
    const mute = await started('mute')
    expect(await exec(mute.id, 'true', { timeoutMs: 1_000 })).toMatchObject({ ended: 'timeout' })
    await opened.backend.destroy(mute.id)
    const spec = await started()
    // Nothing in there may move what is mounted; the copy that its next start begins from may.
    await opened.backend.stop(spec.id, 0)
    for (const name of ['proc', 'dev', 'usr']) {
      const link = join(stateOf('store/active'), spec.id, 'upper', name)
      symlinkSync('/mnt/state/images', link)
      lchownSync(link, UID_BASE, UID_BASE)
    }
    await opened.backend.start(spec)
    expect(outOf(await exec(spec.id, 'readlink /proc /dev /usr; ls /proc/self/status /dev/null /usr/bin/env'))).toBe(
      '/dev/null\n/proc/self/status\n/usr/bin/env\n',
    )
    await opened.backend.destroy(spec.id)
  })

  it('that cannot start says why, and nothing of it is left', async () => {
    const spec = await created()
    rmSync(join(stateOf('store/active'), spec.id, 'work'), { recursive: true })
    await expect(opened.backend.start(spec)).rejects.toMatchObject({
      code: 'ERR_BACKEND_FAILED',
      message: 'The workspace did not start: mount of overlay: No such file or directory.',
    })
    expect((await opened.backend.inventory()).running).not.toContain(spec.id)
    await vi.waitUntil(() => !processes().some(({ command }) => command.startsWith('castellan-init')), {
      timeout: 180_000,
    })
    await opened.backend.destroy(spec.id)
  })

  it('takes commands while snapshots of it are made, and none waits for ever or fails', async () => {
    const spec = await started()
    await exec(spec.id, 'cd /workspace; i=0; while [ $i -lt 500 ]; do echo $i > $i; i=$((i+1)); done')
    const layers = ['beside-0', 'beside-1', 'beside-2']
    for (const layer of layers) {
      const snapshot = opened.backend.snapshot(spec.id, layer)
      const commands = Array.from({ length: 10 }, (_, number) =>
        exec(spec.id, `echo ${number} > /workspace/late; echo done`),
      )
      expect((await Promise.all(commands)).map(outOf)).toEqual(commands.map(() => 'done\n'))
      expect((await snapshot).bytes).toBeGreaterThan(500)
      expect(readdirSync(stateOf(`store/layers/${layer}/upper/workspace`)).length).toBeGreaterThanOrEqual(500)
    }
    await opened.backend.destroy(spec.id)
    for (const layer of layers) await opened.backend.removeLayer(layer)
  })
})
