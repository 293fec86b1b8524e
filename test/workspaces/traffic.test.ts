import { networkInterfaces } from 'node:os'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Answer, TestApp } from '../support/app.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { addElsewhere, addHostAddress, isRoot } from '../support/network-bench.ts'
import { type EchoHost, killUplink, openEchoHost, serveIn, talk, talkFromHost, talkOn } from '../support/traffic.ts'
import { info, openWorkspaceApp, sh } from '../support/workspaces.ts'

/** Somewhere else, though it is this machine that answers. */
const SOMEWHERE = '203.0.113.41'
/** An address of this machine. */
const OWN = '203.0.113.44'
/** One that it gets later. */
const MOVED = '203.0.113.45'

let app: TestApp
let host: EchoHost
let removeOwn = (): void => {}
beforeAll(async () => {
  host = await openEchoHost()
  if (isRoot) removeOwn = addHostAddress(OWN)
  app = await openWorkspaceApp()
  for (const name of ['one', 'two', 'closed']) await app.ask('workspace_create', { name })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await host.close()
  removeOwn()
})

const policy = (workspace_id: string, args: object) =>
  app.ask<{ network_policy: Answer }>('network_policy', { workspace_id, ...args })
const forward = (workspace_id: string, args: object) =>
  app.ask<Answer & { host_port: number; port_forwards: Answer[] }>('port_forward', { workspace_id, ...args })
const addressOf = async (workspace_id: string): Promise<string> => String((await info(app, workspace_id))['ip'])

/** The loopback device has addresses of other tests as well. */
const outerAddresses = Object.entries(networkInterfaces())
  .flatMap(([device, entries]) => (device === 'lo' ? [] : (entries ?? [])))
  .filter(({ family }) => family === 'IPv4')
  .map(({ address }) => address)

/** This needs root: nobody else can give the machine an address that stands for the internet. */
describe('the internet', () => {
  let removeAddress = (): void => {}
  beforeAll(() => {
    removeAddress = addElsewhere(SOMEWHERE)
  })
  afterAll(() => removeAddress())

  it('is closed at first, open while the policy says so, and cut when it no longer does', async () => {
    expect(await talk(app, 'one', SOMEWHERE, host.port)).toBe('refused')
    await policy('one', { allow_internet: true })
    expect(await talk(app, 'one', SOMEWHERE, host.port)).toBe('host:hello')
    const job = (args: object) => app.ask('exec_background', { workspace_id: 'one', ...args })
    const { job_id } = await job({ action: 'start', command: talkOn(SOMEWHERE, host.port) })
    await expect.poll(async () => (await job({ action: 'poll', job_id }))['stdout']).toMatch(/^host:hello\n/)
    await policy('one', { allow_internet: false })
    await expect.poll(async () => (await job({ action: 'poll', job_id }))['stdout']).toMatch(/\ncut\n$/)
    expect(await talk(app, 'one', SOMEWHERE, host.port)).toBe('refused')
  })

  it('is neither this machine nor a private network nor metadata', async () => {
    await policy('one', { allow_internet: true })
    expect(await talk(app, 'one', SOMEWHERE, host.port)).toBe('host:hello')
    const closed = [
      ...outerAddresses,
      OWN,
      '127.0.0.1',
      '10.99.0.1',
      '10.0.2.2',
      '10.0.2.3',
      '169.254.169.254',
      '168.63.129.16',
    ]
    for (const address of [...closed, '172.16.0.1', '192.168.0.1', '100.100.100.200', await addressOf('two')]) {
      expect(await talk(app, 'one', address, host.port), address).toBe('refused')
    }
    await policy('one', { allow_internet: false })
  })

  it('is no longer where this machine itself comes to be, whether or not anybody asks anything', async () => {
    await policy('one', { allow_internet: true })
    expect(await talk(app, 'one', SOMEWHERE, host.port)).toBe('host:hello')
    const removeMoved = addHostAddress(SOMEWHERE)
    try {
      await expect.poll(() => talk(app, 'one', SOMEWHERE, host.port)).toBe('refused')
    } finally {
      removeMoved()
      removeAddress = addElsewhere(SOMEWHERE)
    }
    await expect.poll(() => talk(app, 'one', SOMEWHERE, host.port)).toBe('host:hello')
    await policy('one', { allow_internet: false })
  })

  it('is no longer where this machine came to be before a policy was set', async () => {
    const removeMoved = addHostAddress(MOVED)
    try {
      await policy('one', { allow_internet: true })
      expect(await talk(app, 'one', MOVED, host.port)).toBe('refused')
    } finally {
      removeMoved()
    }
    await policy('one', { allow_internet: false })
  })

  it('is inherited by forks, which then go their own way; port forwards are not', async () => {
    await policy('two', { allow_internet: true })
    await forward('two', { action: 'add', guest_port: 4000 })
    await app.ask('snapshot', { workspace_id: 'two', action: 'create', name: 'base' })
    await app.ask('workspace_fork', { workspace_id: 'two', snapshot_name: 'base', new_name: 'fork' })
    expect((await info(app, 'fork')).network).toMatchObject({ allow_internet: true, port_forwards: [] })
    expect(await talk(app, 'fork', SOMEWHERE, host.port)).toBe('host:hello')
    await policy('fork', { allow_internet: false })
    expect(await talk(app, 'fork', SOMEWHERE, host.port)).toBe('refused')
    expect(await talk(app, 'two', SOMEWHERE, host.port)).toBe('host:hello')
    await policy('two', { allow_internet: false })
    await forward('two', { action: 'remove', guest_port: 4000 })
    await app.ask('workspace_destroy', { workspace_id: 'fork' })
  })

  it('comes with a workspace that was made with it, over a stop and a start', async () => {
    await app.ask('workspace_create', { name: 'born-open', allow_internet: true })
    expect(await talk(app, 'born-open', SOMEWHERE, host.port)).toBe('host:hello')
    await app.ask('workspace_stop', { workspace_id: 'born-open' })
    await app.ask('workspace_start', { workspace_id: 'born-open' })
    expect(await talk(app, 'born-open', SOMEWHERE, host.port)).toBe('host:hello')
    await app.ask('workspace_destroy', { workspace_id: 'born-open' })
  })

  it('is closed although the workload has made a mess of the files that tell it of its network', async () => {
    await app.ask('workspace_create', { name: 'messy', allow_internet: true })
    await sh(app, 'messy', 'rm /etc/resolv.conf && mkdir /etc/resolv.conf && touch /etc/castellan')
    expect(await talk(app, 'messy', SOMEWHERE, host.port)).toBe('host:hello')
    await policy('messy', { allow_internet: false })
    expect(await talk(app, 'messy', SOMEWHERE, host.port)).toBe('refused')
    await policy('messy', { allowed_domains: ['example.org'] })
    await app.ask('workspace_stop', { workspace_id: 'messy' })
    expect(await app.ask('workspace_start', { workspace_id: 'messy' })).toMatchObject({ state: 'running' })
    expect(await talk(app, 'messy', SOMEWHERE, host.port)).toBe('refused')
    await app.ask('workspace_destroy', { workspace_id: 'messy' })
  })
})

