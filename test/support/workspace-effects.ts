import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { isRoot } from './network-bench.ts'
import { openPublicSide, type PublicSide } from './public-side.ts'
import { newDataDir } from './real-server.ts'
import type { ServerHere } from './server-here.ts'

type Body = Record<string, unknown> & { error?: { code: string; details: Record<string, unknown> } }
type Reply = Readonly<{ status: number; body: Body }>
type Kit = Readonly<{
  serve(env?: Record<string, string>, dataDir?: string): Promise<ServerHere>
  call(server: ServerHere, tool: string, args?: object): Promise<Reply>
  send(server: ServerHere, path: string, args?: object, headers?: Record<string, string>): Promise<Reply>
  /** A server that the effects after it use too. */
  serveForAll(env: Record<string, string>): Promise<ServerHere>
  /** After all of them. */
  atTheEnd(cleanup: () => void): void
}>
type Effects = Readonly<Record<string, () => Promise<void>>>

/** No other test may use it. */
const PUBLIC_ADDRESS = '203.0.113.43'

/** One run of what tries several settings together; it is the outcome of each of them. */
export function once<T>(effect: () => Promise<T>): () => Promise<T> {
  let outcome: Promise<T> | undefined
  return () => (outcome ??= effect())
}

/** What each setting of workspaces does, through the real program and its real back end. */
export function workspaceEffects({ serve: serveWith, call, send, serveForAll, atTheEnd }: Kit): Effects {
  const named = (env: Record<string, string>): Record<string, string> => ({
    CASTELLAN_WORKSPACES_STORE_GB: '0',
    ...Object.fromEntries(Object.entries(env).map(([name, value]) => [`CASTELLAN_WORKSPACES_${name}`, value])),
  })
  const serve = (env: Record<string, string>, dataDir?: string) => serveWith(named(env), dataDir)
  const create = (server: ServerHere, args: object = {}) => call(server, 'workspace_create', args)

  const newFolder = (): string => {
    const folder = mkdtempSync(join(tmpdir(), 'castellan-effects-'))
    atTheEnd(() => rmSync(folder, { recursive: true, force: true }))
    return folder
  }
  /** One server and a workspace `w`, with settings of which none changes what shows another. */
  const together = once(async () => {
    const [transfers, mounted] = [newFolder(), newFolder()]
    const server = await serveForAll(
      named({
        ...{ DEFAULT_VCPUS: '1', DEFAULT_MEMORY_MB: '77', DEFAULT_DISK_GB: '3', DEFAULT_ALLOW_INTERNET: 'true' },
        ...{ MAX_SNAPSHOTS_PER_WORKSPACE: '0', FORWARD_PORTS: '18765-18766' },
        ...{ TRANSFER_DIR: transfers, MAX_TRANSFER_MB: '1', MOUNTS: `ro ${mounted}` },
      }),
    )
    const { body } = await create(server, { name: 'w' })
    return { server, transfers, mounted, created: body }
  })

  const defaults = async (): Promise<void> => {
    const { created } = await together()
    expect(created['resources']).toEqual({ vcpus: 1, memory_mb: 77, disk_gb: 3 })
  }
  const largest = once(async () => {
    const server = await serve({ MAX_VCPUS: '1', MAX_MEMORY_MB: '100', MAX_DISK_GB: '2', MAX_WORKSPACES: '1' })
    for (const args of [{ vcpus: 2 }, { memory_mb: 101 }, { disk_gb: 3 }]) {
      expect((await create(server, args)).body.error).toMatchObject({ code: 'ERR_INVALID_INPUT' })
    }
    expect((await create(server)).body['resources']).toEqual({ vcpus: 1, memory_mb: 100, disk_gb: 2 })
    expect((await create(server)).body.error).toMatchObject({ code: 'ERR_QUOTA_EXCEEDED' })
  })
  const quota = (name: string) => async (): Promise<void> => {
    const server = await serve({ [`QUOTA_${name.toUpperCase()}`]: '0' })
    const { body } = await call(server, 'api_key_create', { name: 'agent' })
    const headers = { authorization: `Bearer ${String(body['secret'])}` }
    const refused = await send(server, '/v1/tools/workspace_create', {}, headers)
    expect(refused.body.error).toMatchObject({ code: 'ERR_QUOTA_EXCEEDED', details: { quota: name, limit: 0 } })
  }
  /** How many forks were seen in the making at the same time. */
  const forksAtOnce = async (server: ServerHere): Promise<number> => {
    await create(server, { name: 'w' })
    await call(server, 'snapshot', { workspace_id: 'w', action: 'create', name: 's' })
    let isDone = false
    let most = 0
    const fork = call(server, 'workspace_fork', { workspace_id: 'w', snapshot_name: 's', count: 6 }).finally(() => {
      isDone = true
    })
    while (!isDone) {
      const { body } = await call(server, 'workspace_list', { state_filter: 'creating' })
      most = Math.max(most, Number(body['count']))
    }
    expect((await fork).body).toMatchObject({ success_count: 6 })
    return most
  }

  /** What a workspace gets of a host that wants a credential, with these settings and without the one in question. */
  const fetched = async (publicSide: PublicSide, settings: Record<string, string>): Promise<string> => {
    const server = await serve({ ...settings, DEFAULT_ALLOW_INTERNET: 'false' })
    await create(server, { name: 'w' })
    publicSide.appear()
    const domains = { workspace_id: 'w', allowed_domains: ['api.castellan.test'] }
    expect((await call(server, 'network_policy', domains)).status).toBe(200)
    const command = 'curl -sS --fail --max-time 20 https://api.castellan.test/'
    const { body } = await call(server, 'exec', { workspace_id: 'w', command })
    publicSide.disappear()
    return `${String(body['stdout'])}${String(body['stderr'])}`
  }
  /** What a workspace gets with all settings but one of them. */
  const welcomedWithout = async (name?: string): Promise<string> => {
    const publicSide = await openPublicSide({
      address: PUBLIC_ADDRESS,
      answer: ({ headers: { authorization } }, response) =>
        void response.writeHead(authorization === 'Bearer s3cret-of-a-test' ? 200 : 401).end('welcome'),
    })
    process.env['EFFECTS_AUTHORIZATION'] = 'Bearer s3cret-of-a-test'
    try {
      const settings: Record<string, string> = {
        CREDENTIALS: 'api.castellan.test Authorization env:EFFECTS_AUTHORIZATION',
        CA_FILE: publicSide.authorityFile,
        DNS_SERVER: PUBLIC_ADDRESS,
      }
      if (name !== undefined) delete settings[name]
      return await fetched(publicSide, settings)
    } finally {
      delete process.env['EFFECTS_AUTHORIZATION']
      await publicSide.close()
    }
  }
  const welcome = once(async () => expect(await welcomedWithout()).toBe('welcome'))
  /** Only root can have an internet of its own; what is wrong with a setting is told to everybody. */
  const egress = (name: string, wrong: string) => async (): Promise<void> => {
    await expect(serve({ [name]: wrong })).rejects.toThrow('castellan serve ended')
    if (!isRoot) return
    await welcome()
    expect(await welcomedWithout(name)).toMatch(/^curl: /)
  }

  return {
    async 'workspaces.default_image'() {
      const refused = await create(await serve({ DEFAULT_IMAGE: 'no-such-image' }))
      expect(refused.body.error).toMatchObject({ details: { field: 'base_image' } })
    },
    'workspaces.default_vcpus': defaults,
    'workspaces.default_memory_mb': defaults,
    'workspaces.default_disk_gb': defaults,
    'workspaces.max_vcpus': largest,
    'workspaces.max_memory_mb': largest,
    'workspaces.max_disk_gb': largest,
    'workspaces.max_workspaces': largest,
    'workspaces.quota.workspaces': quota('workspaces'),
    'workspaces.quota.memory_mb': quota('memory_mb'),
    'workspaces.quota.disk_gb': quota('disk_gb'),
    async 'workspaces.max_snapshots_per_workspace'() {
      const { server } = await together()
      const refused = await call(server, 'snapshot', { workspace_id: 'w', action: 'create', name: 's' })
      expect(refused.body.error).toMatchObject({ code: 'ERR_QUOTA_EXCEEDED', details: { limit: 0 } })
    },
    async 'workspaces.max_concurrent_forks'() {
      expect(await forksAtOnce(await serve({}))).toBeGreaterThan(1)
      expect(await forksAtOnce(await serve({ MAX_CONCURRENT_FORKS: '1' }))).toBeLessThanOrEqual(1)
    },
    async 'workspaces.default_allow_internet'() {
      const { server } = await together()
      const { body } = await call(server, 'workspace_info', { workspace_id: 'w' })
      expect(body['network']).toMatchObject({ allow_internet: true })
    },
    async 'workspaces.transfer_dir'() {
      const { server, transfers } = await together()
      mkdirSync(join(transfers, 'sub'))
      writeFileSync(join(transfers, 'sub/file'), 'carried')
      const request = { workspace_id: 'w', direction: 'upload', host_path: 'sub/file', guest_path: '/file' }
      expect((await call(server, 'file_transfer', request)).body).toMatchObject({ bytes: 7 })
    },
    async 'workspaces.mounts'() {
      const { server, mounted } = await together()
      writeFileSync(join(mounted, 'file'), 'seen')
      const mount = [{ host_path: mounted, path: '/seen' }]
      expect((await create(server, { name: 'sees', mount })).status).toBe(200)
      expect((await call(server, 'exec', { workspace_id: 'sees', command: 'cat /seen/file' })).body).toMatchObject({
        stdout: 'seen',
      })
      expect((await create(server, { mount: [{ ...mount[0], mode: 'rw' }] })).status).toBe(403)
    },
    async 'workspaces.max_transfer_mb'() {
      const { server } = await together()
      const command = 'truncate -s 1M /fits; truncate -s 1048577 /exceeds'
      await call(server, 'exec', { workspace_id: 'w', command })
      const fetch = (guest_path: string) =>
        call(server, 'file_transfer', { workspace_id: 'w', direction: 'download', host_path: 'file', guest_path })
      expect((await fetch('/exceeds')).status).toBe(413)
      expect((await fetch('/fits')).body).toMatchObject({ bytes: 1024 ** 2 })
    },
    'workspaces.credentials': egress('CREDENTIALS', 'api.castellan.test Authorization'),
    'workspaces.ca_file': egress('CA_FILE', '/nowhere/authority.pem'),
    'workspaces.dns_server': egress('DNS_SERVER', '127.0.0.53'),
    async 'workspaces.forward_ports'() {
      for (const wrong of ['80-90', '30000-20000', '20000']) {
        await expect(serve({ FORWARD_PORTS: wrong })).rejects.toThrow('castellan serve ended')
      }
      const { server } = await together()
      const add = (guest_port: number) => call(server, 'port_forward', { workspace_id: 'w', action: 'add', guest_port })
      const input = [await add(80), await add(81)].map(({ body }) => Number(body['host_port']))
      expect(input.toSorted()).toEqual([18_765, 18_766])
      expect((await add(82)).body.error).toMatchObject({ code: 'ERR_BUSY' })
      const dataDir = newDataDir()
      const config = { workspaces: { forward_ports: { from: 18_767, to: 18_767 } } }
      writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
      const configured = await serve({}, dataDir)
      await create(configured, { name: 'w' })
      const added = await call(configured, 'port_forward', { workspace_id: 'w', action: 'add', guest_port: 80 })
      expect(added.body).toMatchObject({ host_port: 18_767 })
    },
    /** Only root has such a file; for others there is nothing to see of it. */
    async 'workspaces.store_gb'() {
      const servers = [await serve({ STORE_GB: '0' }), await serve({ STORE_GB: '3' })]
      for (const server of servers) expect((await create(server)).status).toBe(200)
      const [none, some] = servers.map(({ dataDir }) => join(dataDir, 'workspaces/store.btrfs'))
      expect(existsSync(none!)).toBe(false)
      if (process.getuid?.() === 0) expect(statSync(some!).size).toBe(3 * 1024 ** 3)
    },
    async 'workspaces.quota.transfer_mb'() {
      const server = await serve({ QUOTA_TRANSFER_MB: '1' })
      const { body } = await call(server, 'api_key_create', { name: 'agent' })
      const headers = { authorization: `Bearer ${String(body['secret'])}` }
      const ask = (tool: string, args: object) => send(server, `/v1/tools/${tool}`, args, headers)
      await ask('workspace_create', { name: 'w' })
      await ask('exec', { workspace_id: 'w', command: 'truncate -s 1M /fits; truncate -s 1 /more' })
      const fetch = (guest_path: string) =>
        ask('file_transfer', { workspace_id: 'w', direction: 'download', host_path: guest_path.slice(1), guest_path })
      expect((await fetch('/fits')).status).toBe(200)
      expect((await fetch('/more')).body.error).toMatchObject({ code: 'ERR_QUOTA_EXCEEDED' })
    },
    async 'workspaces.host_reserve_mb'() {
      const server = await serve({ STORE_GB: '1', HOST_RESERVE_MB: '1048576' })
      const { status, body } = await create(server)
      if (process.getuid?.() !== 0) return
      expect(status).toBe(503)
      expect(JSON.stringify(body)).toContain('beside the 1048576 MiB of workspaces.host_reserve_mb')
    },
    async 'workspaces.tenant_share_percent'() {
      const server = await serve({ STORE_GB: '1', TENANT_SHARE_PERCENT: '2' })
      expect((await create(server, { name: 'w' })).status).toBe(200)
      const command = 'head -c 64M /dev/zero > /fill'
      const { body } = await call(server, 'exec', { workspace_id: 'w', command })
      if (process.getuid?.() === 0) expect(body['stderr']).toContain('quota exceeded')
    },
  }
}
