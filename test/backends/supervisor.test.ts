import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { closedNetwork, type WorkspaceSpec } from '../../src/domains/workspaces/backend.ts'
import { type OpenedBackend, openNamespacesBackend } from '../support/namespaces-backend.ts'

describe('the supervisor', () => {
  let opened: OpenedBackend
  afterEach(async () => await opened.close())

  async function start(): Promise<WorkspaceSpec> {
    const wanted = {
      id: randomUUID(),
      hostname: 'held',
      image: 'host',
      layers: [],
      resources: { vcpus: 1, memoryMb: 128, diskGb: 1 },
      network: closedNetwork,
    }
    const spec = { ...wanted, ip: (await opened.backend.create(wanted)).ip }
    await opened.backend.start(spec)
    return spec
  }
  const run = (id: string, command: string) =>
    opened.backend.exec(id, {
      argv: ['/bin/sh', '-c', command],
      env: { PATH: '/usr/bin:/bin' },
      timeoutMs: 60_000,
      outputBytesMax: 1000,
      signal: new AbortController().signal,
    })

  it('takes everything with it when it dies, tells who waits, and comes back with the files', async () => {
    opened = await openNamespacesBackend()
    const spec = await start()
    await run(spec.id, 'echo kept > /workspace/file')
    const pid = opened.supervisorPid()
    const waiting = run(spec.id, 'echo up > /workspace/up; sleep 600')
    const told = expect(waiting).rejects.toMatchObject({ code: 'ERR_BACKEND_FAILED' })
    await vi.waitUntil(async () => (await run(spec.id, 'cat /workspace/up')).exitCode === 0, { timeout: 180_000 })
    const inside = descendantsOf(pid)
    expect(inside.length).toBeGreaterThan(3)
    process.kill(pid, 'SIGKILL')
    await told
    await vi.waitUntil(() => inside.every((one) => !isAlive(one)), { timeout: 180_000 })

    expect((await opened.backend.inventory()).running).toEqual([])
    expect(opened.supervisorPid()).not.toBe(pid)
    await expect(run(spec.id, 'true')).rejects.toMatchObject({ code: 'ERR_WORKSPACE_STATE' })
    await opened.backend.start(spec)
    expect(Buffer.from((await run(spec.id, 'cat /workspace/file')).stdout.head).toString()).toBe('kept\n')
  })

  it.each([true, false])('sends what a command printed once, with streams: %s', async (streams) => {
    opened = await openNamespacesBackend()
    const { id } = await start()
    const printed = 400_000
    const params = {
      id,
      argv: ['/bin/sh', '-c', `head -c ${printed} /dev/zero; head -c ${printed} /dev/zero >&2`],
      workdir: '/',
      env: { PATH: '/usr/bin:/bin' },
      timeoutMs: 60_000,
      outputBytesMax: printed,
      hasStdin: false,
      streams,
    }
    const socket = connect(join(opened.state, 'supervisor.sock'))
    socket.on('error', () => {})
    socket.write(`{"operation":"exec","takes":${JSON.stringify(params)}}\n`)
    let bytes = 0
    for await (const chunk of socket as AsyncIterable<Buffer>) bytes += chunk.length
    expect(bytes).toBeGreaterThanOrEqual(2 * printed)
    expect(bytes).toBeLessThan(2 * printed * 1.1)
  })

  it('is one, however many ask for it at once', async () => {
    opened = await openNamespacesBackend()
    const others = Array.from({ length: 4 }, () => opened.reopen())
    await Promise.all([opened.backend, ...others].map((backend) => backend.inventory()))
    const pid = opened.supervisorPid()
    expect(readFileSync(`/proc/${pid}/cmdline`, 'latin1')).toContain('sh')
    const log = readFileSync(join(opened.state, 'supervisor.log'), 'utf8')
    expect(log).not.toContain('EADDRINUSE')
    await Promise.all(others.map((backend) => backend.close()))
  })
})

function descendantsOf(root: number): number[] {
  const found: number[] = []
  const open = [root]
  for (let pid = open.pop(); pid !== undefined; pid = open.pop()) {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim()
    const children = text === '' ? [] : text.split(' ').map(Number)
    found.push(...children)
    open.push(...children)
  }
  return found
}

function isAlive(pid: number): boolean {
  try {
    return !readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') Z ')
  } catch {
    return false
  }
}