describe('other workspaces', () => {
  it('are reached when both sides allow it', async () => {
    await serveIn(app, 'two', 8000, 'two')
    const two = await addressOf('two')
    const reached = () => talk(app, 'one', two, 8000)
    expect(await reached()).toBe('refused')
    await policy('one', { allow_inter_vm: true })
    expect(await reached()).toBe('refused')
    await policy('two', { allow_inter_vm: true })
    expect(await reached()).toBe('two:hello')
    expect(await talk(app, 'closed', two, 8000)).toBe('refused')
    await policy('one', { allow_inter_vm: false })
    expect(await reached()).toBe('refused')
  })

  it('are reached on an allowed port by those that may talk to others, and on no other port', async () => {
    await serveIn(app, 'one', 8000, 'one')
    await serveIn(app, 'two', 8001, 'two')
    const [one, two] = [await addressOf('one'), await addressOf('two')]
    await policy('one', { allow_inter_vm: true })
    await policy('two', { allow_inter_vm: false, allowed_ports: [8001] })
    expect(await talk(app, 'one', two, 8001)).toBe('two:hello')
    expect(await talk(app, 'one', two, 8000)).toBe('refused')
    expect(await talk(app, 'two', one, 8000)).toBe('refused')
    expect(await talk(app, 'closed', two, 8001)).toBe('refused')
    const job = (args: object) => app.ask('exec_background', { workspace_id: 'one', ...args })
    const { job_id } = await job({ action: 'start', command: talkOn(two, 8001) })
    await expect.poll(async () => (await job({ action: 'poll', job_id }))['stdout']).toMatch(/^two:hello\n/)
    await policy('two', { allowed_ports: [] })
    await expect.poll(async () => (await job({ action: 'poll', job_id }))['stdout']).toMatch(/\ncut\n$/)
    await policy('one', { allow_inter_vm: false })
  })
})

