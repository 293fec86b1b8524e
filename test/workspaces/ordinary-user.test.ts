import { dirname } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { type OpenedBackend, openUserBackend } from '../support/namespaces-backend.ts'
import { serveIn, talk, talkFromHost } from '../support/traffic.ts'
import { info, openWorkspaceApp } from '../support/workspaces.ts'

/** What slirp4netns says of it. */
const WHY = 'open("/dev/net/tun"): No such file or directory'

/** The supervisor is an ordinary user's, who may not open /dev/net/tun. Only root can make such a user. */
describe('workspaces of an ordinary user who cannot open the tunnel device', () => {
  let opened: OpenedBackend
  let app: TestApp
  beforeAll(async () => {
    opened = await openUserBackend({ subordinateIds: false, withoutTun: true })
    app = await openWorkspaceApp({ dataDir: dirname(opened.state), config: { 'workspaces.store_gb': 0 } })
    for (const name of ['one', 'two']) await app.ask('workspace_create', { name })
  })
  afterAll(async () => {
    await app.stop()
    await opened.close()
  })

  it('say what they cannot do, and why', async () => {
    const { capabilities } = await opened.backend.capabilities()
    const reason = expect.stringContaining(WHY)
    expect(capabilities.internet).toEqual({ enforced: false, reason })
    for (const name of ['port_forward', 'allowed_domains'] as const) {
      expect(capabilities[name]).toMatchObject({ enforced: true })
    }
    expect(capabilities.network_policy).toMatchObject({ enforced: true })
  })

  it.each([
    ['workspace_create', { name: 'open', allow_internet: true }],
    ['network_policy', { workspace_id: 'one', allow_internet: true }],
  ])('refuse %s %j, and stay as they are', async (tool, args) => {
    expect(await app.refusal(tool, args)).toMatchObject({
      code: 'ERR_CAPABILITY_MISSING',
      message: expect.stringContaining(WHY),
    })
    expect((await info(app, 'one')).network).toMatchObject({
      allow_internet: false,
      allowed_domains: [],
      port_forwards: [],
    })
  })

  it('refuse another size of a disk that nothing enforces, and take other limits', async () => {
    const before = (await info(app, 'one'))['resources'] as { disk_gb: number }
    const refused = await app.refusal('workspace_resize', { workspace_id: 'one', disk_gb: before.disk_gb + 1 })
    expect(refused).toMatchObject({ code: 'ERR_CAPABILITY_MISSING', details: { capability: 'disk_limit' } })
    expect(await info(app, 'one')).toMatchObject({ resources: before })
    const same = { workspace_id: 'one', disk_gb: before.disk_gb, vcpus: 1 }
    expect(await app.ask('workspace_resize', same)).toMatchObject({ resources: { ...before, vcpus: 1 } })
  })

  it('forward ports all the same', async () => {
    await serveIn(app, 'one', 8100, 'one')
    const { host_port } = await app.ask<{ host_port: number }>('port_forward', {
      workspace_id: 'one',
      action: 'add',
      guest_port: 8100,
    })
    expect(await talkFromHost(host_port)).toBe('one:hello')
    await app.ask('port_forward', { workspace_id: 'one', action: 'remove', guest_port: 8100 })
    expect(await talkFromHost(host_port)).toBe('refused')
  })

  it('search in files as those of root do', async () => {
    await app.ask('fs.write', { path: 'notes/a.txt', content: 'a castle\n' })
    expect(await app.ask('fs.grep', { pattern: 'cas.le', path: 'notes' })).toMatchObject({
      result: '/workspace/notes/a.txt:1:a castle',
    })
  })

  it('still keep the network between them', async () => {
    await serveIn(app, 'two', 8000, 'two')
    const two = String((await info(app, 'two'))['ip'])
    expect(await talk(app, 'one', two, 8000)).toBe('refused')
    for (const workspace_id of ['one', 'two']) await app.ask('network_policy', { workspace_id, allow_inter_vm: true })
    expect(await talk(app, 'one', two, 8000)).toBe('two:hello')
    await app.ask('network_policy', { workspace_id: 'two', allow_inter_vm: false })
    expect(await talk(app, 'one', two, 8000)).toBe('refused')
  })
})
