import { spawnSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type CastellanClient, launcher, startClient } from '../support/castellan-client.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { makeSmallDisk, type SmallDisk } from '../support/small-disk.ts'

const MB = 1024 ** 2
const RESERVE_MB = 128
const WAIT = { timeout: 180_000, interval: 100 }

/** This needs root, whose store is a file of btrfs on a disk of this test's own. */
describe('a data directory on a disk that fills up', () => {
  let disk: SmallDisk
  let client: CastellanClient
  beforeEach(async () => {
    disk = makeSmallDisk(700)
    client = await startClient({
      dataDir: disk.folder,
      environment: {
        CASTELLAN_WORKSPACES_HOST_RESERVE_MB: String(RESERVE_MB),
        CASTELLAN_RATE_LIMITS_ENABLED: 'false',
      },
    })
  })
  afterEach(async () => {
    client.endInput()
    await client.ended
    await endSupervisor(disk.folder)
    disk.remove()
  })

  async function call(tool: string, args: object): Promise<Record<string, unknown>> {
    const outcome = await client.call(tool, args)
    if (outcome.kind === 'done') return outcome.answer
    return outcome.kind === 'failed' ? { code: outcome.code } : { code: 'gone' }
  }
  const shell = (name: string, command: string) =>
    call('exec', { workspace_id: name, command, timeout_secs: 120 }) as Promise<{ stdout: string; stderr: string }>
  const fill = (name: string) => shell(name, 'head -c 700000000 /dev/urandom > /workspace/fill; sync')
  const createTask = () => call('task_create', { project: 'p', title: 't' })
  const storeBytes = () => statSync(join(disk.folder, 'workspaces/store.btrfs')).blocks * 512

  it('is not filled by workspaces, whose room comes back when they are destroyed', async () => {
    await call('workspace_create', { name: 'one' })
    expect((await fill('one')).stderr).toMatch(/Disk quota exceeded|No space left/)
    // The tenant has its share; the rest of the store is for others, and the reserve for nobody.
    expect(disk.freeBytes()).toBeGreaterThan(RESERVE_MB * MB)
    expect(await createTask()).toHaveProperty('task_id')
    expect((await shell('one', 'cat /workspace/fill | wc -c; rm /workspace/fill && echo gone')).stdout).toMatch(
      /^\d{9}\ngone\n$/,
    )
    await fill('one')
    expect(await call('workspace_destroy', { workspace_id: 'one' })).toMatchObject({ destroyed: true })
    expect(await call('workspace_create', { name: 'next' })).toMatchObject({ state: 'running' })
    await vi.waitFor(() => expect(storeBytes()).toBeLessThan(64 * MB), WAIT)
  })

  it('that others fill loses nothing: destroying and looking work, the rest is refused until there is room', async () => {
    await call('workspace_create', { name: 'kept' })
    await call('workspace_create', { name: 'unwanted' })
    await shell('kept', 'echo kept > /workspace/kept; head -c 50000000 /dev/urandom > /workspace/fill; sync')
    const empty = disk.fillBut(MB)
    await vi.waitFor(async () => expect(await createTask()).toEqual({ code: 'ERR_DISK_FULL' }), WAIT)
    await vi.waitFor(async () => {
      await call('workspace_start', { workspace_id: 'kept' })
      expect((await shell('kept', 'head -c 1M /dev/urandom > /workspace/more')).stderr).toMatch(/quota/)
    }, WAIT)
    expect(await call('workspace_create', { name: 'new' })).toEqual({ code: 'ERR_DISK_FULL' })
    expect(await call('workspace_list', {})).toMatchObject({ workspaces: [{ name: 'kept' }, { name: 'unwanted' }] })
    expect(await call('workspace_destroy', { workspace_id: 'unwanted' })).toMatchObject({ destroyed: true })
    const doctor = spawnSync(launcher, ['doctor', '--data-dir', disk.folder], { encoding: 'utf8' })
    expect(doctor.stdout).toMatch(/state +ok/)
    expect(doctor.stdout).toMatch(/data directory +bad .*nearly full: \d+ MiB are free/)
    expect(doctor.status).not.toBe(0)
    empty()
    await vi.waitFor(async () => expect(await createTask()).toHaveProperty('task_id'), WAIT)
    await vi.waitFor(async () => {
      // A write that met the full disk may have cost the store its mount, and the workspace its processes; not its files.
      await call('workspace_start', { workspace_id: 'kept' })
      expect((await shell('kept', 'head -c 1M /dev/urandom > /workspace/more')).stderr).toBe('')
    }, WAIT)
    expect((await shell('kept', 'cat /workspace/kept')).stdout).toBe('kept\n')
  })
})