describe('a forwarded port', () => {
  it('leads in from the loopback address alone, over changes of the policy and a stop, until it is removed', async () => {
    await serveIn(app, 'closed', 9000, 'inside')
    const { host_port } = await forward('closed', { action: 'add', guest_port: 9000 })
    expect(await talkFromHost(host_port)).toBe('inside:hello')
    for (const address of [...outerAddresses, '127.0.0.2']) {
      expect(await talkFromHost(host_port, address), address).toBe('refused')
    }
    expect(await talk(app, 'closed', '10.0.2.2', host_port)).toBe('refused')
    await policy('closed', { allow_inter_vm: true })
    expect(await talkFromHost(host_port)).toBe('inside:hello')
    await policy('closed', { allow_inter_vm: false })
    expect(await talkFromHost(host_port)).toBe('inside:hello')
    await app.ask('workspace_stop', { workspace_id: 'closed' })
    expect(await talkFromHost(host_port)).toBe('refused')
    await app.ask('workspace_start', { workspace_id: 'closed' })
    await serveIn(app, 'closed', 9000, 'again')
    expect(await talkFromHost(host_port)).toBe('again:hello')
    expect((await forward('closed', { action: 'remove', guest_port: 9000 })).port_forwards).toEqual([])
    expect(await talkFromHost(host_port)).toBe('refused')
  })

  it('is the one that was asked for, or a clear no', async () => {
    const free = (await forward('closed', { action: 'add', guest_port: 9001 })).host_port
    await forward('closed', { action: 'remove', guest_port: 9001 })
    await serveIn(app, 'closed', 9001, 'inside')
    expect(await forward('closed', { action: 'add', guest_port: 9001, host_port: free })).toMatchObject({
      host_port: free,
    })
    expect(await talkFromHost(free)).toBe('inside:hello')
    const refusal = (args: object) => app.refusal('port_forward', { workspace_id: 'one', action: 'add', ...args })
    for (const host_port of [free, host.port]) {
      expect(await refusal({ guest_port: 80, host_port })).toMatchObject({
        code: 'ERR_INVALID_INPUT',
        message: expect.stringContaining(String(host_port)),
      })
    }
    expect((await refusal({ guest_port: 80, host_port: 443 })).message).toContain('1024')
    expect(await talkFromHost(free)).toBe('inside:hello')
  })

  it('serves many at once, and servers that listen on localhost alone', async () => {
    for (const [index, listens] of ['127.0.0.1', '::1'].entries()) {
      const guest_port = 9010 + index
      const script = `require("http").createServer((q, r) => r.end(q.url)).listen(${guest_port}, "${listens}", () => console.log("up"))`
      const job = (args: object) => app.ask('exec_background', { workspace_id: 'closed', ...args })
      const { job_id } = await job({ action: 'start', command: `exec node -e '${script}'` })
      await expect.poll(async () => (await job({ action: 'poll', job_id }))['stdout']).toBe('up\n')
      const { host_port } = await forward('closed', { action: 'add', guest_port })
      const paths = Array.from({ length: 60 }, (_, number) => `/${number}`)
      const answers = await Promise.all(
        paths.map(async (path) => await (await fetch(`http://127.0.0.1:${host_port}${path}`)).text()),
      )
      expect(answers).toEqual(paths)
      await forward('closed', { action: 'remove', guest_port })
    }
  })

  it('is one of the configured range for all but those who run the installation', async () => {
    const member = await app.keyCaller({ name: 'guest', tenant: 'elsewhere', role: 'member', tier: 'user' })
    await app.ask('workspace_create', { name: 'theirs' }, member)
    const request = { workspace_id: 'theirs', action: 'add', guest_port: 80 }
    for (const host_port of [1024, 8_080, 19_999, 32_000]) {
      expect(await app.refusal('port_forward', { ...request, host_port }, member)).toMatchObject({
        code: 'ERR_INVALID_INPUT',
        message: expect.stringContaining('20000 to 31999'),
        details: { field: 'host_port' },
      })
    }
    const input = Number((await app.ask('port_forward', request, member))['host_port'])
    expect(input).toBeGreaterThanOrEqual(20_000)
    expect(input).toBeLessThanOrEqual(31_999)
    await app.ask('port_forward', { ...request, action: 'remove' }, member)
    expect(await app.ask('port_forward', { ...request, host_port: input }, member)).toMatchObject({ host_port: input })
    await app.ask('workspace_destroy', { workspace_id: 'theirs' }, member)
    expect(await forward('closed', { action: 'add', guest_port: 9020, host_port: 19_876 })).toMatchObject({
      host_port: 19_876,
    })
    await forward('closed', { action: 'remove', guest_port: 9020 })
  })

  it('is there after the server came back, after slirp4netns was killed, and after everything was', async () => {
    await serveIn(app, 'closed', 9002, 'inside')
    const { host_port } = await forward('closed', { action: 'add', guest_port: 9002 })
    app = await app.restart()
    expect(await talkFromHost(host_port)).toBe('inside:hello')
    expect((await forward('closed', { action: 'list', guest_port: 1 })).port_forwards).toContainEqual({
      host_port,
      guest_port: 9002,
    })
    killUplink(app)
    await expect.poll(() => talkFromHost(host_port)).toBe('inside:hello')
    await app.stop()
    await endSupervisor(app.dataDir)
    expect(await talkFromHost(host_port)).toBe('refused')
    app = await openWorkspaceApp({ dataDir: app.dataDir })
    await app.ask('workspace_start', { workspace_id: 'closed' })
    await serveIn(app, 'closed', 9002, 'after')
    expect(await talkFromHost(host_port)).toBe('after:hello')
  })
})
